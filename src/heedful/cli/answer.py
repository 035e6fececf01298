"""`heedful answer`: the span of a passage that answers a question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from heedful.cli.verb import Request, own_option, show_results, verb_command
from heedful.errors import InputError, UsageError

EXAMPLES = """Examples:

`heedful answer runs/question-answering "What is the currency of Japan?" --passage japan.txt`

`heedful answer runs/question-answering --input questions.jsonl --json     # {"question": …, "passage": …} per line`
"""


def answer_lines(request: Request) -> None:
    """Answer questions from the passage of --passage, or from JSON lines with "question" and "passage"."""
    from heedful.data.lines import read_lines

    path = request.own["passage"]
    passage = "\n".join(read_lines(path)) if path else None
    groups = ([_question(line, passage) for line in group] for group in request.groups)
    show_results(replace(request, groups=_refused_if_all_plain(groups)))


def _question(line: str, passage: str | None) -> tuple[str, str] | InputError:
    """A line as (question, passage), or an error that says why it cannot be one."""
    if passage is not None:
        return line, passage
    try:
        row = json.loads(line)
        pair = (row["question"], row["passage"] if "passage" in row else row["context"])
    except (ValueError, TypeError, KeyError, RecursionError):
        if not line.lstrip().startswith("{"):
            return NoPassage(line)
        return InputError(f'this line is not a JSON object with "question" and "passage": {line[:80]}', 0)
    if not all(isinstance(part, str) for part in pair):
        return InputError(f'"question" and "passage" must be text in {line[:80]}', 0)
    return pair


class NoPassage(InputError):
    """A plain question without a passage to answer it from."""

    def __init__(self, line: str) -> None:
        super().__init__(f"there is no passage to answer it from: {line[:80]}", 0)


def _refused_if_all_plain(groups: Iterator[list[tuple[str, str] | InputError]]) -> Iterator[list[tuple[str, str] | InputError]]:
    """Pass the groups through; if the first has nothing but plain questions, --passage was forgotten."""
    for number, group in enumerate(groups):
        if number == 0 and all(isinstance(given, NoPassage) for given in group):
            raise UsageError('give --passage FILE, or JSON lines of {"question": …, "passage": …}')
        yield group


passage = own_option("passage", Path | None, None, "A text file to find the answers in.")
answer = verb_command("answer", "runs/question-answering", answer_lines, [passage])

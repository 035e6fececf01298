"""Writes the pages that follow from the code: docs/settings.md from the fields of settings, docs/cli.md from the commands.

`python docs/reference.py` writes them, `python docs/reference.py --check` fails when a page is not current.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from annotated_types import Interval

from heedful.cli.main import app
from heedful.jobs.registry import TRAINABLE, VERBS, Job
from heedful.models import config_class
from heedful.models.presets import PRESETS
from heedful.recipes.recipe import ORIGIN, SECTIONS
from heedful.settings import WORDS, hints, parts_of

FOLDER = Path(__file__).parent
NOTICE = "<!-- Written by docs/reference.py from the code; `make docs` writes it again. -->"
MODEL_KINDS = list(dict.fromkeys(kind for job in TRAINABLE.values() for kind in job.kinds))
MODELS = {
    "seq2seq": "the Transformer of the paper: encoder and decoder",
    "recurrent": "the recurrent encoder–decoder that came before it",
    "gpt": "decoder only",
    "bert": "encoder only",
    "vit": "Vision Transformer, an encoder of image patches",
}
FORMATS = {
    "translation": "two aligned text files; or one `.tsv` (source, tab, target) or `.jsonl` (`source`, `target`)",
    "summarization": '`.jsonl`: `{"document": …, "summary": …}`',
    "language-model": "plain text",
    "bert-pretraining": "plain text, one sentence per line, a blank line between documents",
    "classification": '`.csv` or `.tsv` of text and label, with or without a header; or `.jsonl`: `{"text": …, "label": …}`',
    "tagging": "CoNLL: one word per line, its tag in the last column, a blank line between sentences",
    "question-answering": "SQuAD v1.1 JSON",
    "image-classification": "a folder with one sub-folder of images per class",
}
ORIGINS = {
    "kind": "the kind of model; see the list of jobs for those that fit",
    "preset": "a named size of that kind, see [Presets](#presets); one named on the command line also sets its training settings",
    "pretrained": "a model directory to start from, such as an imported BERT: it decides the shape and the vocabulary",
}
INTRODUCTION = """
A recipe is a TOML file with five sections. `heedful recipes` lists the shipped ones, `heedful recipes NAME` prints one with
every value, and `heedful train mine.toml` trains your own. On the command line any value is `section.key=value`; an unknown
name is an error that suggests the nearest. Values are layered: the defaults below, then the recipe's preset, then the recipe,
then a preset named on the command line, then the other overrides. A recipe with `fit = true`, such as `translation`, leaves
open what depends on the data; it is chosen [when training begins](howto/translation.md#train).

How training behaves, and which of these to change first: [Training](training.md)."""


def settings_page() -> str:
    """docs/settings.md."""
    parts = [
        "# Settings",
        NOTICE,
        INTRODUCTION,
        "## Jobs",
        "`task` in a recipe names the job, which decides the format of its data.",
    ]
    parts.append(table(("job", "data", "kinds of model", "metrics, the first is the default"), map(job_row, TRAINABLE.values())))
    parts += ["## data", *data_sections()]
    for section, settings in SECTIONS.items():
        if section == "training":
            parts += ["## model", *model_sections()]
        parts += [f"## {section}", settings.__doc__ or "", settings_table(settings)]
    parts += ["## Presets", "Named sizes, for `model.preset`.", *preset_tables()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def job_row(job: Job) -> tuple[str, ...]:
    """A row of the table of jobs."""
    return code(job.name), FORMATS[job.name], ", ".join(map(code, job.kinds)), ", ".join(map(code, job.metrics))


def data_sections() -> Iterator[str]:
    """One table per class of data settings, under the jobs that use it."""
    by_class: dict[Any, list[str]] = {}
    for job in TRAINABLE.values():
        by_class.setdefault(job.data, []).append(job.name)
    yield "Files are UTF-8, plain or gzip."
    for settings, jobs in by_class.items():
        yield f"### {', '.join(jobs)}"
        generated = ", ".join(f"`{name}`" for job in jobs for name in TRAINABLE[job].generate)
        yield f"{settings.__doc__} `generate` may be {generated}; giving your own files switches it off."
        yield settings_table(settings)


def model_sections() -> Iterator[str]:
    """One table per kind of model, after the settings that all of them have."""
    yield table(("key", "value", "default", "meaning"), ((code(key), "text", "", ORIGINS[key]) for key in ORIGIN))
    for kind in MODEL_KINDS:
        jobs = [job for job in TRAINABLE.values() if kind in job.kinds]
        fixed = {key for job in jobs for key in job.fixed}
        yield f"### {kind}"
        yield f"{MODELS[kind].capitalize()}. For {', '.join(job.name for job in jobs)}. Presets and recipes set other values."
        yield settings_table(config_class(kind), fixed)


def preset_tables() -> Iterator[str]:
    """One table of presets per kind of model."""
    for kind in MODEL_KINDS:
        rows = []
        for name, preset in PRESETS.items():
            if preset.kind == kind:
                size = f"{preset.parameters:g} million" if preset.parameters else ""
                trained = ", ".join(f"`{key}={value}`" for key, value in preset.training.items())
                rows.append((code(name), preset.about, size, trained))
        header = ("preset", "what it is", "parameters, as published", "training settings it brings")
        yield f"### Presets of {kind}"
        yield table(header if any(row[3] for row in rows) else header[:3], rows)


def settings_table(settings: Any, without: Iterable[str] = ()) -> str:
    """Every field of a class of settings: what it may be, its default and its meaning."""
    types = hints(settings)
    rows = [
        (code(one.name), values_of(types[one.name]), default_of(one.default), one.metadata.get("about", ""))
        for one in sorted(dataclasses.fields(settings), key=lambda one: one.kw_only is True)  # a model's own settings first
        if one.name not in without
    ]
    return table(("key", "value", "default", "meaning"), rows)


def values_of(hint: Any) -> str:
    """What a field may hold, in words: its choices, or its type and range."""
    kind, optional, interval, choices = parts_of(hint)
    if choices:
        found = ", ".join(code(choice) for choice in choices)
    else:
        found = WORDS[kind].removeprefix("a ") + (f", {range_of(interval)}" if interval else "")
    return found + (", or none" if optional else "")


def range_of(interval: Interval) -> str:
    """`1 … 1,000`, `0 … < 1`"""
    upper: Any = interval.le if interval.le is not None else interval.lt
    if upper is None:
        return f"at least {interval.ge:,}"
    largest = f"{upper:,}" if upper < 10**9 else f"{upper:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{interval.ge:,} … {'' if interval.le is not None else '< '}{largest}"


def default_of(value: Any) -> str:
    """A default as it is written in a recipe."""
    if value is dataclasses.MISSING or value == "":
        return ""
    return code("none" if value is None else str(value).lower() if isinstance(value, bool) else value)


def cli_page() -> str:
    """docs/cli.md."""
    command: Any = typer.main.get_command(app)
    verbs = command.commands
    parts = ["# Command line", NOTICE, command.help]
    parts.append(
        "Every verb that uses a model takes arguments, `--input FILE` or standard input, writes one result per input in order, "
        "and has `--json`; where a model directory is asked for, a run stands for its best model. Results go to standard output, "
        "all else to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + signal when stopped by one."
    )
    parts.append(parameter_table(command))
    parts.append(table(("verb", "what it does"), ((f"[`{name}`](#{name})", sentence(verb.help)) for name, verb in verbs.items())))
    for name, verb in verbs.items():
        usage = " ".join(["heedful", name, "[OPTIONS]", *map(placeholder, arguments_of(verb))])
        parts += [f"## {name}", f"{verb.help}", f"```text\n{usage}\n```"]
        if name in VERBS:
            parts.append(f"Its result is a [`{VERBS[name].result.__name__}`](api/jobs.md) for each input.")
        parts.append(parameter_table(verb))
        examples = [line.strip().strip("`") for line in (verb.epilog or "").splitlines() if line.startswith("`")]
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def arguments_of(verb: Any) -> list[Any]:
    """The positional parameters of a command."""
    return [parameter for parameter in verb.params if parameter.param_type_name == "argument"]


def placeholder(argument: Any) -> str:
    """An argument in a usage line: `MODEL`, `[TEXT]...`"""
    if argument.metavar:
        return str(argument.metavar)
    return (argument.name.upper() if argument.required else f"[{argument.name.upper()}]") + "..." * (argument.nargs == -1)


def parameter_table(verb: Any) -> str:
    """Arguments and options of a command with their defaults."""
    rows = []
    for one in verb.params:
        if one.name in ("help", "install_completion", "show_completion"):
            continue
        argument = one.param_type_name == "argument"
        names = code(one.metavar or one.name.upper()) if argument else ", ".join(map(code, one.opts))
        silent = argument or one.default is None or one.default is False or one.default == ""
        default = "" if silent else code(one.default)
        rows.append((names, default, one.help or ""))
    return table(("argument or option", "default", "meaning"), rows)


def sentence(text: str | None) -> str:
    """The first sentence of a help text."""
    return (text or "").split(". ")[0].rstrip(".").replace("\n", " ")


def code(value: Any) -> str:
    """`value`"""
    return f"`{value}`"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; rows may be longer than the header, which decides."""
    names = list(header)
    lines = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row][: len(names)] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [names, ["---"] * len(names), *lines])


PAGES = {FOLDER / "settings.md": settings_page, FOLDER / "cli.md": cli_page}


def main() -> int:
    """Write the pages, or check them; the number of pages that are not current."""
    outdated = [path for path, page in PAGES.items() if not path.is_file() or path.read_text(encoding="utf-8") != page()]
    for path in outdated:
        if "--check" in sys.argv:
            print(f"{path.relative_to(FOLDER.parent)} is not current; run `make docs`")
        else:
            path.write_text(PAGES[path](), encoding="utf-8")
            print(f"wrote {path.relative_to(FOLDER.parent)}")
    return len(outdated) if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())

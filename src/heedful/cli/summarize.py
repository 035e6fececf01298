"""`heedful summarize`: summarize documents."""

from __future__ import annotations

from dataclasses import replace

from heedful.cli.verb import Request, backend, own_option, show_results, verb_command

EXAMPLES = """Examples:

`heedful summarize runs/summarization "A long text. It goes on. And on."`

`heedful summarize runs/summarization --input documents.txt     # one document per line`

`heedful summarize runs/summarization --input report.txt --whole`
"""


def summarize_lines(request: Request) -> None:
    """Each line is a document, or all lines together are one."""
    if request.own["whole"]:
        request = replace(request, groups=iter([["\n".join(line for group in request.groups for line in group)]]))
    show_results(request)


whole = own_option("whole", bool, False, "All lines of the input are one document.")
summarize = verb_command("summarize", "runs/summarization", summarize_lines, [whole, backend])

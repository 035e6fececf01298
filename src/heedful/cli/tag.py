"""`heedful tag`: a tag for every word."""

from __future__ import annotations

from heedful.cli.verb import verb_command

EXAMPLES = """Examples:

`heedful tag runs/tagging "Sonntag, 15. November 2026"`

`heedful tag runs/ner --input sentences.txt --json`
"""

tag = verb_command("tag", "runs/tagging")

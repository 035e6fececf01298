"""`heedful translate`: lines in, lines out, in order, as they come."""

from __future__ import annotations

from heedful.cli.verb import verb_command

EXAMPLES = """Examples:

`heedful translate runs/dates/best "15. November 2026"`

`heedful translate runs/en-de/best --input test.en > test.out`

`cat test.en | heedful translate runs/en-de/best --beam 5 --n-best 3 --json`
"""

translate = verb_command("translate", "runs/dates/best")

"""`heedful translate`: translate lines of text, in order, as they arrive."""

from __future__ import annotations

from heedful.cli.verb import backend, output, to, verb_command

EXAMPLES = """Examples:

`heedful translate runs/dates/best "15. November 2026"`

`heedful translate runs/en-de/best --input test.en > test.out`

`heedful translate runs/en-de/best --input huge.en.gz --output huge.de`

`cat test.en | heedful translate runs/en-de/best --beam 5 --n-best 3 --json`

`heedful translate runs/both --to en "Ein Hund rennt."`
"""

translate = verb_command("translate", "runs/dates/best", own=[to, output, backend])

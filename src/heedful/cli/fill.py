"""`heedful fill`: masked words guessed from the words on both sides."""

from __future__ import annotations

from heedful.cli.verb import verb_command

EXAMPLES = """Examples:

`heedful fill runs/bert-pretraining "the import [MASK] is used to find modules"`

`heedful fill bert-base "Paris is the [MASK] of France." --top 3 --json`
"""

fill = verb_command("fill", "runs/bert-pretraining")

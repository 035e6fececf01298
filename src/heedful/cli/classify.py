"""`heedful classify`: the class of a text or an image."""

from __future__ import annotations

from heedful.cli.verb import verb_command

EXAMPLES = """Examples:

`heedful classify runs/classification "Frankreich" "Γαλλία"`

`heedful classify runs/sst2 --input reviews.txt --top 2 --json`

`heedful classify runs/image-classification digit.png`
"""

classify = verb_command("classify", "runs/classification")

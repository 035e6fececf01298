"""`heedful generate`: text that continues a prompt."""

from __future__ import annotations

from heedful.cli.verb import verb_command

EXAMPLES = """Examples:

`heedful generate runs/language-model "The import statement"`

`heedful generate runs/language-model "" --length 500 --temperature 0.8 --top-k 40 --seed 7`

`heedful generate runs/language-model "A class is" --beam 4`
"""

generate = verb_command("generate", "runs/language-model")

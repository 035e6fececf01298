"""`heedful import`: convert another library's model to a heedful model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful import downloads/all-MiniLM-L6-v2 minilm`

`heedful import downloads/gpt2 gpt2 && heedful generate gpt2 "Once upon a time"`
"""


def import_(
    model: Annotated[
        Path, typer.Argument(help="A Hugging Face directory (config.json, *.safetensors, tokenizer), or a file in it.")
    ],
    out: Annotated[Path, typer.Argument(help="The model directory to write.")],
) -> None:
    """Convert a Hugging Face model (BERT, sentence encoders, GPT-2, ViT, Marian). Nothing in it is executed."""
    from heedful.interop.huggingface import import_huggingface

    typer.echo(import_huggingface(model, out))

"""`heedful embed`: sentences as vectors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful embed minilm --input sentences.txt --output vectors.npy`

`heedful embed minilm "a dog runs" "ein Hund rennt"     # JSON lines`
"""


def embed(
    model: Annotated[Path, typer.Argument(help="A model directory or a run with a BERT inside.")],
    text: Annotated[list[str] | None, typer.Argument(help="Sentences; without them, lines are read from stdin.")] = None,
    input: Annotated[Path | None, typer.Option(help="A file with a sentence a line (plain or gzip).")] = None,
    output: Annotated[Path | None, typer.Option(help="Write a NumPy array (.npy) or JSON lines (.jsonl) here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines on standard output, as without --output.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Turn sentences into vectors: (N, D) in a .npy file, or one JSON object a line."""
    import numpy as np

    from heedful.errors import HeedfulError, UsageError
    from heedful.files import write_whole
    from heedful.pipelines import load_pipeline
    from heedful.pipelines.embedder import Embedder
    from heedful.training.device import pick_device

    if output and output.suffix not in (".npy", ".jsonl"):
        raise UsageError(f"{output} must end in .npy or .jsonl")
    if output and not output.absolute().parent.is_dir():
        raise HeedfulError(f"there is no directory {output.parent} to write {output.name} into")
    tasks = ("embedding", "bert-pretraining", "classification", "tagging", "question-answering")
    found = load_pipeline(model, pick_device(device), "embed", tasks)
    embedder = found if isinstance(found, Embedder) else Embedder.of(found)
    kept: list[str] = []
    vectors = []
    for group in groups_of_lines(text, input):
        values = embedder.embed(group)
        if output:
            kept += group
            vectors.append(values)
            continue
        for line, vector in zip(group, values, strict=True):
            print(_json_line(line, vector))
        sys.stdout.flush()
    if not output:
        return
    whole = np.concatenate(vectors) if vectors else np.zeros((0, embedder.model.config.d_model), dtype=np.float32)
    if output.suffix == ".npy":

        def save(path: Path) -> None:
            with open(path, "wb") as file:  # given a name, NumPy would add an ending to it
                np.save(file, whole)

        write_whole(output.absolute(), save)
    else:
        lines = "".join(_json_line(line, vector) + "\n" for line, vector in zip(kept, whole, strict=True))
        output.write_text(lines, encoding="utf-8")
    typer.echo(f"{len(whole):,} vectors of {whole.shape[1]} in {output}")


def _json_line(line: str, vector: object) -> str:
    """A sentence and its vector, with the digits that a float32 has."""
    import numpy as np

    values = [float(f"{value:.8g}") for value in np.asarray(vector)]
    return json.dumps({"text": line, "vector": values}, ensure_ascii=False)

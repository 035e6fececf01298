"""`heedful embed`: sentences as vectors."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from heedful.cli.verb import Request, own_option, verb_command
from heedful.errors import HeedfulError, UsageError

EXAMPLES = """Examples:

`heedful embed minilm --input sentences.txt --output vectors.npy`

`heedful embed minilm "a dog runs" "ein Hund rennt"     # JSON lines`
"""


def embed_lines(request: Request) -> None:
    """Vectors as a NumPy array (N, D), or as one JSON object per line."""
    import numpy as np

    from heedful.pipelines.embedder import Embedder
    from heedful.runtime.files import write_text, write_whole

    output: Path | None = request.own["output"]
    if output and output.suffix not in (".npy", ".jsonl"):
        raise UsageError(f"{output} must end in .npy or .jsonl")
    if output and not output.absolute().parent.is_dir():
        raise HeedfulError(f"there is no directory {output.parent} to write {output.name} into")
    assert isinstance(request.pipeline, Embedder)
    width = request.pipeline.model.config.d_model
    rows: list[str] = []
    vectors = [np.zeros((0, width), dtype=np.float32)]
    for group in request.groups:
        if output and output.suffix == ".npy":
            vectors.append(request.pipeline.vectors(group))
            continue
        lines = [json.dumps(result.as_json(), ensure_ascii=False) for result in request.pipeline.run(group)]
        if output:
            rows += lines
        else:
            print(*lines, sep="\n", flush=True)
    if not output:
        return
    if output.suffix == ".npy":

        def save(path: Path) -> None:
            with open(path, "wb") as file:  # given a name, NumPy would add a suffix to it
                np.save(file, np.concatenate(vectors))

        write_whole(output.absolute(), save)
    else:
        write_text(output.absolute(), "".join(f"{row}\n" for row in rows))
    count = len(rows) or sum(map(len, vectors))
    typer.echo(f"{count:,} vectors of {width} in {output}")


output = own_option("output", Path | None, None, "Write a NumPy array (.npy) or JSON lines (.jsonl) here.")
embed = verb_command("embed", "minilm", embed_lines, [output])

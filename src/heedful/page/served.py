"""The page as a server needs it: the card of a model, and the file of its weights."""

from __future__ import annotations

from pathlib import Path

from heedful.errors import HeedfulError
from heedful.page.browser_tokenizer import browser_tokenizer
from heedful.page.model_file import about, compressed, pack_model
from heedful.page.runnable import check_runnable
from heedful.page.samples import samples_of_run
from heedful.pipelines.pipeline import AnyPipeline
from heedful.settings import JsonObject

LEVEL = 6  # compression level; low, because a reader is waiting


def served_card(pipeline: AnyPipeline, folder: Path) -> JsonObject:
    """What the page shows of a model before it has the weights; `problem` says why it can never have them."""
    from heedful.models import kind_of
    from heedful.pipelines.model_directory import find_directory

    config = pipeline.model.config
    name = folder.name
    problem = ""
    try:
        check_runnable(name, kind_of(config), config, sum(weight.numel() for weight in pipeline.model.parameters()))
        for key, tokenizer in pipeline.tokenizers.items():
            browser_tokenizer(tokenizer, f"the {key} of {name}")
    except HeedfulError as error:
        problem = str(error)
    samples = samples_of_run(find_directory(folder), pipeline.task)
    return {"kind": kind_of(config), "bits": 16, "about": about(pipeline), "samples": samples, "problem": problem}


def write_model_file(folder: str, name: str, path: str) -> None:
    """Pack a model directory. Run in a process of its own, so that a server's memory stays small."""
    from heedful.pipelines import load_pipeline
    from heedful.pipelines.model_directory import find_directory

    found = find_directory(Path(folder))
    pipeline = load_pipeline(found)
    packed = pack_model(pipeline, name, samples=samples_of_run(found, pipeline.task))
    Path(path).write_bytes(compressed(packed, LEVEL))

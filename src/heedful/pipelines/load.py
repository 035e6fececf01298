"""A model directory loaded as the pipeline of its job, or for a verb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from heedful.errors import HeedfulError
from heedful.jobs.registry import JOBS, jobs_of
from heedful.pipelines.model_directory import find_directory, read_config
from heedful.pipelines.pipeline import AnyPipeline


def load_pipeline(folder: str | Path, device: str | torch.device = "cpu") -> Any:
    """The model in a directory (or the best one of a run) as the pipeline of its job, ready to use.

    Which pipeline that is depends on the directory; `heedful.load` with a `job` has a precise type.
    """
    found = find_directory(Path(folder))
    return JOBS[read_config(found)["task"]].pipeline_class.load(found, device)


def load_for_verb(verb: str, folder: str | Path, device: str | torch.device = "cpu") -> AnyPipeline:
    """The model in a directory, ready for a verb; raises an error if the verb cannot use such a model."""
    task = read_config(find_directory(Path(folder)))["task"]
    fitting = jobs_of(verb)
    if task not in [job.name for job in fitting]:
        needed = " or ".join(job.what for job in fitting)
        raise HeedfulError(f"{folder} is {JOBS[task].what}; `{verb}` needs {needed}")
    pipeline: AnyPipeline = load_pipeline(folder, device)
    if verb == "embed" and task != "embedding":
        from heedful.pipelines.embedder import Embedder
        from heedful.pipelines.encoder import EncoderPipeline

        assert isinstance(pipeline, EncoderPipeline)
        return Embedder.of(pipeline)
    return pipeline

"""Exports a model to another library's format, and verifies it by loading it there."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from heedful.errors import HeedfulError, UsageError, did_you_mean
from heedful.interop.known_settings import refuse
from heedful.interop.proof import sample_texts
from heedful.jobs.registry import JOBS
from heedful.pipelines.load import load_pipeline
from heedful.runtime.files import refuse_to_overwrite, whole_directory, write_whole


@dataclass(frozen=True)
class Format:
    """A format and what it needs. Its module has `problems`, `write`, `check` and the precisions `QUANTIZE`."""

    name: str
    module: str  # module of heedful.interop
    needs: tuple[str, ...]  # modules that write it
    loads: tuple[str, ...]  # modules that load it, for the check
    install: str  # what to install with pip
    loader: str = ""  # what to install for the check, if it is something else
    checker: str = ""  # the module of `check`, if it is another one
    suffix: str = ""  # suffix of its file; empty for a directory

    def missing(self, modules: tuple[str, ...]) -> list[str]:
        """Those that are not installed."""
        return [name for name in modules if find_spec(name) is None]


FORMATS = {
    found.name: found
    for found in (
        Format("huggingface", "huggingface", (), ("transformers",), "transformers>=5", checker="huggingface_check"),
        Format("ctranslate2", "ctranslate2", ("ctranslate2",), ("ctranslate2",), "heedful[fast]"),
        Format("onnx", "onnx", ("onnx",), ("onnxruntime",), "heedful[onnx]"),
        Format("argos", "argos", ("ctranslate2", "onnx", "sentencepiece"), (), "heedful[argos]", suffix=".argosmodel"),
        Format("gguf", "gguf", ("gguf",), ("llama_cpp",), "heedful[gguf]", "llama-cpp-python", suffix=".gguf"),
    )
}


def export_model(folder: Path, out: Path, to: str, quantize: str | None = None, check: bool = True) -> list[str]:
    """Write a model directory in another format, and verify that it is the same model there; returns a report."""
    if to not in FORMATS:
        raise UsageError(f"there is no format '{to}'{did_you_mean(to, FORMATS)}")
    form = FORMATS[to]
    module: Any = import_module(f"heedful.interop.{form.module}")
    if quantize is not None and quantize not in module.QUANTIZE:
        known = f"it has {', '.join(module.QUANTIZE)}" if module.QUANTIZE else "it is always float32"
        raise UsageError(f"{to} has no precision '{quantize}'; {known}")
    out = out if out.suffix == form.suffix or not form.suffix else out.with_name(out.name + form.suffix)
    refuse_to_overwrite(out, form.suffix)
    if missing := form.missing(form.needs):
        raise HeedfulError(f"--to {to} needs {', '.join(missing)}; install it with: pip install '{form.install}'")
    pipeline = load_pipeline(folder)
    refuse({"huggingface": "transformers"}.get(to, to), module.problems(pipeline))
    said: list[str] = []

    def write(place: Path) -> None:
        said[:] = [f"wrote {JOBS[pipeline.task].what} to {out} {module.write(pipeline, place, quantize)}"]
        if check and not (missing := form.missing(form.loads)):
            prover: Any = import_module(f"heedful.interop.{form.checker or form.module}")
            comparison = prover.check(pipeline, place, *sample_texts(pipeline, folder), quantize)
            comparison.check()
            said.append(f"checked: {comparison.sentence()}")
        elif check:
            install = f"pip install '{form.loader or form.install}'"
            said.append(f"not checked: {', '.join(missing)} is not installed; {install} and export again")

    if form.suffix:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, write)
    else:
        with whole_directory(out) as place:
            write(place)
    return said

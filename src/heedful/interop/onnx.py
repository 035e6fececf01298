"""Export to ONNX: an encoder and a decoder step for translation, one model for every other job."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.data.collation import frame
from heedful.decoding.sentence import Hypothesis, Limits
from heedful.interop.known_settings import Obstacle, unknown_settings
from heedful.interop.onnx_graph import Graph
from heedful.interop.onnx_models import bert_graph, decoder_graph, encoder_graph, gpt_graph, vit_graph
from heedful.interop.proof import (
    WRITTEN,
    Answer,
    Comparison,
    compare,
    image_answers,
    native_rows,
    native_texts,
    sample_images,
    text_answer,
    token_rows,
)
from heedful.models import kind_of
from heedful.models.weights import named_weights
from heedful.pipelines.encoder import AnyEncoder, EncoderPipeline
from heedful.pipelines.pipeline import AnyPipeline
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer
from heedful.runtime.files import write_text
from heedful.settings import JsonObject

QUANTIZE = ("int8",)
BATCH = 7  # inputs of different lengths per batch of the check
Arrays = dict[str, NDArray[Any]]


def problems(pipeline: AnyPipeline) -> list[Obstacle]:
    """Every setting of a model that cannot be exported to ONNX."""
    config = pipeline.model.config
    if kind_of(config) == "recurrent":
        return [Obstacle("kind = 'recurrent' (only Transformers)", "model.kind=seq2seq")]
    return unknown_settings(config)


def graphs(pipeline: AnyPipeline, share: bool = True) -> dict[str, Graph]:
    """Name of the file, without .onnx → graph. For `share` see `Graph`."""
    config, weights = pipeline.model.config, named_weights(pipeline.model)
    weights = {name: weight.cpu() for name, weight in weights.items()}
    kind = kind_of(config)
    if kind == "seq2seq":
        return {"encoder": encoder_graph(config, weights, share), "decoder": decoder_graph(config, weights, share)}
    build: Any = {"gpt": gpt_graph, "bert": bert_graph, "vit": vit_graph}[kind]
    return {"model": build(config, weights, share)}


def write(pipeline: AnyPipeline, folder: Path, quantize: str | None = None) -> str:
    """Write the graphs, the tokenizers and the facts needed to use them; returns a description."""
    files = graphs(pipeline, share=quantize is None)
    for name, graph in files.items():
        graph.save(folder / f"{name}.onnx")
        if quantize:
            to_int8(folder / f"{name}.onnx")
    for name, tokenizer in pipeline.tokenizers.items():
        write_text(folder / f"{name}.json", tokenizer.backend.to_str())
    write_text(folder / "heedful.json", json.dumps(facts(pipeline), indent=2, ensure_ascii=False) + "\n")
    listed = " and ".join(f"{name}.onnx" for name in files)
    write_text(folder / "README.md", f"{pipeline.card.rstrip()}\n\nWritten by heedful as ONNX: {listed}.\n")
    return f"as {listed}"


def facts(pipeline: AnyPipeline) -> JsonObject:
    """Facts for programs that use the graphs."""
    found: JsonObject = {"task": pipeline.task, "labels": list(pipeline.labels)}
    for name, tokenizer in pipeline.tokenizers.items():
        found[name] = {role: getattr(tokenizer, role) for role in ("pad", "unk", "bos", "eos")}
    return {**found, **{name: value for name, value in pipeline.settings.items() if isinstance(value, int | float | str)}}


def to_int8(path: Path) -> None:
    """Replace a graph by one whose matrices are int8; activations are quantised as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    smaller = path.with_suffix(".int8.onnx")
    logging.disable(logging.WARNING)  # silence its advice to preprocess, which these graphs do not need
    try:
        # Unsigned, because products of unsigned and signed ones overflow on processors without VNNI.
        quantize_dynamic(str(path), str(smaller), ["MatMul", "Gather"], per_channel=True, weight_type=QuantType.QUInt8)
    finally:
        logging.disable(logging.NOTSET)
    path.with_suffix(".weights").unlink(missing_ok=True)
    smaller.replace(path)


def open_session(path: Path) -> Any:
    """A graph, ready to run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(session: Any, given: Arrays) -> Arrays:
    """The outputs of a session by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def no_past(session: Any, rows: int) -> Arrays:
    """The past before the first token: keys and values without positions."""
    return {
        given.name: np.zeros((rows, given.shape[1], 0, given.shape[3]), dtype=np.float32)
        for given in session.get_inputs()
        if given.name.startswith("past_")
    }


def check(pipeline: AnyPipeline, folder: Path, texts: Sequence[str], what: str, quantize: str | None = None) -> Comparison:
    """Run the export with ONNX Runtime, in batches of inputs of different lengths, and compare its outputs with ours."""
    software, exact = f"onnxruntime {version('onnxruntime')}", quantize is None
    if isinstance(pipeline, Translator):
        ours = native_texts(pipeline, texts)
        theirs = [text_answer(found) for found in translate(pipeline, folder, texts)]
    elif isinstance(pipeline, Writer):
        ours = native_texts(pipeline, texts)
        theirs = [text_answer(found) for found in continue_texts(pipeline, folder, texts)]
    elif isinstance(pipeline, EncoderPipeline):
        rows = token_rows(pipeline, texts)
        ours, theirs = native_rows(pipeline, rows), bert_answers(pipeline, folder, rows)
    else:
        images = sample_images(pipeline)
        session = open_session(folder / "model.onnx")
        parts = [run(session, {"images": images[at : at + BATCH]})["logits"] for at in range(0, len(images), BATCH)]
        ours, theirs = image_answers(pipeline, images), [Answer(int(row.argmax()), row) for part in parts for row in part]
    return compare(ours, theirs, software, what, exact)


def translate(pipeline: Translator, folder: Path, texts: Sequence[str]) -> list[Hypothesis]:
    """Greedy translations, in batches."""
    encoder, decoder = open_session(folder / "encoder.onnx"), open_session(folder / "decoder.onnx")
    special, limits = pipeline.special, pipeline.limits
    found = []
    encoded = pipeline.encode_sources([text for text in texts if text.strip()])
    rows = [np.array(ids, dtype=np.uint32) for ids in encoded]
    for at in range(0, len(rows), BATCH):
        batch = rows[at : at + BATCH]
        source, mask = (part.numpy() for part in frame(batch, special.source_pad, None, special.source_eos))
        given = {**run(encoder, {"tokens": source, "mask": mask}), "mask": mask, **no_past(decoder, len(batch))}
        first = np.full((len(batch), 1), limits.bos, dtype=np.int64)
        found += greedy(decoder, given, first, limits, [limits.longest(len(row) + 1) for row in batch])
    return found


def continue_texts(pipeline: Writer, folder: Path, texts: Sequence[str]) -> list[Hypothesis]:
    """Greedy continuations of prompts, one by one: a GPT reads no padding."""
    session = open_session(folder / "model.onnx")
    longest = min(WRITTEN, max(1, pipeline.model.config.context // 2))
    return [
        greedy(session, no_past(session, 1), np.array([[pipeline.tokenizer.eos, *row]]), pipeline.limits, [longest])[0]
        for row in token_rows(pipeline, texts)
    ]


def greedy(session: Any, given: Arrays, tokens: NDArray[np.int64], limits: Limits, longest: Sequence[int]) -> list[Hypothesis]:
    """The most probable token at every step, for every row."""
    rows = len(tokens)
    written: list[list[int]] = [[] for _ in range(rows)]
    totals, open_rows = np.zeros(rows), np.ones(rows, dtype=bool)
    never = sorted({limits.pad, limits.bos} - {limits.eos})
    while open_rows.any():
        found = run(session, {**given, "tokens": tokens})
        logits = found.pop("logits")
        scores = (logits[:, -1] if logits.ndim == 3 else logits).astype(np.float64)
        scores[:, never] = -np.inf
        best = scores.argmax(-1)
        top = scores.max(-1, keepdims=True)
        totals += np.where(open_rows, -np.log(np.exp(scores - top).sum(-1)), 0.0)
        for row in np.flatnonzero(open_rows).tolist():
            if best[row] == limits.eos:
                open_rows[row] = False
            else:
                written[row].append(int(best[row]))
                open_rows[row] = len(written[row]) < longest[row]
        given |= {f"past_{name}": value for name, value in found.items()}
        tokens = best[:, None]
    return [Hypothesis(ids, float(total), float(total)) for ids, total in zip(written, totals, strict=True)]


def bert_answers(pipeline: AnyEncoder, folder: Path, rows: Sequence[Sequence[int]]) -> list[Answer]:
    """The outputs of the graph for rows of ids, in batches."""
    session, tokenizer = open_session(folder / "model.onnx"), pipeline.tokenizer
    found = []
    for at in range(0, len(rows), BATCH):
        batch = [np.array(row, dtype=np.uint32) for row in rows[at : at + BATCH]]
        tokens, mask = (part.numpy() for part in frame(batch, tokenizer.pad, tokenizer.bos, tokenizer.eos))
        answers = run(session, {"tokens": tokens, "segments": np.zeros_like(tokens), "mask": mask})
        for place, row in enumerate(batch):
            if "states" in answers:
                found.append(Answer(None, answers["states"][place, : len(row) + 2]))
            else:
                logits = answers["logits"][place]
                logits = logits[: len(row) + 2] if logits.ndim == 2 else logits
                found.append(Answer(logits.argmax(-1).tolist(), logits))
    return found

"""Attention maps: the attention weights of every layer and head for one input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.data.framing import collate, segments_of
from heedful.data.images import data_uri
from heedful.nn.trace import Part, Trace
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.pipeline import Pipeline
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer

BEGIN, END = "⟨begin⟩", "⟨end⟩"
NAMES = {"cross": "Cross-attention", "encoder": "Encoder self-attention", "decoder": "Decoder self-attention"}
LOOKS_BACK = "Rows and columns are the tokens the decoder reads; none attends to a later one."
LONGEST = 48  # tokens of a text whose attention is drawn
MOST_WEIGHTS = 2_000_000  # of one map that is drawn, about 5 MB on a page
PICTURE_SIZE = 384  # pixels


@dataclass(frozen=True)
class AttentionMap:
    """How much each query attends to each key: a list over layers of weights (H, queries, keys), whose rows sum to one."""

    about: str  # a sentence on what the rows and columns are
    rows: list[str]
    columns: list[str]
    layers: list[NDArray[np.float32]]
    picture: str = ""  # the image whose patches the last rows and columns are, as a data URI
    grid: tuple[int, int] = (0, 0)  # patches of the image, down and across


def attention_maps(pipeline: Pipeline[Any], example: Any) -> dict[str, AttentionMap]:
    """The attention maps of a model for one example, as `predict` takes it."""
    if isinstance(pipeline, Translator):
        return translation_maps(pipeline, example[0])
    if isinstance(pipeline, Writer):
        return text_maps(pipeline, example[0])
    if isinstance(pipeline, EncoderPipeline):
        return encoder_maps(pipeline, example)
    return image_maps(pipeline, example)


def layers_of(trace: Trace, part: Part) -> list[NDArray[np.float32]]:
    """The weights (H, Lq, Lk) of every layer of a part, of the first example of the batch; [] if the model has no such part."""
    return [layer.weights[0].float().cpu().numpy() for layer in trace.attention.get(part, [])]


def translation_maps(translator: Translator, text: str) -> dict[str, AttentionMap]:
    """`cross`, `encoder` and `decoder` of an encoder–decoder that translates a text; a recurrent one has only `cross`."""
    source_ids = translator.encode_sources([text])[0]
    found = translator.search([text])[0]
    target_ids = found[0].tokens if found else []
    rows = [np.array(source_ids, dtype=np.uint32)], [np.array(target_ids, dtype=np.uint32)]
    batch = collate(*rows, translator.special).to(translator.device)
    trace = translator.model.eval().trace(batch.source, batch.target_in, batch.source_mask)
    written = translator.target_tokenizer.tokens(target_ids)
    source = [*translator.source_tokenizer.tokens(source_ids), END]
    inputs, outputs = [BEGIN, *written], [*written, END]
    maps = {
        "cross": AttentionMap(
            "Rows are the tokens the model writes, columns those of the source.", outputs, source, layers_of(trace, "cross")
        ),
        "encoder": AttentionMap("Rows and columns are the tokens of the source.", source, source, layers_of(trace, "encoder")),
        "decoder": AttentionMap(LOOKS_BACK, inputs, inputs, layers_of(trace, "decoder")),
    }
    return {name: one for name, one in maps.items() if one.layers}


def text_maps(writer: Writer, ids: list[int]) -> dict[str, AttentionMap]:
    """`decoder` of a language model, for the beginning of a text."""
    ids = ids[: min(32, writer.model.config.context)]
    tokens = torch.tensor([ids], device=writer.device)
    names = [END if token == writer.tokenizer.eos else writer.tokenizer.tokens([token])[0] for token in ids]
    trace = writer.model.eval().trace(tokens)
    return {"decoder": AttentionMap(LOOKS_BACK, names, names, layers_of(trace, "decoder"))}


def encoder_maps(pipeline: EncoderPipeline[Any], example: Any) -> dict[str, AttentionMap]:
    """`encoder` of a BERT, for one example."""
    ids, first = pipeline.row_of(example)
    tokenizer = pipeline.tokenizer
    row = [tokenizer.bos, *ids, tokenizer.eos]
    tokens = torch.tensor([row], device=pipeline.device)
    segments = None if first is None else segments_of(len(row), [first]).to(pipeline.device)
    named = {tokenizer.bos: "[CLS]", tokenizer.eos: "[SEP]", tokenizer.mask: "[MASK]"}
    names = [named[token] if token in named else tokenizer.tokens([token])[0] for token in row]
    trace = pipeline.model.eval().trace(tokens, segments)
    return {"encoder": AttentionMap("Rows and columns are the tokens of the text.", names, names, layers_of(trace, "encoder"))}


def image_maps(pipeline: Any, example: Any) -> dict[str, AttentionMap]:
    """`encoder` of a Vision Transformer, for one image: its patches, named by row and column."""
    image = pipeline.tensor_of(example)
    trace = pipeline.model.eval().trace(image.to(pipeline.device))
    patch = pipeline.model.config.patch
    down, across = image.size(2) // patch, image.size(3) // patch
    names = ["[CLS]", *(f"{row + 1},{column + 1}" for row in range(down) for column in range(across))]
    about = "Rows and columns are the patches of the image, named by row and column, after [CLS]."
    picture = data_uri(example[0], PICTURE_SIZE)
    return {"encoder": AttentionMap(about, names, names, layers_of(trace, "encoder"), picture, (down, across))}


def drawable(maps: dict[str, AttentionMap]) -> list[dict[str, Any]]:
    """Maps as `attention.js` draws them and JSON can hold them, with weights in thousandths.

    A long text is cut after `LONGEST` tokens. Where there are still too many weights, some layers are left out.
    """
    return [_drawable(kind, one) for kind, one in maps.items()]


def _drawable(kind: str, one: AttentionMap) -> dict[str, Any]:
    length = None if one.picture else LONGEST  # a picture needs all of its patches
    layers = [np.nan_to_num(weights[:, :length, :length]) for weights in one.layers]
    count = min(len(layers), max(1, MOST_WEIGHTS // layers[0].size))
    numbers = sorted({round(number) for number in np.linspace(len(layers), 1, count)})
    notes = []
    if not one.picture and max(len(one.rows), len(one.columns)) > LONGEST:
        notes.append(f"Only the first {LONGEST} tokens are shown.")
    if len(numbers) < len(layers):
        notes.append(f"To keep this page small, {len(numbers)} of {len(layers)} layers are shown.")
    return {
        "name": NAMES[kind],
        "about": one.about,
        "note": " ".join(notes),
        "rows": one.rows[:length],
        "columns": one.columns[:length],
        "layers": [{"number": number, "heads": (1000 * layers[number - 1]).round().astype(int).tolist()} for number in numbers],
        "picture": {"source": one.picture, "rows": one.grid[0], "columns": one.grid[1]} if one.picture else None,
    }

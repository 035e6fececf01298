"""A model as one file for the browser: a header in JSON, then the numbers of all tensors in 16 or 8 bits.

`engine/model_file.js` reads it. Layout: `HEED`, format and length of the header (uint32, little-endian), the header, and from the
next multiple of 8 the tensors, each at a multiple of 8.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heedful.errors import HeedfulError
from heedful.jobs.registry import JOBS
from heedful.models import kind_of
from heedful.models.weights import named_weights
from heedful.nn.attention.bigbird import BigBirdAttention
from heedful.nn.attention.reformer import ReformerAttention
from heedful.nn.multihead import MultiHeadAttention
from heedful.page.browser_tokenizer import browser_tokenizer
from heedful.page.runnable import check_runnable
from heedful.page.samples import PageSample
from heedful.pipelines.pipeline import AnyPipeline
from heedful.settings import JsonObject

MAGIC = b"HEED"
FORMAT = 1
ALIGNED = 8  # bytes
LARGEST_FLOAT16 = 65504.0
FEWEST_ROWS = 8  # fewest rows of a matrix that is stored with one scale per row
LONGEST_TEXT = 4096  # tokens, if the model itself has no limit

Bits = Literal[16, 8]


@dataclass(frozen=True)
class Checkpoint:
    """Weights of the same model at an earlier step of its training."""

    step: int
    weights: Mapping[str, Tensor]


@dataclass
class Numbers:
    """Tensors written one after the other."""

    bits: Bits
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def write(self, array: NDArray[np.generic]) -> int:
        """Append an array; returns where it begins."""
        begin = self.size
        data = array.tobytes()
        padding = -len(data) % ALIGNED
        self.parts += [data, bytes(padding)]
        self.size += len(data) + padding
        return begin

    def tensor(self, name: str, tensor: Tensor, exact: bool = False) -> JsonObject:
        """Append a tensor, an `exact` one as float32; returns its entry in the header."""
        values = tensor.detach().cpu().float().numpy()
        if not np.isfinite(values).all():
            raise HeedfulError(f"{name} has numbers that are not finite; the model cannot be used")
        entry: JsonObject = {"name": name, "shape": list(values.shape)}
        if self.bits == 8 and values.ndim == 2 and len(values) >= FEWEST_ROWS and not exact:
            scales, rounded = rounded_rows(values)
            return entry | {"type": "int8", "at": self.write(rounded), "scales": self.write(scales)}
        if exact or np.abs(values).max(initial=0.0) > LARGEST_FLOAT16:
            return entry | {"type": "float32", "at": self.write(values.astype("<f4"))}
        return entry | {"type": "float16", "at": self.write(values.astype("<f2"))}


def rounded_rows(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """A matrix (R, C) as bytes and one scale per row (R,): values ≈ scales · bytes."""
    scales = np.abs(values).max(axis=1) / 127.0
    divisors = np.where(scales > 0, scales, 1.0)
    return scales.astype("<f4"), np.rint(values / divisors[:, None]).clip(-127, 127).astype(np.int8)


def drawn_constants(model: nn.Module) -> dict[str, Tensor]:
    """Random constants of attention kinds, which a browser would generate differently: hashing and random blocks."""
    config: Any = getattr(model, "config", None)
    longest = max(getattr(config, "max_positions", 0), getattr(config, "context", 0), LONGEST_TEXT)
    found: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            kind = module.attend
            if isinstance(kind, BigBirdAttention) and kind.random_blocks:
                found[f"{name}.attend.drawn"] = torch.from_numpy(kind.drawn(-(-longest // kind.block)))
            if isinstance(kind, ReformerAttention) and kind.buckets > 1:
                found[f"{name}.attend.rotations"] = kind.drawn_rotations(module.heads, module.d_k)
    return found


def pack_model(
    pipeline: AnyPipeline,
    name: str,
    bits: Bits = 16,
    samples: Sequence[PageSample] = (),
    checkpoints: Sequence[Checkpoint] = (),
) -> bytes:
    """The file of a model; an error in words if the browser's engine cannot run it."""
    config = pipeline.model.config
    kind = kind_of(config)
    weights = named_weights(pipeline.model)
    parameters = sum(weight.numel() for weight in weights.values())
    check_runnable(name, kind, config, parameters)
    numbers = Numbers(bits)
    constants = [numbers.tensor(key, constant, exact=True) for key, constant in drawn_constants(pipeline.model).items()]
    job = JOBS[pipeline.task]
    header: JsonObject = {
        "format": FORMAT,
        "name": name,
        "job": job.name,
        "kind": kind,
        "verbs": list(job.verbs),
        "about": about(pipeline),
        "parameters": parameters,
        "bits": bits,
        "config": dataclasses.asdict(config),
        "settings": pipeline.settings,
        "labels": list(pipeline.labels),
        "tokenizers": {
            {"tokenizer": "source", "target_tokenizer": "target"}[key]: browser_tokenizer(tokenizer, f"the {key} of {name}")
            for key, tokenizer in pipeline.tokenizers.items()
        },
        "samples": list(samples),
        "weights": [*constants, *(numbers.tensor(key, weight) for key, weight in weights.items())],
        "checkpoints": [
            {"step": one.step, "weights": [*constants, *(numbers.tensor(key, one.weights[key]) for key in weights)]}
            for one in checkpoints
        ],
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    head = MAGIC + struct.pack("<II", FORMAT, len(text)) + text
    return b"".join([head, bytes(-len(head) % ALIGNED), *numbers.parts])


def header_of(model: bytes) -> JsonObject:
    """The header of a model file."""
    (size,) = struct.unpack("<I", model[8:12])
    header: JsonObject = json.loads(model[12 : 12 + size])
    return header


def compressed(model: bytes, level: int = 9) -> bytes:
    """A model file as it is shipped; the same bytes for the same model."""
    return gzip.compress(model, compresslevel=level, mtime=0)


def about(pipeline: AnyPipeline) -> str:
    """What a model is, in a sentence: the first paragraph of its card, or the name of its job."""
    paragraphs = [part.strip() for part in pipeline.card.split("\n\n")]
    prose = next((part for part in paragraphs if part and not part.startswith(("#", "|", "`", "-", "<"))), "")
    return " ".join(prose.split()).removesuffix("Made with heedful.").rstrip(". ") or JOBS[pipeline.task].what

"""Long inputs: how time and memory of each attention kind grow with the length, and speed beside Hugging Face's models.

    python benchmarks/long_attention.py --output long_attention.txt

Layers: forward and backward pass of one self-attention layer (d_model 128, two heads, each kind with its default settings) by
one thread at lengths from 512 to 32,768: CPU time, which other load hardly changes, and peak memory. The exponent is the slope
of a line fitted to the logarithms. Full attention, whose kernel stores no weights either, stops at 8,192.

Models: forward and backward pass at --length, beside LongformerModel and BigBirdModel of the same size, with the same window,
blocks and global tokens, each in its own process with all cores: seconds, and CPU seconds of all threads.

Kernels: the window of one layer at --length on one thread, as it is computed here (PyTorch's fused kernel on blocks, piece by
piece) and in other ways: on all blocks at once, by products and a softmax on blocks, and by compiled FlexAttention, which needs
a C++ compiler and has no backward pass on a CPU. And what reversible layers, as in Reformer, would save and cost.

Memory is the most bytes of tensors there are at a time beyond weights and input, counted by PyTorch's allocator; so it depends
neither on the machine nor on its load. No dropout anywhere; float32; after one pass to warm up, the median of --repeats.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from heedful.complexity.measure import peak_bytes
from heedful.models.bert import Bert, BertConfig
from heedful.nn.attention.full import scaled_dot_product_attention
from heedful.nn.attention.kinds import ATTENTION_KINDS, AttentionKind, AttentionSettings
from heedful.nn.attention.window import WindowAttention
from heedful.nn.encoder import EncoderLayer
from heedful.nn.fast import blocks
from heedful.nn.multihead import MultiHeadAttention
from measuring import Transcript, saved, watch_peer

LENGTHS = [512 * 2**power for power in range(7)]
LONGEST_FULL = 8192
WIDTH, HEADS = 128, 2
LIMITS = {"window": 1.15, "longformer": 1.15, "bigbird": 1.15, "linformer": 1.15, "reformer": 1.3}
SHAPE: dict[str, Any] = {"vocab": 1000, "layers": 4, "d_model": 256, "d_ff": 1024, "heads": 4}
OURS: dict[str, dict[str, Any]] = {
    "window": {"window": 256},
    "longformer": {"window": 256, "global_projections": True},
    "bigbird": {"window": 64, "attention_block": 64, "random_blocks": 3},
    "full": {},
    "reformer": {},
}
THEIRS = {"window": "LongformerModel", "longformer": "LongformerModel", "bigbird": "BigBirdModel"}


def measure(step: Callable[[], Tensor], repeats: int) -> dict[str, float]:
    """The median seconds of a forward and a backward pass, their CPU time, and the peak of one more pass in bytes."""
    seconds, cpu = [], []
    for _ in range(repeats + 1):  # the first is warm-up
        started, used = time.perf_counter(), time.process_time()
        step().sum().backward()
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    median = statistics.median
    return {"seconds": median(seconds[1:]), "cpu": median(cpu[1:]), "bytes": peak_bytes(lambda: step().sum().backward())}


def measure_layer(kind: Any, length: int, repeats: int) -> dict[str, float]:
    """One layer of a kind."""
    layer = MultiHeadAttention(WIDTH, HEADS, settings=AttentionSettings(kind, max_length=length))
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    return measure(lambda: layer(x), repeats)


def our_model(kind: Any, length: int) -> nn.Module:
    return Bert(BertConfig(**SHAPE, max_positions=length, dropout=0.0, attention_kind=kind, **OURS[kind]))


def their_model(kind: str, length: int) -> nn.Module:
    """The model of transformers of the same size."""
    import transformers

    shape: dict[str, Any] = {
        "vocab_size": SHAPE["vocab"], "num_hidden_layers": SHAPE["layers"], "hidden_size": SHAPE["d_model"],
        "intermediate_size": SHAPE["d_ff"], "num_attention_heads": SHAPE["heads"], "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "max_position_embeddings": length + 2,
    }  # fmt: skip
    if kind == "bigbird":
        blocks: dict[str, Any] = {"block_size": 64, "num_random_blocks": 3, "attention_type": "block_sparse"}
        bigbird: nn.Module = transformers.BigBirdModel(transformers.BigBirdConfig(**shape, **blocks))
        return bigbird
    config = transformers.LongformerConfig(**shape, attention_window=512, type_vocab_size=1)
    longformer: nn.Module = transformers.LongformerModel(config)
    return longformer


def measure_model(side: str, kind: str, length: int, repeats: int) -> dict[str, float]:
    """One model, ours or theirs, in training."""
    torch.manual_seed(0)
    model = (our_model if side == "heedful" else their_model)(kind, length).train()
    tokens = torch.randint(3, SHAPE["vocab"], (1, length))
    chosen = {"global_attention_mask": (torch.arange(length) == 0).long()[None]} if kind == "longformer" else {}

    def step() -> Tensor:
        if side == "heedful":
            states: Tensor = model(tokens)
        else:
            states = model(tokens, **chosen).last_hidden_state
        return states

    found = measure(step, repeats)
    return {**found, "parameters": sum(p.numel() for p in model.parameters())}


class Measurements:
    """What was measured, by name; an earlier run's are not measured again."""

    def __init__(self, path: Path | None) -> None:
        known = list(saved(path, "measured")) if path else []
        self.out = Transcript(path)
        self.known: dict[str, dict[str, float]] = {}
        for row in known:
            self.keep(row.pop("measured"), row)

    def keep(self, name: str, found: dict[str, float]) -> dict[str, float]:
        self.known[name] = found
        self.out.say(json.dumps({"measured": name, **found}))
        return found

    def once(self, name: str, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
        """The measurement of this name, made now if there is none."""
        return self.known[name] if name in self.known else self.keep(name, measure())


def exponent(points: Mapping[int, float]) -> float:
    """The slope of a line through the logarithms."""
    lengths, values = zip(*points.items(), strict=True)
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


def layers(made: Measurements, kinds: Sequence[AttentionKind], repeats: int) -> None:
    rows = []
    torch.set_num_threads(1)
    for kind in kinds:
        lengths = [length for length in LENGTHS if kind != "full" or length <= LONGEST_FULL]
        found = {length: made.once(f"layer {kind} {length}", partial(measure_layer, kind, length, repeats)) for length in lengths}
        for name, unit, values in (
            ("CPU ms", 1e3, {length: row["cpu"] for length, row in found.items()}),
            ("MB", 1e-6, {length: row["bytes"] for length, row in found.items()}),
        ):
            cells = [f"{values[length] * unit:,.1f}" if length in values else "" for length in LENGTHS]
            limit = f"≤ {LIMITS[kind]}" if kind in LIMITS else ""
            rows.append([kind, name, *cells, f"{exponent(values):.2f}", limit])
    made.out.say("\nOne layer, forward and backward:")
    made.out.table(["kind", "", *(f"{length:,}" for length in LENGTHS), "exponent", "wanted"], rows)


def models(made: Measurements, kinds: Sequence[AttentionKind], length: int, repeats: int) -> None:
    def measured(side: str, kind: str) -> dict[str, float]:
        given = {"side": side, "kind": kind, "length": length, "repeats": repeats}
        return made.once(f"model {side} {kind} {length}", partial(watch_peer, __file__, given))

    rows = []
    for kind in [kind for kind in kinds if kind in THEIRS or kind == "full"]:
        ours = measured("heedful", kind)
        cells = [f"{ours['step']:.2f} s, CPU {ours['cpu']:.2f} s, {ours['bytes'] / 1e6:,.0f} MB"]
        if kind in THEIRS:
            theirs = measured("transformers", kind)
            cells.append(f"{theirs['step']:.2f} s, CPU {theirs['cpu']:.2f} s, {theirs['bytes'] / 1e6:,.0f} MB")
            cells += [f"{theirs['step'] / ours['step']:.1f}×", f"{theirs['cpu'] / ours['cpu']:.1f}×"]
            cells += [f"{theirs['bytes'] / ours['bytes']:.1f}×", THEIRS[kind]]
        rows.append([kind, f"{ours['parameters'] / 1e6:.1f} M", *cells, *[""] * (6 - len(cells))])
    made.out.say(f"\nModels of {SHAPE['layers']} layers, {SHAPE['d_model']} wide, at {length:,} tokens, forward and backward:")
    made.out.table(["kind", "parameters", "heedful", "transformers", "speed", "CPU time", "memory", "beside"], rows)


def kernels(made: Measurements, length: int, repeats: int) -> None:
    """Ways to compute the same heads."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    window, width = 128, WIDTH // HEADS
    parts = [torch.randn(1, HEADS, length, width, requires_grad=True) for _ in range(3)]
    expected = WindowAttention(window)(*parts).heads

    def ours() -> Tensor:
        return WindowAttention(window)(*parts).heads

    def products(*given: Any) -> Tensor:
        return scaled_dot_product_attention(*given)[0]

    ways: dict[str, Any] = {
        "fused kernel on blocks, in pieces (as it is)": nullcontext(),
        "fused kernel on all blocks at once": patch.object(blocks, "blocks_of_piece", lambda scores: 2**31),
        "products and softmax on blocks, in pieces": patch.object(blocks, "fused_attention", products),
        "products and softmax on all blocks at once": patch.multiple(
            blocks, fused_attention=products, blocks_of_piece=lambda scores: 2**31
        ),
    }
    rows = []
    for name, changed in ways.items():
        with changed:
            torch.testing.assert_close(ours(), expected, atol=1e-5, rtol=0)
            found = made.once(f"{name} {length}", lambda: {**measure(ours, repeats), "forward": forward_seconds(ours, repeats)})
        rows.append([name, f"{found['forward'] * 1e3:.0f}", f"{found['cpu'] * 1e3:.0f}", f"{found['bytes'] / 1e6:.1f}"])
    rows.append(["FlexAttention, compiled", *flex_attention_cells(made, parts, window, expected, repeats), ""])
    made.out.say(f"A window of {window} over {length:,} positions, {HEADS} heads, {width} wide:")
    made.out.table(["way", "forward, CPU ms", "and backward, CPU ms", "MB"], rows)


def flex_attention_cells(
    made: Measurements, parts: Sequence[Tensor], window: int, expected: Tensor, repeats: int
) -> tuple[str, str]:
    """CPU milliseconds of compiled FlexAttention's forward pass, and what its backward pass says."""
    length = expected.size(2)
    near = create_block_mask(lambda b, h, q, k: (q - k).abs() <= window, None, None, length, length, device="cpu")
    compiled: Callable[..., Tensor] = torch.compile(flex_attention)

    def forward() -> dict[str, float]:
        with torch.no_grad():
            torch.testing.assert_close(compiled(*parts, block_mask=near), expected, atol=1e-5, rtol=0)
            return {"forward": forward_seconds(lambda: compiled(*parts, block_mask=near), repeats)}

    found = made.once(f"FlexAttention {length}", forward)
    try:
        compiled(*parts, block_mask=near).sum().backward()
    except NotImplementedError as error:
        return f"{found['forward'] * 1e3:.0f}", str(error).split(".")[0]
    return f"{found['forward'] * 1e3:.0f}", "it has one"


def reversible(made: Measurements, length: int, repeats: int) -> None:
    """What reversible layers would save and cost: like them, each layer is computed again in the backward pass."""
    torch.set_num_threads(1)
    again = partial(checkpoint, use_reentrant=False)
    rows = []
    for kind in ("full", "reformer"):
        for name, changed in (
            ("as they are", nullcontext()),
            (
                "computed again",
                patch.object(EncoderLayer, "__call__", lambda layer, *given, **more: again(layer.forward, *given, **more)),
            ),
        ):
            with changed:
                found = made.once(f"{kind} {name} {length}", partial(measure_model, "heedful", kind, length, repeats))
            rows.append([kind, name, f"{found['cpu']:.1f}", f"{found['bytes'] / 1e6:,.0f}"])
    made.out.say(f"Layers computed again in the backward pass, in the model of {SHAPE['layers']} layers at {length:,} tokens:")
    made.out.table(["kind", "layers", "CPU s", "MB"], rows)


def forward_seconds(step: Callable[[], Tensor], repeats: int) -> float:
    """The median CPU seconds of a forward pass."""
    seconds = []
    with torch.no_grad():
        step()
        for _ in range(repeats):
            started = time.process_time()
            step()
            seconds.append(time.process_time() - started)
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="also write what is printed to this file; what it has is not measured again")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts")
    parser.add_argument("--part", choices=["all", "models", "layers", "kernels"], default="all")
    parser.add_argument("--kinds", nargs="+", choices=ATTENTION_KINDS, default=list(ATTENTION_KINDS))
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        found = measure_model(**json.loads(arguments.peer))
        print(json.dumps({**found, "step": found["seconds"]}))  # `seconds` will be those of the whole process
        return
    made = Measurements(arguments.output)
    if arguments.part in ("all", "models"):
        models(made, arguments.kinds, arguments.length, arguments.repeats)
    if arguments.part in ("all", "layers"):
        layers(made, arguments.kinds, arguments.repeats)
    if arguments.part in ("all", "kernels"):
        kernels(made, arguments.length, arguments.repeats)
        reversible(made, arguments.length, arguments.repeats)


if __name__ == "__main__":
    main()

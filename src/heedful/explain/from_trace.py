"""Converts the tensors of a trace to the arrays, candidates and labels of an explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from heedful.errors import UsageError
from heedful.explain.explanation import AttentionLayer, AttentionMap, Candidate, Norms, Token, TokenSequence
from heedful.nn.attention.base import AttentionWeights
from heedful.nn.trace import Part, Stack, Trace
from heedful.runtime.device import memory_of_machine

SHARE = 0.25  # of the machine's memory that the weights of one explanation may take
NUMBER = 16  # bytes of a weight and its score, as tensor and as array


def check_size(weights: int, tokens: int) -> None:
    """Raise an error if this many attention weights, for an input of this many tokens, would not fit into memory."""
    most = int(SHARE * memory_of_machine() / NUMBER)
    if weights > most:
        shorter = max(1, int(tokens * (most / weights) ** 0.5))
        raise UsageError(
            f"the attention weights of {tokens:,} tokens would take {weights * NUMBER / 1e9:,.0f} GB; "
            f"explain a text of at most about {shorter:,} tokens"
        )


def attention_map(
    trace: Trace, name: Part, about: str, queries: str, keys: str, sequences: dict[str, TokenSequence]
) -> list[AttentionMap]:
    """The attention of that name, or nothing if the model has none. Keys that are not the tokens of their sequence, such as
    projections of it, become a sequence of their own."""
    found = trace.attention.get(name, [])
    if not found:
        return []
    slots = found[0].weights.size(-1)
    if slots != len(sequences[keys].tokens):
        keys = f"{name}-keys"
        sequences[keys] = TokenSequence([Token(None, str(number + 1)) for number in range(slots)])
    return [AttentionMap(name, about, queries, keys, [_layer(number, one) for number, one in enumerate(found, 1)])]


def _layer(number: int, found: AttentionWeights) -> AttentionLayer:
    return AttentionLayer(number, found.weights[0].float().cpu().numpy(), found.scores[0].float().cpu().numpy())


def row_labels(hidden: Sequence[Tensor]) -> list[str]:
    """Names of the hidden states of a Transformer stack."""
    return ["embeddings", *(f"layer {number}" for number in range(1, len(hidden)))]


def norms_of(trace: Trace, stack: Stack, sequence: str, labels: Sequence[str] | None = None) -> Norms:
    """The length of each hidden state of the first example."""
    hidden = trace.hidden[stack]
    values = torch.stack([states[0].float().norm(dim=-1) for states in hidden]).cpu().numpy()  # (N + 1, L)
    return Norms(stack, sequence, labels or row_labels(hidden), values)


def candidates_of(
    probabilities: Tensor, top: int, name: Callable[[list[int]], list[str]] | Sequence[str]
) -> list[list[Candidate]]:
    """The `top` most probable of each row of probabilities (L, V), which `name` turns into text."""
    best = probabilities.float().topk(min(top, probabilities.size(-1)), dim=-1)
    found = []
    for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        texts = name(ids) if callable(name) else [name[index] for index in ids]
        found.append([Candidate(*one) for one in zip(ids, texts, values, strict=True)])
    return found

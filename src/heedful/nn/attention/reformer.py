"""Reformer (Kitaev et al., 2020): locality-sensitive hashing sorts tokens into buckets, and a token sees those of its bucket.

Queries and keys are shared: a key is its query, normalised. Shapes: B batch, H heads, L length (Lq queries, Lk keys), K d_k,
V d_v, R rounds of hashing.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention.base import Attended, Attention, AttentionWeights, Projected
from heedful.nn.fast.pieces import Piece, attend_in_pieces, blocks_of_piece
from heedful.nn.masks import over_keys
from heedful.nn.positions import PositionBias

ALMOST_NEVER = -1e5  # added to the score of a token for itself, which counts only where there is no other


class ReformerAttention(Attention):
    """In each round, tokens are sorted by bucket and, within a bucket, by position. A token sees those of its bucket that are
    at most `chunk` places away in that order: cost O(L · chunk · rounds). Rounds are joined as one softmax, in which a token
    found in two rounds counts twice.

    Published chunks are cut at fixed places of the sorted order, so that a later token could move an earlier one into another
    chunk; here each token has its own, so that with `causal` no token depends on later ones. The rotations of the hashing
    depend on the seed and the layer alone.
    """

    shares_queries = True

    def __init__(self, buckets: int, rounds: int, chunk: int, seed: int = 1, layer: int = 0) -> None:
        super().__init__()
        self.buckets, self.rounds, self.chunk = buckets, rounds, chunk
        self.seed = (seed << 16) + layer
        self.rotations = torch.empty(0)

    def hashes(self, key: Tensor, key_mask: Tensor | None) -> Tensor:
        """The bucket of each key in each round: (B, H, L, K) → (B, H, R, L). Padding is in a bucket after all others."""
        batch, heads, length, width = key.shape
        if self.buckets == 1:
            buckets = torch.zeros(batch, heads, self.rounds, length, dtype=torch.long, device=key.device)
        else:
            if self.rotations.shape[::2] != (heads, width) or self.rotations.device != key.device:
                self.rotations = self.drawn_rotations(heads, width).to(key.device)
            rotated = key.detach().float()[:, :, None] @ self.rotations  # (B, H, R, L, buckets / 2)
            buckets = torch.cat([rotated, -rotated], dim=-1).argmax(-1)
        return buckets if key_mask is None else buckets.masked_fill(~key_mask.bool()[:, None, None, :], self.buckets)

    def drawn_rotations(self, heads: int, width: int) -> Tensor:
        """The rotations of the hashing (H, R, K, buckets / 2), which depend on the seed alone."""
        rng = torch.Generator().manual_seed(self.seed)
        return torch.randn(heads, self.rounds, width, self.buckets // 2, generator=rng)

    def counts(self, buckets: Tensor, queries: int, causal: bool, key_mask: Tensor | None) -> Tensor:
        """In how many rounds a query sees a key, from the buckets of the keys: (B, H, R, Lk) → (B, H, Lq, Lk).

        The queries are the last ones. A token sees itself, once, if it sees no other.
        """
        length = buckets.size(-1)
        place = in_order(buckets).argsort(-1)  # (B, H, R, Lk)
        of_queries = slice(length - queries, length)
        seen = buckets[..., of_queries, None] == buckets[..., None, :]  # (B, H, R, Lq, Lk)
        seen = seen & ((place[..., of_queries, None] - place[..., None, :]).abs() <= self.chunk)
        at = torch.arange(length, device=buckets.device)
        itself = at[of_queries, None] == at
        seen = seen & ~itself
        if causal:
            seen = seen & (at <= at[of_queries, None])
        count = seen.sum(2)
        count = torch.where(itself & ~seen.any(2).any(-1, keepdim=True), 1, count)
        mask = over_keys(key_mask)
        return count if mask is None else count * mask

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_mask: Tensor | None = None,
        causal: bool = False,
        start: int = 0,
        bias: PositionBias | None = None,
        dropout: float = 0.0,
        return_weights: bool = False,
        padding: Tensor | None = None,
        global_mask: Tensor | None = None,
        of_globals: Projected | None = None,
    ) -> Attended:
        """See `Attention.forward`. The queries are those of the last keys."""
        with torch.autocast(query.device.type, enabled=False):
            buckets = self.hashes(key, key_mask)
            if not return_weights and query.size(2) == key.size(2) > 3 * self.chunk:
                return Attended(self._in_order(query, key, value, buckets, key_mask, causal, bias, dropout), None)
            counts = self.counts(buckets, query.size(2), causal, key_mask)
            scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
            if bias is not None:
                scores = scores + bias.dense_bias(query, key.size(2), start)
            empty = counts.sum(-1, keepdim=True) == 0
            masked = (scores + counts.log()).masked_fill(empty, 0.0)
            weights = torch.softmax(masked, dim=-1).masked_fill(empty, 0.0)
            heads = F.dropout(weights, dropout) @ value
        return Attended(heads, AttentionWeights(weights, scores) if return_weights else None)

    def _in_order(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        buckets: Tensor,
        key_mask: Tensor | None,
        causal: bool,
        bias: PositionBias | None,
        dropout: float,
    ) -> Tensor:
        """The heads (B, H, L, V), each round by a window over its sorted order."""
        rounds = []
        for number in range(self.rounds):
            of_round = buckets[:, :, number].flatten(0, 1)
            rounds.append(self._window(query, key, value, of_round, key_mask, causal, bias, dropout))
        heads, totals = (torch.stack(parts) for parts in zip(*rounds, strict=True))  # (R, B, H, L, V) and (R, B, H, L, 1)
        # A row that sees nothing has a total of −∞ in all rounds.
        highest = totals.detach().amax(0, keepdim=True)
        share = (totals - highest.masked_fill(highest == -math.inf, 0.0)).exp()
        return (heads * share).sum(0) / share.sum(0).clamp(min=1e-9)

    def _window(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        buckets: Tensor,
        key_mask: Tensor | None,
        causal: bool,
        bias: PositionBias | None,
        dropout: float,
    ) -> tuple[Tensor, Tensor]:
        """One round: heads (B, H, L, V), and the logarithm of the sum of exponentiated scores (B, H, L, 1).

        Buckets (N, L), where N = B · H. Below, W keys are beside a block of b queries, and m blocks are a piece.
        """
        batch, of_heads, length, _ = query.shape
        b, width = self.chunk, self.chunk * (2 if causal else 3)
        blocks, m = -(-length // b), blocks_of_piece(batch * of_heads * self.chunk * width)
        order = in_order(buckets)  # (N, L)
        step = torch.arange(width, device=query.device) - b - torch.arange(b, device=query.device)[:, None]  # (b, W)
        near = (step <= 0 if causal else step.abs() <= b) & (step >= -b)
        row = torch.arange(len(order), device=query.device)[:, None] * length

        def piece(number: int) -> Piece:
            first, n = number * m, min(m, blocks - number * m)
            place = torch.arange((first - 1) * b, (first + n - 2) * b + width, device=query.device)  # of keys in the order
            at = order[:, place.clamp(0, length - 1)]  # (N, n · b + W − b): positions
            own_at = order[:, torch.arange(first * b, (first + n) * b, device=query.device).clamp(max=length - 1)]
            others = buckets.gather(1, at)
            if key_mask is not None:
                others = others.masked_fill(others == self.buckets, -1)
            others = others.masked_fill((place < 0) | (place >= length), -1).unfold(1, width, b)[:, :, None]  # (N, n, 1, W)
            mask = (buckets.gather(1, own_at).view(-1, n, b, 1) == others) & near  # (N, n, b, W)

            def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
                queries = query.view(-1, n, b, query.size(-1))  # (N, n, b, K)
                keys, values = (x.unflatten(0, at.shape).unfold(1, width, b).transpose(-1, -2) for x in (key, value))
                scores = queries @ keys.transpose(-2, -1) / math.sqrt(query.size(-1))  # (N, n, b, W)
                if bias is not None:
                    places = own_at.view(batch, of_heads, n, b, 1), at.unfold(1, width, b).view(batch, of_heads, n, 1, width)
                    scores = scores + bias.bias(queries.unflatten(0, (batch, of_heads)), *places).flatten(0, 1)
                scores = torch.where(step == 0, scores + ALMOST_NEVER, scores).masked_fill(~mask, -math.inf)
                empty = ~mask.any(-1, keepdim=True)  # (N, n, b, 1)
                scores = scores.masked_fill(empty, 0.0)
                total = scores.logsumexp(-1, keepdim=True)
                weights = (scores - total).exp().masked_fill(empty, 0.0)
                return F.dropout(weights, dropout) @ values, total.masked_fill(empty, -math.inf)

            return Piece((row + own_at).flatten(), (row + at).flatten(), attend)

        parts = [x.flatten(0, 2) for x in (query, key, value)]  # (N · L, K or V)
        learned = [] if bias is None else list(bias.parameters())
        found = attend_in_pieces(piece, -(-blocks // m), parts, learned, dropout)  # (N, blocks, b, V) and (N, blocks, b, 1)
        back = order.argsort(-1)[..., None]
        heads, total = (x.flatten(1, 2).gather(1, back.expand(-1, -1, x.size(-1))) for x in found)
        return heads.unflatten(0, (batch, of_heads)), total.unflatten(0, (batch, of_heads))


def in_order(buckets: Tensor) -> Tensor:
    """(…, L): the positions by bucket, and those of one bucket in their own order."""
    return buckets.argsort(dim=-1, stable=True)

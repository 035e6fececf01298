"""The encoder-only model BERT (Devlin et al., 2018), with heads for pre-training, sequences and tokens.

Question answering is head="token" with classes=2: the start and the end of the answer. Shapes: B batch, L length, D d_model,
N masked positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Interval
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.attention_settings import AttentionFields
from heedful.models.checks import check_heads, check_rotary
from heedful.models.model import Model
from heedful.nn.dropout import Dropout
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.encoder import build_encoder
from heedful.nn.fast.linear import Linear, linear_map
from heedful.nn.feedforward import ACTIVATIONS, Activation
from heedful.nn.initialisation import Init, initialise
from heedful.nn.pooling import AttentionPooling, Pooling, class_scores, first_token, mean_pooling
from heedful.nn.positions import PositionKind, absolute_positions, attention_positions
from heedful.nn.trace import Trace
from heedful.settings import Epsilon, Layers, Positions, Share, Vocabulary, Width, check_fields, setting

Head = Literal["none", "pretraining", "sequence", "token"]
PoolerActivation = Literal["tanh", "feed-forward"]


@dataclass(frozen=True)
class BertConfig(AttentionFields):
    """Every setting of a BERT; the defaults are BERT-base."""

    vocab: Vocabulary
    layers: Layers = setting(12, "encoder layers")
    d_model: Width = setting(768, "width of the residual stream")
    d_ff: Width = setting(3072, "width of the feed-forward network")
    heads: Width = setting(12, "attention heads")
    max_positions: Positions = setting(512, "longest input, in tokens")
    segments: Width = setting(2, "kinds of segment")
    dropout: Share = setting(0.1, "after embeddings and sub-layers")
    attention_dropout: Share = setting(0.0, "of attention weights")
    activation: Activation = setting("gelu", "of the feed-forward network")
    epsilon: Epsilon = setting(1e-12, "of every LayerNorm")
    head: Head = setting("none", "the head on top of the encoder: `none`, `pretraining`, `sequence` or `token`")
    classes: Annotated[int, Interval(ge=0, le=10**7)] = setting(0, "of the heads `sequence` and `token`; 1 to predict a number")
    pooling: Pooling = setting("cls", "how a sequence becomes one vector: `cls`, `mean` or `attention`")
    positions: PositionKind = setting("learned", "how the model knows the order of tokens")
    max_distance: Width = setting(32, "of relative positions")
    init: Init = setting("normal-0.02", "initialisation of matrices, with variance 2/(n_in + n_out), 1/n_in, 2/n_in or 0.02²")
    pooler_activation: PoolerActivation = setting(
        "tanh", "activation after the linear map of [CLS]: `tanh`, or that of the feed-forward network (`feed-forward`)"
    )
    global_question: bool = setting(
        False, "`longformer`: the tokens of the first of two texts are global too, as in question answering"
    )
    global_projections: bool = setting(False, "`longformer`: global tokens have projections of their own, as published")
    published_bigbird: bool = setting(
        False, "`bigbird` as published weights need it: the last block is global too, and the first replaces the random ones"
    )

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_attention()
        check_heads(self.d_model, self.heads)
        check_rotary(self.positions, self.d_model // self.heads)
        if self.head in ("sequence", "token") and self.classes < 1:
            raise UsageError(f"head={self.head} needs classes of at least 1, not {self.classes}")
        if self.head in ("none", "pretraining") and self.classes:
            raise UsageError(f"head={self.head} has no classes, but classes is {self.classes}; use head=sequence or head=token")
        if self.head in ("pretraining", "token") and self.pooling != "cls":
            raise UsageError(f"head={self.head} leaves no choice of pooling; pooling={self.pooling} needs head=sequence or none")

    def check_length(self, length: int, name: str = "max_length") -> None:
        """Raise an error if inputs of this many tokens, the value of the setting `name`, are too long for the model."""
        if length > self.max_positions:
            raise UsageError(f"{name} {length} is more than the model's {self.max_positions} positions (max_positions)")


class MaskedLanguageHead(nn.Module):
    """LayerNorm(activation(x W + b)); its product with the token embeddings, plus a bias per token, gives the logits."""

    def __init__(self, vocab: int, d_model: int, activation: Activation, epsilon: float) -> None:
        super().__init__()
        self.dense = Linear(d_model, d_model)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(d_model, epsilon)
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, states: Tensor) -> Tensor:
        """(…, D) → (…, D), ready for the product with the embedding matrix."""
        transformed: Tensor = self.norm(self.activation(self.dense(states)))
        return transformed


class Bert(Model):
    """A post-norm encoder over token + position + segment embeddings, with the head that `config.head` names.

    `config.positions` other than `learned`, as published, are sinusoids or none in the embeddings, or inside the attention.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embedding = TokenEmbedding(
            nn.Parameter(torch.empty(c.vocab, c.d_model)),
            absolute_positions(c.positions, c.d_model, c.max_positions),
            c.dropout,
            scale=1.0,
            segments=nn.Parameter(torch.empty(c.segments, c.d_model)),
            norm=nn.LayerNorm(c.d_model, c.epsilon),
        )
        self.encoder = build_encoder(
            c.layers,
            c.d_model,
            c.d_ff,
            c.heads,
            dropout=c.dropout,
            attention_dropout=c.attention_dropout,
            activation=c.activation,
            norm="post",
            epsilon=c.epsilon,
            positions=lambda: attention_positions(c.positions, c.heads, c.d_model // c.heads, c.max_distance),
            attention=c.attention(max_length=c.max_positions),
        )
        if c.pooling == "attention":
            self.pooling = AttentionPooling(c.d_model, c.heads, c.classes if c.head == "sequence" else 1)
        elif c.pooling == "cls" and c.head != "token":
            self.pooler = Linear(c.d_model, c.d_model)
        if c.head == "pretraining":
            self.masked_language = MaskedLanguageHead(c.vocab, c.d_model, c.activation, c.epsilon)
            self.next_sentence = Linear(c.d_model, 2)
        if c.head in ("sequence", "token"):
            self.dropout = Dropout(c.dropout)
            self.classifier = Linear(c.d_model, c.classes)
        initialise(self, c.init)

    def embed(self, tokens: Tensor, segments: Tensor | None = None) -> Tensor:
        """Tokens and the segment of each, (B, L) each → embeddings (B, L, D); an error if positions run out."""
        if tokens.size(1) > self.config.max_positions:
            raise UsageError(f"{tokens.size(1)} tokens are more than the model's max_positions of {self.config.max_positions}")
        embedded: Tensor = self.embedding(tokens, segments=segments if self.config.segments > 1 else None)
        return embedded

    def global_tokens(self, segments: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """The mask (B, L) of tokens that are global besides the first ones: with `global_question`, those of the first of two
        texts, without the separator after it."""
        if not self.config.global_question or segments is None:
            return None
        second = segments == 1
        followed = nn.functional.pad(~second[:, 1:], (0, 1), value=False)  # by a token of the same text
        return followed & ~second & (second if mask is None else second & mask.bool()).any(-1, keepdim=True)

    def states(
        self,
        tokens: Tensor,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        global_mask: Tensor | None = None,
    ) -> Tensor:
        """Tokens, the segment of each and the mask of real ones, (B, L) each → states (B, L, D).

        `global_mask` (B, L) chooses tokens that are global besides the first ones, for the kinds of attention that have such.
        """
        chosen = self.global_tokens(segments, mask) if global_mask is None else global_mask
        states: Tensor = self.encoder(self.embed(tokens, segments), mask, global_mask=chosen)
        return states

    @torch.no_grad()
    def trace(
        self,
        tokens: Tensor,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        global_mask: Tensor | None = None,
    ) -> Trace:
        """The same as `states`, with the attention weights ("encoder") and hidden states of every layer.

        With pooling="attention", the attention "pooling" has the weights (B, H, queries, L) of the learned queries.
        """
        chosen = self.global_tokens(segments, mask) if global_mask is None else global_mask
        states, layers = self.encoder(self.embed(tokens, segments), mask, return_layers=True, global_mask=chosen)
        trace = Trace(states, {"encoder": layers.self_attention}, {"encoder": layers.hidden})
        if self.config.pooling == "attention":
            trace.attention["pooling"] = [self.pooling(states, mask, return_weights=True)[1]]
        return trace

    def pooled(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """States (B, L, D), mask (B, L) → one vector per sequence (B, D).

        With pooling="attention" and head="sequence" it is one vector per class: (B, classes, D).
        """
        if self.config.pooling == "mean":
            return mean_pooling(states, mask)
        if self.config.pooling == "attention":
            found: Tensor = self.pooling(states, mask)  # (B, queries, D)
            return found if self.config.head == "sequence" else found.squeeze(1)
        if self.config.head == "token":
            raise UsageError("a model with head=token scores every token and has no vector of the whole sequence")
        pooled = self.pooler(first_token(states))
        return torch.tanh(pooled) if self.config.pooler_activation == "tanh" else ACTIVATIONS[self.config.activation](pooled)

    def masked_states(self, states: Tensor, where: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The arguments of the masked language modelling loss: states (N, D) of the N positions that `where` (B, L) marks,
        after the head's transform, output weight (vocab, D) and output bias (vocab,)."""
        head = self.masked_language
        return head(states[where]), self.embedding.weight, head.bias

    def next_sentence_logits(self, states: Tensor) -> Tensor:
        """States (B, L, D) → logits (B, 2): the second text follows the first (0), or does not (1)."""
        logits: Tensor = self.next_sentence(self.pooled(states))
        return logits

    def forward(
        self,
        tokens: Tensor,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        global_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Tokens, segments and masks, (B, L) each → the output of the head.

        none: states (B, L, D). sequence: logits (B, classes). token: logits (B, L, classes). pretraining: logits of
        every token (B, L, vocab) and of the next sentence (B, 2).
        """
        states = self.states(tokens, segments, mask, global_mask)
        if self.config.head == "pretraining":
            head = self.masked_language
            masked = linear_map(head(states), self.embedding.weight, head.bias)
            return masked, self.next_sentence_logits(states)
        if self.config.head == "sequence":
            return class_scores(self.dropout(self.pooled(states, mask)), self.classifier)
        if self.config.head == "token":
            logits: Tensor = self.classifier(self.dropout(states))
            return logits
        return states

"""The peers of `train_speed.py`: the same Transformer built with other libraries, and the loop that trains it.

Each has the shape of heedful's model: post-norm, ReLU, sinusoidal positions, one matrix tied for source, target and output,
and dropout on embeddings and residuals but not inside attention and the feed-forward layers, as in heedful. The loop is the
best that is simple to write: batches collated in advance, no mask where the causal one suffices, padding removed before the
output projection, PyTorch's fused Adam, and one thread per core.

Run as a script, it trains one of them and reports its speed; `train_speed.py` does that and measures its memory.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from heedful.data.batches import Position
from heedful.data.collation import Batch, SpecialIds, special_ids
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.nn.positions import SinusoidalPositions
from heedful.recipes import load_recipe
from heedful.runtime.cores import cores
from heedful.tasks.translation import TranslationTask

LABEL_SMOOTHING, CLIP, BETAS, EPSILON = 0.1, 1.0, (0.9, 0.98), 1e-9
LONGEST = 512  # tokens, for the libraries that need a maximum length


class Peer(nn.Module):
    """An encoder–decoder of another library: `forward` gives the states, and `output_weight` projects them to logits."""

    output_weight: Tensor  # (vocabulary, D), tied to the embeddings

    def forward(self, batch: Batch) -> Tensor:
        """The decoder's last hidden states (B, T, D)."""
        raise NotImplementedError


class Marian(Peer):
    """Hugging Face's Marian."""

    def __init__(self, c: Seq2SeqConfig, special: SpecialIds) -> None:
        from transformers import MarianConfig, MarianMTModel

        super().__init__()
        config = MarianConfig(
            vocab_size=c.source_vocab, d_model=c.d_model, encoder_layers=c.layers, decoder_layers=c.depth,
            encoder_ffn_dim=c.d_ff, decoder_ffn_dim=c.d_ff, encoder_attention_heads=c.heads,
            decoder_attention_heads=c.heads, dropout=c.dropout, attention_dropout=0.0, activation_dropout=0.0,
            activation_function="relu", scale_embedding=True, max_position_embeddings=LONGEST,
            pad_token_id=special.target_pad, decoder_start_token_id=special.target_bos, eos_token_id=special.target_eos,
        )  # fmt: skip
        config._attn_implementation = "sdpa"  # the fastest attention on a CPU
        self.model = MarianMTModel(config)
        self.output_weight = self.model.lm_head.weight

    def forward(self, batch: Batch) -> Tensor:
        # Without the output layer, which would also add a zero bias to every logit.
        return self.model.model(
            input_ids=batch.source,
            attention_mask=batch.source_mask,
            decoder_input_ids=batch.target_in,
            use_cache=False,
        ).last_hidden_state


class TorchTransformer(Peer):
    """PyTorch's own layers, with the embeddings and positions that they leave to the user."""

    def __init__(self, c: Seq2SeqConfig, special: SpecialIds) -> None:
        super().__init__()
        self.embedding = nn.Embedding(c.source_vocab, c.d_model)
        nn.init.normal_(self.embedding.weight, std=c.d_model**-0.5)
        self.positions = SinusoidalPositions(c.d_model)
        self.dropout = nn.Dropout(c.dropout)
        self.transformer = nn.Transformer(c.d_model, c.heads, c.layers, c.depth, c.d_ff, c.dropout, batch_first=True)
        for layer in (*self.transformer.encoder.layers, *self.transformer.decoder.layers):
            layer.dropout.p = 0.0  # inside the feed-forward layer
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        self.scale = math.sqrt(c.d_model)
        self.output_weight = self.embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * self.scale + self.positions(tokens.size(1)))

    def forward(self, batch: Batch) -> Tensor:
        padding = ~batch.source_mask
        return self.transformer(
            self.embed(batch.source),
            self.embed(batch.target_in),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(batch.target_in.size(1)),
            tgt_is_causal=True,  # then the mask is not read
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )


class XTransformers(Peer):
    """x-transformers. Its `XTransformer` cannot tie the output matrix, so this combines the parts of it."""

    def __init__(self, c: Seq2SeqConfig, special: SpecialIds) -> None:
        from x_transformers import Decoder, Encoder, TransformerWrapper
        from x_transformers.x_transformers import TokenEmbedding

        super().__init__()
        layers = {
            "dim": c.d_model, "heads": c.heads, "attn_dim_head": c.key_width, "attn_sublayer_dropout": c.dropout,
            "ff_sublayer_dropout": c.dropout, "ff_mult": c.d_ff / c.d_model, "ff_custom_activation": nn.ReLU(),
            "pre_norm": False, "attn_flash": False,  # for such short sentences, fused attention is slower
        }  # fmt: skip
        wrapping = {
            "num_tokens": c.source_vocab, "max_seq_len": LONGEST, "emb_dropout": c.dropout, "scaled_sinu_pos_emb": True,
            "token_emb": TokenEmbedding(c.d_model, c.source_vocab), "return_only_embed": True,
        }  # fmt: skip
        self.encoder = TransformerWrapper(attn_layers=Encoder(depth=c.layers, **layers), **wrapping)
        self.decoder = TransformerWrapper(attn_layers=Decoder(depth=c.depth, cross_attend=True, **layers), **wrapping)
        self.output_weight = self.encoder.token_emb.emb.weight

    def forward(self, batch: Batch) -> Tensor:
        memory = self.encoder(batch.source, mask=batch.source_mask)
        return self.decoder(batch.target_in, context=memory, context_mask=batch.source_mask)


class JoeyNMT(Peer):
    """JoeyNMT's model, with PyTorch's loss, which is faster than its own."""

    def __init__(self, c: Seq2SeqConfig, special: SpecialIds) -> None:
        from joeynmt.decoders import TransformerDecoder
        from joeynmt.embeddings import Embeddings
        from joeynmt.encoders import TransformerEncoder
        from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward

        super().__init__()
        shape = {
            "hidden_size": c.d_model, "ff_size": c.d_ff, "num_heads": c.heads, "dropout": c.dropout, "emb_dropout": c.dropout,
            "layer_norm": "post",
        }  # fmt: skip
        self.embedding = Embeddings(c.d_model, scale=True, vocab_size=c.source_vocab, padding_idx=special.source_pad)
        self.encoder = TransformerEncoder(num_layers=c.layers, **shape)
        self.decoder = TransformerDecoder(num_layers=c.depth, vocab_size=c.target_vocab, **shape)
        self.decoder.output_layer = nn.Identity()  # tied to the embeddings, as with its `tied_softmax`
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)  # as its `initialize_model` does
        for module in self.modules():
            if isinstance(module, MultiHeadedAttention):
                module.dropout.p = 0.0
            elif isinstance(module, PositionwiseFeedForward):
                module.pwff_layer[2].p = 0.0  # between its two matrices
        self.output_weight = self.embedding.lut.weight

    def forward(self, batch: Batch) -> Tensor:
        source_mask = batch.source_mask[:, None]
        memory, _ = self.encoder(self.embedding(batch.source), None, source_mask)
        target = self.embedding(batch.target_in)
        return self.decoder(target, memory, None, source_mask, target.size(1), None, batch.target_mask[:, None])[0]


@dataclass(frozen=True)
class Library:
    """The library of a peer, and how to install it."""

    title: str
    package: str
    build: Callable[[Seq2SeqConfig, SpecialIds], Peer]
    modules: tuple[str, ...]  # modules it imports, directly or not, that heedful does not install
    install: str  # the command


BENCH = "pip install -c constraints.txt '.[bench]'"
# JoeyNMT's package requires protobuf<3.21, which conflicts with constraints.txt; its model does not use it.
JOEYNMT = "pip install -c constraints.txt --no-deps joeynmt"
JOEYNMT_IMPORTS = ("joeynmt", "importlib_metadata", "matplotlib", "sentencepiece", "subword_nmt", "tensorboard", "yaml")
PEERS = {
    "marian": Library("Hugging Face Marian", "transformers", Marian, ("transformers",), BENCH),
    "torch": Library("torch.nn.Transformer", "torch", TorchTransformer, (), BENCH),
    "x-transformers": Library("x-transformers", "x-transformers", XTransformers, ("x_transformers",), BENCH),
    "joeynmt": Library("JoeyNMT", "joeynmt", JoeyNMT, JOEYNMT_IMPORTS, f"{BENCH} && {JOEYNMT}"),
}


def missing_modules(name: str) -> list[str]:
    """The modules that must be installed before this peer can run."""
    return [module for module in PEERS[name].modules if importlib.util.find_spec(module) is None]


def loss_of(peer: Peer, batch: Batch, bf16: bool = False) -> Tensor:
    """Label-smoothed cross-entropy, averaged over the target tokens without padding; bf16 uses PyTorch's autocast."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = linear(peer(batch)[batch.target_mask], peer.output_weight)
        return cross_entropy(logits, batch.target_out[batch.target_mask], label_smoothing=LABEL_SMOOTHING)


def parameters_of(model: nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def first_batches(task: TranslationTask, count: int) -> list[Batch]:
    """The first batches that heedful trains on."""
    return [batch for _, batch in islice(task.batches(Position(), 0, 1), count) if batch is not None]


def train(settings: dict[str, Any]) -> dict[str, float]:
    """Train a peer for some steps; warm-up steps are not measured."""
    task, warm = TranslationTask(load_recipe("multi30k", settings["overrides"]), Path(settings["data"])), settings["warm"]
    assert isinstance(task.config, Seq2SeqConfig)
    torch.set_num_threads(cores())
    torch.manual_seed(1)
    special = special_ids(task.data.source_tokenizer, task.data.target_tokenizer)
    peer = PEERS[settings["engine"]].build(task.config, special).train()
    optimizer = torch.optim.Adam(peer.parameters(), lr=1e-4, betas=BETAS, eps=EPSILON, fused=True)
    batches = first_batches(task, settings["steps"])
    losses, started = [], 0.0
    for step, batch in enumerate(batches):
        if step == warm:
            started = time.perf_counter()
        loss = loss_of(peer, batch, settings["precision"] == "bf16")
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.detach())
    seconds = time.perf_counter() - started
    tokens = sum(int(batch.target_mask.sum()) for batch in batches[warm:])
    facts = {"first_loss": float(losses[0]), "last_loss": float(losses[-1])}
    return {"rate": tokens / seconds, "tokens": tokens, "parameters": parameters_of(peer), **facts}


if __name__ == "__main__":
    print(json.dumps(train(json.loads(sys.argv[-1]))))

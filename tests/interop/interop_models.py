"""Shared by the interop tests: models with random values in every weight, and small vocabularies."""

from __future__ import annotations

import importlib
import io
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful.jobs.registry import JOBS
from heedful.models import build_model
from heedful.text import Tokenizer

os.environ["HF_HUB_OFFLINE"] = "1"
TEXTS = [
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "The quick brown fox jumps over the lazy dog, twice a day.",
    "Größe und Straße, außerdem Ölförderung: 1,234.5 Liter!",
    "Le garçon naïf élève des œufs à l'été; n'est-ce pas ?",
    "Быстрая лиса прыгает через ленивую собаку.",
    "今日は天気がいいですね。明日も晴れるでしょう。",
    "مرحبا بالعالم كيف حالك اليوم",
    "안녕하세요 세계 여러분, 반갑습니다",
    "Ελληνικά γράμματα και λέξεις στο κείμενο",
]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "dog", "jump", "##s", "over", "a", "lazy", "quick", ",", "."]


def shake(model: nn.Module, seed: int) -> Any:
    """Add noise to every weight, also to those initialised to zeros or ones, and switch to evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        learned = [tensor for name, tensor in model.named_parameters() if "embed_positions" not in name]
        biases = [tensor for name, tensor in model.named_buffers() if name == "final_logits_bias"]  # of Marian
        for tensor in [*learned, *biases]:
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.2)
    return model.eval()


def saved(task: str, config: Any, tokenizers: dict[str, Tokenizer], settings: dict[str, Any], folder: Path) -> Any:
    """A pipeline around a model with random weights, saved as a directory."""
    pipeline: Any = JOBS[task].pipeline_class.assemble(shake(build_model(config), 1), tokenizers, settings)
    pipeline.save(folder, "# A card")
    return pipeline


def same_tensors(first: nn.Module, second: nn.Module) -> bool:
    """Whether two models have the same tensors under the same names."""
    left, right = first.state_dict(), second.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def batch(vocabulary: int, lengths: list[int], seed: int) -> tuple[Tensor, Tensor]:
    """Random tokens (B, L) and their mask, False at padding."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocabulary, (len(lengths), max(lengths)), generator=generator)
    return tokens, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def write_vocab_txt(folder: Path) -> None:
    """A BERT vocabulary of 16 words."""
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "model_max_length": 512}), encoding="utf-8")


def train_pieces(texts: list[str], size: int = 220, **options: Any) -> bytes:
    """A SentencePiece model trained on a few texts."""
    library = importlib.import_module("sentencepiece")
    written = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        vocab_size=size,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return written.getvalue()


def write_marian_vocabulary(folder: Path) -> int:
    """Write source.spm, target.spm and the vocab.json with the ids of the pieces of both, like Marian's; returns its size."""
    library = importlib.import_module("sentencepiece")
    names = ["</s>", "<unk>"]
    for side, texts in (("source", TEXTS[:3]), ("target", TEXTS[2:])):
        pieces = train_pieces(texts * 4)
        (folder / f"{side}.spm").write_bytes(pieces)
        model = library.SentencePieceProcessor(model_proto=pieces)
        names += [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
    names = [*dict.fromkeys(names), ">>de<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}), encoding="utf-8")
    return len(names)

"""Longformer and BigBird models of every head against transformers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop_models import batch, shake
from safetensors.torch import load_file
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from heedful.errors import HeedfulError
from heedful.interop import bigbird, longformer
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.interop.known_settings import sentence
from heedful.models.bert import Bert, BertConfig
from heedful.models.weights import named_weights
from heedful.pipelines import load_pipeline

SPECIAL = {
    "longformer": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    "big_bird": ["<pad>", "<unk>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]"],
}
LONGFORMERS = [
    f"LongformerFor{task}" for task in ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering")
]
BIGBIRDS = [f"BigBirdFor{task}" for task in ("PreTraining", "MaskedLM", "SequenceClassification", "TokenClassification")]
TASKS = {
    "Model": "embedding", "ForPreTraining": "bert-pretraining", "ForMaskedLM": "bert-pretraining",
    "ForSequenceClassification": "classification", "ForTokenClassification": "tagging",
    "ForQuestionAnswering": "question-answering",
}  # fmt: skip
WINDOWS: list[dict[str, Any]] = [
    {"attention_window": 4},
    {"attention_window": [6, 6], "num_attention_heads": 2, "type_vocab_size": 1},
]
BLOCKS: list[dict[str, Any]] = [
    {"block_size": 3, "num_random_blocks": 1},
    {"block_size": 2, "num_random_blocks": 2, "num_attention_heads": 2, "hidden_act": "gelu", "type_vocab_size": 1},
    {"attention_type": "original_full"},
]


def build(folder: Path, name: str, seed: int, **settings: Any) -> Any:
    """A small random model with a tokenizer in a directory."""
    folder.mkdir()
    family = "longformer" if name.startswith("Longformer") else "big_bird"
    names = [*SPECIAL[family], *"abcdefghijkl"]
    backend = Backend(models.WordLevel({word: number for number, word in enumerate(names)}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.save(str(folder / "tokenizer.json"))
    pad, sep = (1, 2) if family == "longformer" else (0, 5)
    sizes = {
        "vocab_size": len(names),
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
    }
    shape = {**sizes, "max_position_embeddings": 60, "pad_token_id": pad, "sep_token_id": sep, "num_labels": 3}
    if name.endswith("QuestionAnswering"):
        shape["num_labels"] = 2
    config_class = transformers.LongformerConfig if family == "longformer" else transformers.BigBirdConfig
    torch.manual_seed(seed)
    built = shake(getattr(transformers, name)(config_class(**{**shape, **settings})), seed)
    built.save_pretrained(folder)
    return built


@torch.no_grad()
def outputs(theirs: Any, ours: Any, lengths: list[int], seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(theirs, ours): all outputs for one padded batch."""
    tokens, mask = batch(ours.config.vocab - 8, lengths, seed)
    tokens = tokens + 8  # no special tokens
    pad = theirs.config.pad_token_id
    tokens = torch.where(mask, tokens, pad)
    name, given, segments = type(theirs).__name__, {}, None
    if name == "LongformerForQuestionAnswering":  # which counts the separators of every row
        for row, length in zip(tokens, lengths, strict=True):
            row[[3, 4, length - 1]] = theirs.config.sep_token_id
        segments = (torch.arange(tokens.size(1)) >= 4).long().expand_as(tokens)
        if theirs.config.type_vocab_size > 1:
            given["token_type_ids"] = segments
    elif name.startswith("BigBird"):
        segments, _ = batch(ours.config.segments, [tokens.size(1)] * len(lengths), seed + 1)
        given["token_type_ids"] = segments
    found = theirs(input_ids=tokens, attention_mask=mask.long(), **given)
    own = ours(tokens, segments, mask)
    if name.endswith("PreTraining"):
        return [(found.prediction_logits[mask], own[0][mask]), (found.seq_relationship_logits, own[1])]
    if name.endswith("MaskedLM"):
        return [(found.logits[mask], own[0][mask])]
    if name.endswith("QuestionAnswering"):
        return [(torch.stack([found.start_logits, found.end_logits], -1)[mask], own[mask])]
    if name.endswith("TokenClassification"):
        return [(found.logits[mask], own[mask])]
    if name.endswith("Model"):
        return [(found.last_hidden_state[mask], own[mask]), (found.pooler_output, ours.pooled(own))]
    return [(found.logits, own)]


def assert_close(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for theirs, own in pairs:
        torch.testing.assert_close(own, theirs, atol=1e-4, rtol=0)
        assert theirs.std() > 0.05


@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, window) for name in ["LongformerModel", *LONGFORMERS] for window in WINDOWS]
    + [(name, blocks) for name in ["BigBirdModel", *BIGBIRDS] for blocks in BLOCKS],
)
def test_a_long_model_gives_the_outputs_of_transformers_in_both_directions(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    seed = len(name)
    model = build(tmp_path / "theirs", name, seed, **settings)
    assert f"read a {name} of" in import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    pipeline = load_pipeline(tmp_path / "ours")
    assert pipeline.task == TASKS[name.removeprefix("Longformer").removeprefix("BigBird")]
    for lengths in ([41, 29, 33], [17, 9, 17], [50, 37, 50]):
        # A BigBird that has seen a short input stays with full attention.
        fresh = getattr(transformers, name).from_pretrained(tmp_path / "theirs").eval()
        assert_close(outputs(fresh, pipeline.model, lengths, seed))
    if settings.get("attention_type") == "original_full":
        return  # it is a BERT to us, or no model of theirs if it has BigBird's head
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["architectures"] == [name]
    again = getattr(transformers, name).from_pretrained(tmp_path / "back").eval()
    assert_close(outputs(again, pipeline.model, [41, 29, 33], seed))
    before, after = (load_file(tmp_path / part / "model.safetensors") for part in ("theirs", "back"))
    lost = {key for key in before.keys() - after.keys() if "pooler" not in key or "PreTraining" in name}  # which nothing reads
    assert not lost
    assert not after.keys() - before.keys()
    del model


def test_global_tokens_that_are_chosen_are_those_of_transformers(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "LongformerModel", 3, attention_window=4)
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    ours = load_pipeline(tmp_path / "ours").model
    theirs = transformers.LongformerModel.from_pretrained(tmp_path / "theirs").eval()
    tokens, mask = batch(9, [43, 30], 0)
    tokens = torch.where(mask, tokens + 8, 1)
    chosen = (torch.arange(43) % 11 == 2) & mask
    chosen[1, :20] = False  # another number of them in each row
    with torch.no_grad():
        found = theirs(input_ids=tokens, attention_mask=mask.long(), global_attention_mask=chosen.long()).last_hidden_state
        own = ours.states(tokens, None, mask, chosen)
    torch.testing.assert_close(own[mask], found[mask], atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"global_tokens": 2, "head": "sequence", "classes": 3}, "global_tokens = 2 (only 1)"),
        ({"pooling": "attention"}, "pooling = 'attention' (only 'mean')"),
        ({"global_tokens": 1}, "global_tokens = 1 (only 0)"),
    ],
)
def test_what_a_longformer_cannot_express_is_named(settings: dict[str, Any], said: str) -> None:
    config = BertConfig(9, layers=1, d_model=8, d_ff=8, heads=2, attention_kind="longformer", **settings)
    assert said in sentence("transformers", longformer.obstacles(config, "classification"))


def test_all_that_a_bigbird_cannot_express_is_named() -> None:
    config = BertConfig(9, layers=1, d_model=8, d_ff=8, heads=2, attention_kind="bigbird")
    config = dataclasses.replace(config, window=65, positions="rotary", head="sequence", classes=3, pooling="mean")
    said = sentence("transformers", bigbird.obstacles(config, "classification"))
    assert "published_bigbird = False (only True), positions = 'rotary'" in said
    assert "window = 65 (at most one attention_block on each side)" in said
    assert "train with model.published_bigbird=true model.positions=learned model.pooling=cls model.window=64" in said


def test_windows_that_differ_between_layers_are_refused(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "LongformerModel", 0, attention_window=[4, 8])
    with pytest.raises(HeedfulError, match=r"attention_window = \[4, 8\]: heedful has one window for all layers"):
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")


def test_settings_of_a_bigbird_that_ours_cannot_express_are_listed(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BigBirdModel", 0, use_bias=False, is_decoder=True)
    with pytest.raises(HeedfulError) as error:
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert "is_decoder = True (only False)" in str(error.value)
    assert "use_bias = False (only True)" in str(error.value)


def test_a_longformer_without_projections_for_global_tokens_exports_them_as_copies(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = BertConfig(
        19,
        layers=1,
        d_model=12,
        d_ff=8,
        heads=2,
        attention_kind="longformer",
        window=2,
        head="sequence",
        classes=3,
        max_positions=40,
    )
    ours = shake(Bert(config), 0)
    values, tensors = longformer.to_huggingface(config, named_weights(ours), "classification", 1, 2)
    theirs = transformers.LongformerForSequenceClassification(transformers.LongformerConfig(**{**values, "num_labels": 3})).eval()  # type: ignore[arg-type]
    assert not theirs.load_state_dict(tensors, strict=False).unexpected_keys
    assert_close(outputs(theirs, ours, [31, 22, 31], 0))

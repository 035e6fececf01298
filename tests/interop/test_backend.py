"""CTranslate2 as the program that decodes: the same outputs and scores, converted once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from interop_models import TEXTS, saved

from conftest import Run, Trained
from heedful.errors import HeedfulError
from heedful.interop import backend, ctranslate2_cache
from heedful.interop.backend import use_backend
from heedful.interop.ctranslate2_cache import KEPT, content_key
from heedful.jobs.options import TranslateOptions
from heedful.models.gpt import GPTConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.pipelines import load_pipeline
from heedful.text import Tokenizer

SIZES: dict[str, Any] = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tokenizer = Tokenizer.train("bpe", TEXTS, 320)
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, positions="rotary", norm="pre", **SIZES)
    saved("translation", config, {"tokenizer": tokenizer}, {"max_extra": 4}, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3}, {"beam": 4, "length_penalty": 1.4, "n_best": 3}])
def test_outputs_and_scores_are_those_of_the_native_search(options: dict[str, Any], trained: Trained) -> None:
    folder = trained("translation")
    pipeline: Any = load_pipeline(folder)
    texts = [" ".join(str((7 * number + place) % 10) for place in range(1 + number % 6)) for number in range(40)] + [""]
    ours = pipeline.search(texts, **options)
    use_backend(pipeline, folder, "ctranslate2", print)
    theirs = pipeline.search(texts, **options)
    same = [[one.tokens for one in left] == [one.tokens for one in right] for left, right in zip(ours, theirs, strict=True)]
    assert sum(same) >= 0.99 * len(texts) - 1
    for left, right, equal in zip(ours, theirs, same, strict=True):
        if equal:
            assert [one.score for one in left] == pytest.approx([one.score for one in right], abs=1e-3)


def test_a_sentence_keeps_its_own_length_limit_and_drawn_ones_stay_native(model: Path) -> None:
    pipeline: Any = load_pipeline(model)
    ours = pipeline.search(TEXTS, beam=1)
    drawn = pipeline.search(TEXTS, sample=True, seed=4)
    use_backend(pipeline, model, "ctranslate2", print)
    assert [one[0].tokens for one in pipeline.search(TEXTS, beam=1)] == [one[0].tokens for one in ours]
    assert pipeline.search(TEXTS, sample=True, seed=4) == drawn


def test_auto_leaves_beams_to_the_native_search_which_is_faster_there(model: Path) -> None:
    pipeline: Any = load_pipeline(model)
    use_backend(pipeline, model, "auto", print)
    greedy, beam = (
        sentences[0] for option in (1, 3) for sentences in pipeline.sentences(TEXTS[:1], TranslateOptions(beam=option))
    )
    assert pipeline.engine.can_decode(greedy)
    assert not pipeline.engine.can_decode(beam)
    assert pipeline.translate(TEXTS, beam=3) == load_pipeline(model).translate(TEXTS, beam=3)


def test_a_model_is_converted_once_and_again_when_it_changes(model: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        use_backend(load_pipeline(model), model, "auto", said.append)
    assert len(said) == 1
    assert "converted the model for CTranslate2" in said[0]
    first = content_key(model)
    pipeline: Any = load_pipeline(model)
    pipeline.model.output_bias.data += 1.0
    pipeline.save(model)
    use_backend(load_pipeline(model), model, "auto", said.append)
    assert len(said) == 2
    assert [path.name for path in (model / KEPT).iterdir()] == [content_key(model)] != [first]


def test_where_the_model_cannot_be_written_the_conversion_is_kept_in_the_users_cache(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (model / KEPT).write_text("a file, where the folder would be")
    pipeline: Any = load_pipeline(model)
    use_backend(pipeline, model, "ctranslate2", print)
    assert (tmp_path / "cache" / "heedful" / "ctranslate2" / content_key(model) / "model.bin").is_file()
    assert pipeline.translate(TEXTS[:1], beam=1) == load_pipeline(model).translate(TEXTS[:1], beam=1)


def test_a_conversion_that_another_process_finished_first_is_used(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline: Any = load_pipeline(model)
    original = ctranslate2_cache.ctranslate2.write

    def slower(pipeline: Any, folder: Path) -> str:
        said = original(pipeline, folder)
        shutil.copytree(folder, folder.parent / content_key(model))  # the other process
        return said

    monkeypatch.setattr(ctranslate2_cache.ctranslate2, "write", slower)
    use_backend(pipeline, model, "ctranslate2", print)
    assert os.listdir(model / KEPT) == [content_key(model)]


def test_what_cannot_be_decoded_there_is_an_error_or_stays_native(model: Path, tmp_path: Path, monkeypatch: Any) -> None:
    tokenizer = Tokenizer.train("bpe", TEXTS, 320)
    saved("language-model", GPTConfig(tokenizer.size, context=20, **SIZES), {"tokenizer": tokenizer}, {}, tmp_path / "gpt")
    writer: Any = load_pipeline(tmp_path / "gpt")
    use_backend(writer, tmp_path / "gpt", "auto", print)
    assert writer.engine is None
    with pytest.raises(HeedfulError, match="it decodes translations and summaries"):
        use_backend(writer, tmp_path / "gpt", "ctranslate2", print)
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    translator: Any = load_pipeline(model)
    use_backend(translator, model, "auto", print)
    assert translator.engine is None
    with pytest.raises(HeedfulError, match=r"not installed; install it with: pip install 'heedful\[fast\]'"):
        use_backend(translator, model, "ctranslate2", print)


def test_the_command_line_exports_and_decodes(trained: Trained, tmp_path: Path, run: Run) -> None:
    folder = trained("translation")
    output, _ = run("export", folder, tmp_path / "out", "--to", "ctranslate2", "--quantize", "int8")
    assert "outputs identical" in output
    assert "which computes in int8" in output
    native, _ = run("translate", folder, "1 2 3", "4 5", "--backend", "native")
    theirs, _ = run("translate", folder, "1 2 3", "4 5", "--backend", "ctranslate2")
    assert theirs == native
    _, error = run("translate", folder, "1", "--backend", "fast", code=2)
    assert "backend must be one of auto, native, ctranslate2, not 'fast'" in error
    _, error = run("export", folder, tmp_path / "out", "--to", "ctranslate2", code=2)
    assert "exists already" in error

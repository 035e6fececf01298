"""Text written from text: what a summarizer reads of a long document, and likelihoods that are the model's."""

from __future__ import annotations

import pytest
import torch

from conftest import Trained
from heedful.pipelines import load_pipeline
from heedful.pipelines.summarizer import Summarizer
from heedful.pipelines.translator import Translator
from heedful.recipes import load_recipe
from heedful.runtime.screen import Silence
from heedful.training.run import train


@pytest.fixture(scope="module")
def summarizer(trained: Trained) -> Summarizer:
    found = load_pipeline(trained("summarization"))
    assert isinstance(found, Summarizer)
    return found


def test_a_summarizer_reads_the_beginning_of_a_long_document(summarizer: Summarizer) -> None:
    document = "the sun is over 7 rivers . " * 40
    assert summarizer.max_length == 256
    assert len(summarizer.source_tokenizer.encode(document)) > 1000
    beginning = document[:256]  # its tokens are characters
    assert summarizer.translate([document]) == summarizer.translate([beginning])
    assert summarizer.predict([(document, "sun")])[0][1:] == pytest.approx(summarizer.predict([(beginning, "sun")])[0][1:])


def test_an_empty_text_stays_empty(summarizer: Summarizer, trained: Trained) -> None:
    for pipeline in (summarizer, load_pipeline(trained("translation"))):
        assert pipeline.translate(["", " "])[0] == ""
        assert pipeline.translate([]) == []


def test_likelihoods_are_the_model_s(trained: Trained) -> None:
    translator = load_pipeline(trained("translation"))
    assert isinstance(translator, Translator)
    pairs = [("1 2 3", "three two one"), ("4", "four"), ("1 2 3 4 5 6", "six")]
    source, target = translator.source_tokenizer, translator.target_tokenizer
    for (left, right), (found, tokens) in zip(pairs, translator.log_likelihoods(pairs), strict=True):
        ids = target.encode(right)
        read = torch.tensor([[*source.encode(left), source.eos]])
        with torch.no_grad():
            log_probabilities = translator.model(read, torch.tensor([[target.bos, *ids]]))[0]
        wanted = torch.tensor([*ids, target.eos])
        assert tokens == len(ids) + 1
        assert found == pytest.approx(float(log_probabilities.gather(1, wanted[:, None]).sum()), rel=1e-4)


def test_a_recurrent_translator_is_trained_saved_and_used_as_any_other(
    trained: Trained, tmp_path_factory: pytest.TempPathFactory
) -> None:
    attentive = load_recipe(str(trained("translation") / "recipe.toml"))
    folder = tmp_path_factory.mktemp("recurrent")
    files = [f"data.source={attentive.data.source}", f"data.target={attentive.data.target}", "tokenizer.kind=char"]
    small = ["model.kind=recurrent", "model.d_model=16", "training.steps=2", "training.workers=1", "decoding.max_extra=5"]
    results = train(load_recipe("translation", [*files, *small, "training.batch_tokens=300"]), folder / "run", Silence())
    translator = load_pipeline(folder / "run")
    assert type(translator.model).__name__ == "Recurrent"
    beams = translator.search(["1 2 3"], beam=3, n_best=3)[0]
    assert len(beams) == 3
    assert beams[0].score >= beams[1].score >= beams[2].score
    assert results["best"]["validation"]["perplexity"] > 1.0

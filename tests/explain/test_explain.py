"""An explanation says what the model did, for every job and kind of model; its numbers are computed again by hand."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from conftest import TASKS, Trained, write_examples
from heedful.errors import HeedfulError, UsageError
from heedful.explain import Explanation, explain
from heedful.explain.any_model import explain_example
from heedful.models.bert import Bert, BertConfig
from heedful.models.gpt import GPT, GPTConfig
from heedful.models.recurrent import Recurrent, RecurrentConfig
from heedful.models.seq2seq import Reads, Seq2Seq, Seq2SeqConfig
from heedful.models.vit import ViT, ViTConfig
from heedful.nn.positions import PositionKind
from heedful.pipelines import load_pipeline
from heedful.pipelines.classifier import Classifier
from heedful.pipelines.embedder import Embedder
from heedful.pipelines.image_classifier import ImageClassifier
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer
from heedful.text import Tokenizer

PASSAGE = "Person 1a lives in Oslo. Person 1b lives in Rome."
INPUTS: dict[str, tuple[str, ...]] = {
    "translation": ("1 2 3",),
    "summarization": ("the sun is over 7 rivers .",),
    "language-model": ("the sun",),
    "bert-pretraining": ("the [MASK] is over 7 [MASK] .",),
    "classification": ("the sun is over 7 rivers .",),
    "tagging": ("on 7 May 1984 .",),
    "question-answering": ("Where does person 1b live?", PASSAGE),
}
Explained = Callable[[str], tuple[Any, Explanation, str]]
CHARACTERS = Tokenizer.train("char", ["ein mann und ein hund."], 40)


def shaken(model: Any) -> Any:
    """In eval mode, with weights large enough that every part matters."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def translator(**settings: Any) -> Translator:
    """A random model with odd settings: d_k ≠ d_v, fewer decoder layers than encoder layers."""
    odd = {"layers": 3, "decoder_layers": 2, "d_model": 12, "d_ff": 20, "heads": 3, "d_k": 6, "d_v": 2, "max_distance": 3}
    config = Seq2SeqConfig(CHARACTERS.size, CHARACTERS.size, **{**odd, **settings})
    return Translator(shaken(Seq2Seq(config)), CHARACTERS, CHARACTERS, beam=3, max_extra=4)


def check_attention(found: Explanation, heads: int, layers: dict[str, int]) -> None:
    """Every layer and head is there, and the weights are the softmax of the scores where the mask allows it."""
    assert {one.name: len(one.layers) for one in found.attention} == layers
    for one in found.attention:
        queries, keys = found.sequences[one.queries].tokens, found.sequences[one.keys].tokens
        allowed = torch.ones(len(queries), len(keys), dtype=torch.bool)
        if one.name == "decoder":
            allowed = allowed.tril()
        for number, layer in enumerate(one.layers, 1):
            assert layer.number == number
            assert layer.scores is not None
            assert layer.weights.shape == layer.scores.shape == (heads, len(queries), len(keys))
            assert np.isfinite(layer.scores).all()
            by_hand = torch.from_numpy(layer.scores).masked_fill(~allowed, -math.inf).softmax(-1)
            np.testing.assert_allclose(layer.weights, by_hand, atol=1e-5)


@pytest.fixture(scope="module")
def explained(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Explained:
    """A trained model of a job, its explanation of an input, and what its verb answers."""
    return cache(lambda task: explain_and_run(load_pipeline(trained(task)), task, tmp_path_factory.mktemp(task)))


def explain_and_run(pipeline: Any, task: str, folder: Path) -> tuple[Any, Explanation, str]:
    """A model, its explanation of an input, and what its verb answers."""
    if task == "image-classification":
        image = str(next(write_examples(task, folder, 2).rglob("*.png")))
        return pipeline, explain(pipeline, image), pipeline.run([image])[0].as_text()
    given = INPUTS[task]
    if task == "language-model":
        return pipeline, explain(pipeline, *given, length=8), pipeline.generate(given[0], beam=1, length=8)
    return pipeline, explain(pipeline, *given), pipeline.run([given if len(given) == 2 else given[0]])[0].as_text()


@pytest.mark.parametrize("task", TASKS)
def test_every_job_is_explained_and_its_output_is_that_of_its_verb(task: str, trained: Trained, explained: Explained) -> None:
    pipeline, found, said = explained(task)
    assert found.output.strip() == said.strip()
    assert (found.job, found.kind) == (task, json.loads((trained(task) / "best/config.json").read_text())["kind"])
    names = {"seq2seq": ["encoder", "decoder", "cross"], "gpt": ["decoder"]}.get(found.kind, ["encoder"])
    check_attention(found, pipeline.model.config.heads, dict.fromkeys(names, 1))
    for norms in found.norms:
        assert norms.values.shape == (2, len(found.sequences[norms.sequence].tokens))
        assert (norms.values > 0).all()
    assert found.candidates
    for one in found.candidates:
        assert [c.probability for c in one.top] == sorted((c.probability for c in one.top), reverse=True)
        assert sum(c.probability for c in one.top) <= 1 + 1e-5
    for lens in found.lens:
        columns = lens.columns or found.sequences[lens.sequence].texts
        assert [len(row) for row in lens.layers] == [len(columns)] * len(lens.labels) == [len(columns)] * 2
        last = {prediction.position or 0: prediction.top for prediction in found.candidates}
        for position, top in last.items():
            if lens.columns != ["answer"]:  # of an answer, the lens sees one window only
                assert [c.text for c in lens.layers[-1][position]] == [c.text for c in top]
                np.testing.assert_allclose(
                    [c.probability for c in lens.layers[-1][position]], [c.probability for c in top], atol=1e-6
                )


@pytest.mark.parametrize("task", TASKS)
def test_the_json_of_every_job_keeps_the_contract(task: str, explained: Explained) -> None:
    _, found, _ = explained(task)
    row = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert list(row) == [
        "format", "job", "verb", "kind", "model", "input", "output", "sequences", "attention", "norms", "lens", "candidates",
        "beam",
    ]  # fmt: skip
    for one in row["attention"]:
        queries, keys = (row["sequences"][one[side]]["tokens"] for side in ("queries", "keys"))
        for layer in one["layers"]:
            weights = np.array(layer["weights"])
            assert weights.shape == np.array(layer["scores"]).shape == (2, len(queries), len(keys))
            np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-4)
    for sequence in row["sequences"].values():
        assert list(sequence) == ["tokens", "segments", "image"]
        assert all(list(token) == ["id", "text", "special", "word"] for token in sequence["tokens"])
        assert all(token["word"] is None for token in sequence["tokens"] if token["special"])
    if task == "image-classification":
        assert row["sequences"]["input"]["image"]["source"].startswith("data:image/png;base64,")
        assert [token["text"] for token in row["sequences"]["input"]["tokens"][:3]] == ["[CLS]", "1,1", "1,2"]


@pytest.mark.parametrize("task", TASKS)
def test_a_notebook_shows_the_page_of_every_job(task: str, explained: Explained) -> None:
    _, found, _ = explained(task)
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    page = html.unescape(shown.split('srcdoc="')[1].split('" style=')[0])
    assert page == found.to_html()
    data = json.loads(page.split('id="explanation">')[1].split("</script>")[0])
    assert data["output"] == found.output
    assert [one["layers"][0]["weights"]["shape"] for one in data["attention"]] == [
        list(one.layers[0].weights.shape) for one in found.attention
    ]
    assert repr(found).startswith("<Explanation of ")


@pytest.mark.parametrize("positions", get_args(PositionKind))
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("reads", get_args(Reads))
def test_candidates_lens_and_norms_are_those_of_the_forward_pass(positions: Any, norm: Any, reads: Any) -> None:
    pipeline = translator(positions=positions, norm=norm, reads=reads, decoder_layers=3)
    model, target = pipeline.model, "ein hund"
    found = explain(pipeline, "ein mann", target=target, top=CHARACTERS.size)
    check_attention(found, 3, {"encoder": 3, "decoder": 3, "cross": 3})
    source = torch.tensor([[*CHARACTERS.encode("ein mann"), CHARACTERS.eos]])
    read = torch.tensor([[CHARACTERS.bos, *CHARACTERS.encode(target)]])
    logits = model(source, read)[0].detach()
    logits[:, [CHARACTERS.pad, CHARACTERS.bos]] = -math.inf  # as a search excludes them
    expected = logits.softmax(-1)
    assert [one.chosen for one in found.candidates] == [*CHARACTERS.encode(target), CHARACTERS.eos]
    for layers in (found.lens[0].layers[-1], [one.top for one in found.candidates]):
        for top, row in zip(layers, expected, strict=True):
            np.testing.assert_allclose([c.probability for c in top], [float(row[c.id]) for c in top], atol=1e-6)
    decoder = next(norms for norms in found.norms if norms.stack == "decoder")
    assert decoder.values.shape == (4, len(read[0]))
    np.testing.assert_allclose(decoder.values[0], model.target_embedding(read)[0].norm(dim=-1).detach(), rtol=1e-5)
    if norm == "post":  # each vector has just been normalised by LayerNorm, whose output is the hidden state
        last = model.decode(read, model.encode(source))[0]
        np.testing.assert_allclose(decoder.values[-1], last.norm(dim=-1).detach(), rtol=1e-4)


def test_what_is_explained_of_a_forced_target_needs_no_beam() -> None:
    pipeline = translator()
    found = explain(pipeline, "ein mann", target="ein hund.")
    assert (found.output, found.beam) == ("ein hund.", None)
    assert found.sequences["target"].texts == ["⟨begin⟩", *"ein hund."]
    assert found.sequences["source"].texts == [*"ein mann", "⟨end⟩"]
    assert [token.word for token in found.sequences["target"].tokens] == [None, 0, 0, 0, None, 1, 1, 1, 1, 2]
    assert [one.chosen for one in found.candidates][-1] == CHARACTERS.eos


@pytest.mark.parametrize(("cell", "attention"), [("gru", "none"), ("lstm", "additive"), ("gru", "bilinear")])
def test_recurrent_models_are_explained_with_the_attention_they_have(cell: Any, attention: Any) -> None:
    config = RecurrentConfig(CHARACTERS.size, CHARACTERS.size, cell, attention, layers=2, d_model=12)
    pipeline = Translator(shaken(Recurrent(config)), CHARACTERS, CHARACTERS, beam=2, max_extra=3)
    found = explain(pipeline, "ein mann", top=CHARACTERS.size)
    check_attention(found, 1, {} if attention == "none" else {"cross": 1})
    source = torch.tensor([[*CHARACTERS.encode("ein mann"), CHARACTERS.eos]])
    read = torch.tensor([[token.id for token in found.sequences["target"].tokens]])
    logits = pipeline.model(source, read)[0].detach()
    logits[:, [CHARACTERS.pad, CHARACTERS.bos]] = -math.inf
    for top, row in zip(found.lens[0].layers[-1], logits.softmax(-1), strict=True):
        np.testing.assert_allclose([c.probability for c in top], [float(row[c.id]) for c in top], atol=1e-6)
    assert found.lens[0].labels == ("embeddings", "cells", "cells and attention")[: 2 if attention == "none" else 3]
    if attention == "none":
        with pytest.raises(UsageError, match="no attention"):
            found.attention_of()


def test_a_gpt_is_explained_over_its_prompt_and_what_it_wrote() -> None:
    model = shaken(GPT(GPTConfig(CHARACTERS.size, layers=2, d_model=12, d_ff=16, heads=3, context=16, positions="rotary")))
    writer = Writer(model, CHARACTERS)
    found = explain(writer, "ein ", length=6, top=4)
    check_attention(found, 3, {"decoder": 2})
    assert found.output == writer.generate("ein ", beam=1, length=6)
    tokens = found.sequences["input"].tokens
    assert [token.text for token in tokens[:5]] == ["⟨end⟩", *"ein "]
    probabilities = model(torch.tensor([[token.id for token in tokens]]))[0].exp().detach()
    excluded = probabilities[:, [CHARACTERS.pad, CHARACTERS.bos]].sum(-1)
    for i, one in enumerate(found.candidates):
        assert one.chosen == (tokens[i + 1].id if i + 1 < len(tokens) else None)
        expected = [float(probabilities[i, c.id] / (1 - excluded[i])) for c in one.top]
        np.testing.assert_allclose([c.probability for c in one.top], expected, atol=1e-5)
    searched = explain(writer, "ein ", length=6, beam=3)
    assert searched.beam is not None
    assert searched.output == writer.generate("ein ", beam=3, length=6)
    with pytest.raises(UsageError, match="context of 15"):
        explain(writer, "ein " * 10)
    with pytest.raises(UsageError, match="context is 15"):
        explain(writer, "ein ", target="hund " * 5)
    assert len(explain(writer, "ein mann", length=1000).sequences["input"].tokens) <= 16
    assert explain(writer, "").sequences["input"].texts[0] == "⟨end⟩"


@pytest.mark.parametrize("pooling", ["cls", "mean", "attention"])
def test_attention_pooling_and_the_lens_of_a_classifier(pooling: Any) -> None:
    config = BertConfig(
        CHARACTERS.size, layers=2, d_model=12, d_ff=16, heads=3, max_positions=32, head="sequence", classes=2, pooling=pooling
    )
    pipeline = Classifier(shaken(Bert(config)), CHARACTERS, ["yes", "no"], 32)
    found = explain(pipeline, "ein hund")
    check_attention(found, 3, {"encoder": 2} if pooling != "attention" else {"encoder": 2, "pooling": 1})
    if pooling == "attention":
        assert found.sequences["queries"].texts == ["yes", "no"]
    by_hand = (
        pipeline.model(torch.tensor([[CHARACTERS.bos, *CHARACTERS.encode("ein hund"), CHARACTERS.eos]])).softmax(-1)[0].detach()
    )
    (top,) = found.lens[0].layers[-1]
    np.testing.assert_allclose([c.probability for c in top], [float(by_hand[c.id]) for c in top], atol=1e-6)
    assert found.candidates[0].top == top


def test_a_vision_transformer_with_attention_pooling_attends_from_classes_to_patches() -> None:
    config = ViTConfig(3, image_size=8, channels=1, patch=4, layers=2, d_model=12, d_ff=16, heads=3, pooling="attention")
    pipeline = ImageClassifier(shaken(ViT(config)), ["a", "b", "c"])
    found = explain_example(pipeline, (np.arange(64, dtype=np.uint8).reshape(1, 8, 8), "a"))
    check_attention(found, 3, {"encoder": 2, "pooling": 1})
    assert found.sequences["queries"].texts == ["a", "b", "c"]
    assert found.sequences["patches"].texts == ["1,1", "1,2", "2,1", "2,2"]
    assert found.sequences["input"].texts == ["[CLS]", "1,1", "1,2", "2,1", "2,2"]


def test_the_other_models_answer_in_their_own_ways(trained: Trained) -> None:
    masked = load_pipeline(trained("bert-pretraining"))
    found = explain(masked, "the [MASK] is over", top=3)
    (place,) = found.candidates
    assert place.position == found.sequences["input"].texts.index("[MASK]")
    assert [(c.text, pytest.approx(c.probability, abs=1e-6)) for c in place.top] == masked.fill("the [MASK] is over", top=3)[0]
    pair = explain(masked, "the sun", "snow")
    segments, texts = pair.sequences["input"].segments, pair.sequences["input"].texts
    assert segments is not None
    assert [text for text, segment in zip(texts, segments, strict=True) if segment] == texts[texts.index("[SEP]") + 1 :]
    assert sum(c.probability for c in pair.candidates[-1].top) == pytest.approx(1)
    assert explain(masked, "the sun is over").candidates == []
    answerer = load_pipeline(trained("question-answering"))
    answered = explain(answerer, *INPUTS["question-answering"])
    (span,) = answerer.answer([INPUTS["question-answering"]])
    assert (answered.candidates[0].top[0].text, answered.output) == (span.text, span.text)
    assert answered.candidates[0].top[0].probability == pytest.approx(span.probability, rel=1e-4)
    long = explain(answerer, INPUTS["question-answering"][0], " ".join([PASSAGE] * 12))
    assert len(long.sequences["input"].tokens) <= 48
    embedder = Embedder.of(load_pipeline(trained("classification")))
    plain = explain(embedder, "the sun")
    assert (plain.candidates, plain.lens, plain.output) == ((), (), "")
    assert plain.attention


def test_a_tagger_has_candidates_for_the_first_token_of_every_word(trained: Trained) -> None:
    tagger = load_pipeline(trained("tagging"))
    found = explain(tagger, "on 7 May 1984 .")
    tokens = found.sequences["input"].tokens
    words = [tokens[one.position].word for one in found.candidates if one.position is not None]
    assert words == [0, 1, 2, 3, 4]
    assert [found.place_of(one) for one in found.candidates] == ["on", "7", "May", "1984", "."]
    assert [one.top[0].text for one in found.candidates] == [tag for _, tag in tagger.tag("on 7 May 1984 .")]


def test_explaining_changes_nothing_about_the_model(trained: Trained) -> None:
    pipeline = load_pipeline(trained("translation"))
    before = pipeline.translate("1 2 3")
    pipeline.model.train()
    explain(pipeline, "1 2 3")
    assert pipeline.model.training
    pipeline.model.eval()
    assert pipeline.translate("1 2 3") == before


@pytest.mark.parametrize(
    ("task", "given", "options", "message"),
    [
        ("translation", ("",), {}, "nothing to explain"),
        ("translation", ("a", "b"), {}, "reads one text, not two"),
        ("translation", ("a",), {"length": 5}, "has no length"),
        ("translation", ("a",), {"tp": 5}, "there is no option 'tp'"),
        ("translation", ("a",), {"top": 0}, "at least 1"),
        ("classification", ("a",), {"beam": 2}, "a text classifier has no beam"),
        ("tagging", ("a",), {"target": "x"}, "a tagger has no target"),
        ("question-answering", ("a?",), {}, "needs a passage"),
        ("image-classification", ("absent.png",), {}, "there is no image absent.png"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_words(
    task: str, given: tuple[str, ...], options: dict[str, Any], message: str, trained: Trained
) -> None:
    with pytest.raises(HeedfulError, match=message):
        explain(load_pipeline(trained(task)), *given, **options)


def test_an_input_whose_weights_would_not_fit_into_memory_is_refused(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.explain.from_trace.memory_of_machine", lambda: 20_000)
    with pytest.raises(UsageError, match=r"explain a text of at most about \d+ tokens"):
        explain(load_pipeline(trained("classification")), "the sun is over 7 rivers . " * 4)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "byte", "char"])
def test_words_are_numbered_across_subwords_of_every_tokenizer(kind: str) -> None:
    from heedful.explain.tokens import encoded_tokens, written_tokens

    text = "Unbelievably, the café was cheap: 10 € now!"
    tokenizer = Tokenizer.train(kind, [text] * 3, 300 if kind != "char" else 60)
    words = ["Unbelievably", ",", "the", "café", "was", "cheap", ":", "10", "€", "now", "!"]
    read, written = encoded_tokens(tokenizer, text), written_tokens(tokenizer, tokenizer.encode(text))
    for tokens in (read, written):
        numbers = [token.word for token in tokens if token.word is not None]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(len(words)))
    if kind in ("char", "wordpiece"):
        for number, word in enumerate(words):
            assert "".join(token.text.removeprefix("##") for token in read if token.word == number) == word

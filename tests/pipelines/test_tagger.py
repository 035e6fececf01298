"""Tags of words: one for each, however long the sentence, read off its first token."""

from __future__ import annotations

import pytest
import torch

from conftest import Trained
from heedful.pipelines import load_pipeline
from heedful.pipelines.tagger import Tagger, pieces_of
from heedful.text import Tokenizer


@pytest.fixture(scope="module")
def tagger(trained: Trained) -> Tagger:
    found = load_pipeline(trained("tagging"))
    assert isinstance(found, Tagger)
    return found


def test_a_tag_is_the_likeliest_of_the_word_s_first_token(tagger: Tagger) -> None:
    words = ["on", "7", "May", "1984"]
    tokenizer = tagger.tokenizer
    rows = [tokenizer.encode(word) for word in words]
    ids = [tokenizer.bos, *(token for row in rows for token in row), tokenizer.eos]
    with torch.no_grad():
        logits = tagger.model(torch.tensor([ids]))
    assert isinstance(logits, torch.Tensor)
    places = [1 + sum(map(len, rows[:number])) for number in range(4)]
    expected = [tagger.labels[int(logits[0, place].argmax())] for place in places]
    assert tagger.tag_words([words]) == [expected]


def test_words_are_found_as_the_recipe_says(tagger: Tagger) -> None:
    text = "on 7.May, 1984"
    assert (tagger.split, tagger.words(text)) == ("words", ["on", "7", ".", "May", ",", "1984"])
    assert [word for word, _ in tagger.tag([text])[0]] == ["on", "7", ".", "May", ",", "1984"]
    spaced = Tagger(tagger.model, tagger.tokenizer, tagger.labels, tagger.max_length, "spaces")
    assert spaced.words(text) == ["on", "7.May,", "1984"]


def test_every_word_of_a_long_sentence_has_a_tag(tagger: Tagger) -> None:
    words = "on 7 May 1984 .".split() * 30
    (tags,) = tagger.tag_words([words])
    assert len(tags) == len(words) == 150
    assert set(tags) <= set(tagger.labels)
    assert tags != [tagger.labels[0]] * 150
    texts = ["", "on", " ".join(words)]
    assert [len(tagged) for tagged in tagger.tag(texts)] == [0, 1, 150]


def test_a_word_of_which_nothing_is_left_is_taken_for_the_first_label(tagger: Tagger) -> None:
    (tags,) = tagger.tag_words([["on", "", "7"]])
    assert len(tags) == 3
    assert tags[1] == "O"


def test_a_tag_the_model_does_not_know_counts_as_wrong(tagger: Tagger) -> None:
    examples = [(["on", "7"], ["O", "B-HOUR"])]
    outputs = tagger.predict(examples)
    assert outputs[0][2] == 1  # of two words
    assert tagger.scores(examples, outputs)["accuracy"] <= 50.0


@pytest.mark.parametrize("room", [3, 5, 8, 100])
def test_pieces_hold_every_word_once_and_none_is_torn(room: int) -> None:
    words = ["a", "bcd", "ef", "", "ghijklmnop", "q", "rs"]
    tokenizer = Tokenizer.train("char", words, 40)
    pieces = pieces_of(words, tokenizer, room)
    seen = 0
    for start, ids, first in pieces:
        assert start == seen
        assert len(ids) <= room
        text = "".join(tokenizer.tokens(ids))
        assert text == "".join(word[:room] for word in words[start : start + len(first)])
        for word, place in zip(words[start:], first, strict=False):
            assert place is None if not word else text[place:].startswith(word[:room])
        seen += len(first)
    assert seen == len(words)
    assert pieces_of([], tokenizer, room) == []

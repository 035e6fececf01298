"""Alignments merge subwords into words, and their error rate is that of Och and Ney (2003)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Trained
from heedful.errors import HeedfulError, UsageError
from heedful.explain.alignment import Gold, align, error_rate, links_of, pharaoh, read_gold, read_pairs, word_sources
from heedful.explain.explanation import AttentionLayer, AttentionMap, Explanation, Token, TokenSequence
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.pipelines import load_pipeline
from heedful.pipelines.translator import Translator
from heedful.text import Tokenizer

GOLD = [Gold({(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)}), Gold({(0, 0)}, {(0, 0)})]


def test_the_error_rate_of_an_example_worked_out_by_hand() -> None:
    found = [{(0, 0), (2, 1), (3, 3)}, {(0, 0)}]
    # |A| = 4, |S| = 3, A ∩ S: (0,0) and (0,0), A ∩ P: these and (2,1).
    assert error_rate(found, GOLD) == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert error_rate([one.sure for one in GOLD], GOLD) == 0.0
    assert error_rate([one.possible for one in GOLD], GOLD) == 0.0  # possible links are never wrong
    assert error_rate([set(), set()], GOLD) == 1.0
    assert error_rate([], []) == 0.0


def pair_explanation() -> Explanation:
    """`big old houses` → `alte Haus .`, with words of two tokens; the decoder reads ⟨begin⟩ al te Haus."""
    source = [
        Token(1, "big", False, 0),
        Token(2, "o", False, 1),
        Token(3, "ld", False, 1),
        Token(4, "house", False, 2),
        Token(0, "⟨end⟩", True),
    ]
    target = [Token(0, "⟨begin⟩", True), Token(5, "al", False, 0), Token(6, "te", False, 0), Token(7, "Haus", False, 1)]
    one = np.array(  # a row per token that is read
        [
            [0.40, 0.30, 0.30, 0.00, 0.00],  # writes “al”: “old” wins with both of its tokens together
            [0.30, 0.10, 0.10, 0.00, 0.50],  # writes “te”
            [0.00, 0.10, 0.00, 0.30, 0.60],  # writes “Haus”: the end never counts
            [0.90, 0.00, 0.00, 0.00, 0.10],  # reads “Haus”
        ]
    )
    other = one[:, [3, 1, 2, 0, 4]]
    layer = AttentionLayer(1, np.stack([one, other]).astype(np.float32), None)
    sequences = {"source": TokenSequence(source), "target": TokenSequence(target)}
    cross = AttentionMap("cross", "", "target", "source", [layer])
    return Explanation("translation", "translate", "seq2seq", "", "big old house", "alte Haus", sequences, [cross])


def test_words_are_aligned_by_the_attention_of_all_their_tokens() -> None:
    written = word_sources(pair_explanation(), "written")
    assert written.shape == (1, 3, 2)
    # Head 1: “al” gives old 0.6, big 0.4; “te” big 0.3, old 0.2: old 0.8, big 0.7.
    assert written[0, 1].tolist() == [1, 2]
    assert written[0, 2].tolist() == [1, 0]
    read = word_sources(pair_explanation(), "read")
    # The rows that read “al” and “te”: big 0.3, old 0.3 in all, house 0.3; the first of the best.
    assert read[0, 1, 1] == 0
    assert read[0, 2, 1] == 2
    assert pharaoh(links_of(written[0, 1])) == "1-0 2-1"


def test_words_are_what_stands_between_spaces_whatever_the_tokenizer() -> None:
    torch.manual_seed(0)
    pairs = [("it isn't 3.5 €.", "c'est 3,5 €!"), ("", "a"), ("a  b ", "")]
    for kind in ("char", "byte"):
        tokenizer = Tokenizer.train(kind, [text for pair in pairs for text in pair], 60)
        model = Seq2Seq(Seq2SeqConfig(tokenizer.size, tokenizer.size, layers=2, decoder_layers=3, d_model=8, d_ff=8, heads=2))
        alignments = align(Translator(model.eval(), tokenizer, tokenizer), pairs)
        assert [found.shape for found in alignments.source] == [(3, 3, 3), (3, 3, 1), (3, 3, 0)]
        first, second, third = alignments.links(2, 1)
        assert {j for _, j in first} == {0, 1, 2}
        assert {i for i, _ in first} <= {0, 1, 2, 3}
        assert (second, third) == (set(), set())
        with pytest.raises(UsageError, match="layers 1 to 3 and the heads 1 to 2"):
            alignments.links(4)
        assert alignments.error_rates([Gold(set(), set())] * 3).shape == (3, 3)


def test_the_forced_target_is_what_is_aligned(trained: Trained) -> None:
    translator: Any = load_pipeline(trained("translation"))
    (found,) = align(translator, [("1 2 3", "three two one")]).source
    assert found.shape == (1, 3, 3)
    with pytest.raises(UsageError, match="encoder–decoder"):
        align(load_pipeline(trained("classification")), [("a", "b")])


def test_gold_alignments_in_both_formats(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0 1-1 2?1\n0-0\n")
    assert read_gold(path, 2) == GOLD
    path.write_text("1 1 1 S\n0001 2 2\n1 3 2 P\n2 1 1 S\n")
    assert read_gold(path, 2) == GOLD
    assert read_gold(path, 3)[2] == Gold(set(), set())
    for content, message in (
        ("0-0 x\n", "line 1: “x” is not a link"),
        ("0-0\n", "alignments of 1 pairs, but there are 2"),
        ("1 1 1 S\n1 0 1 S\n", "line 2: pairs and words are counted from 1"),
        ("1 1 1 S\n1 1 S\n", "line 2 is not “pair source target”"),
        ("5 1 1 S\n", "alignments of 5 pairs"),
    ):
        path.write_text(content)
        with pytest.raises(HeedfulError, match=message):
            read_gold(path, 2)


def test_pairs_are_read_without_leaving_any_out(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a b\tc\n\t\nd\t\n")
    assert read_pairs(tmp_path / "pairs.tsv") == [("a b", "c"), ("", ""), ("d", "")]
    (tmp_path / "one").write_text("a\nb\n")
    (tmp_path / "two").write_text("c\nd\n")
    assert read_pairs(tmp_path / "one", tmp_path / "two") == [("a", "c"), ("b", "d")]
    with pytest.raises(HeedfulError, match="one line 1 is not a source, a tab and its translation"):
        read_pairs(tmp_path / "one")

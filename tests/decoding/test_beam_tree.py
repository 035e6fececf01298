"""The tree of a beam search is what the search did: its best path is the output, its sums are those of the model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.decoding.beam_tree import BeamTree
from heedful.decoding.length_penalty import length_penalty
from heedful.decoding.search import Search, next_log_probabilities
from heedful.decoding.sentence import Limits, Sentence
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig

PAD, BOS, EOS = 0, 1, 2
SOURCE = torch.tensor([[5, 6, 3, EOS], [4, 4, 7, EOS]])
MASK = torch.ones_like(SOURCE, dtype=torch.bool)


def random_model(seed: int) -> Seq2Seq:
    torch.manual_seed(seed)
    config = Seq2SeqConfig(9, 9, layers=1, d_model=8, d_ff=8, heads=2)
    model = Seq2Seq(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return model.eval()


def searched(model: Seq2Seq, beam: int, alpha: float, longest: int, record: bool) -> list[Sentence]:
    """Both sentences decoded together."""
    limits = Limits(BOS, EOS, PAD, longest, beyond_source=False)
    sentences = [Sentence([], BOS, longest, beam, alpha, tree=BeamTree() if record else None) for _ in SOURCE]
    search: Search[Any] = Search(model, limits)
    search.join(SOURCE, MASK, sentences)
    while search.sentences:
        search.step()
    return sentences


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), beam=st.integers(1, 12), alpha=st.sampled_from([0.0, 0.6, 2.0]), longest=st.integers(1, 7))
def test_recording_changes_nothing_and_the_tree_is_the_search(seed: int, beam: int, alpha: float, longest: int) -> None:
    model = random_model(seed)
    plain, recorded = (searched(model, beam, alpha, longest, record) for record in (False, True))
    for row, (one, other) in enumerate(zip(plain, recorded, strict=True)):
        assert one.hypotheses == other.hypotheses
        assert [h.tokens for h in one.ended] == [h.tokens for h in other.ended]
        check_tree(model, row, other, beam, alpha)


def check_tree(model: Seq2Seq, row: int, sentence: Sentence, beam: int, alpha: float) -> None:
    tree, best = sentence.tree, sentence.hypotheses[0]
    assert tree is not None
    tree.finish(best.tokens, EOS, len(tree.steps) >= sentence.longest)
    nodes = {node.node: node for step in tree.steps for node in step}
    assert sorted(nodes) == list(range(len(nodes)))

    def path(node: int | None) -> list[int]:
        return [] if node is None else [*path(nodes[node].parent), nodes[node].token]

    for number, step in enumerate(tree.steps, 1):
        assert 1 <= len(step) <= 2 * beam
        assert [node.log_probability for node in step] == sorted((node.log_probability for node in step), reverse=True)
        for node in step:
            if node.parent is not None:
                assert node.parent in {before.node for before in tree.steps[number - 2]}
                assert nodes[node.parent].state in ("alive", "best")
                assert node.log_probability <= nodes[node.parent].log_probability
            assert node.score == pytest.approx(node.log_probability / length_penalty(number, alpha))
            assert math.isfinite(node.log_probability)
    on_path = [node for node in nodes.values() if node.state == "best"]
    written = path(on_path[-1].node)
    assert [token for token in written if token != EOS] == best.tokens
    assert on_path[-1].score == pytest.approx(best.score)
    assert len(on_path) == len(written)
    # The sums along the path, by teacher forcing.
    limits = Limits(BOS, EOS, PAD)
    with torch.no_grad():
        states = model.states(SOURCE[row : row + 1], torch.tensor([[BOS, *written[:-1]]]), MASK[:1])
        steps = next_log_probabilities(model.project(states)[0], limits)
    sums = steps.gather(-1, torch.tensor(written)[:, None]).flatten().cumsum(0)
    torch.testing.assert_close(sums, torch.tensor([node.log_probability for node in on_path]), atol=1e-4, rtol=1e-4)


def test_what_became_of_each_hypothesis() -> None:
    tree = BeamTree()
    tree.grow([(0, 5, -0.1), (0, 6, -0.2), (0, EOS, -0.3), (1, 7, -math.inf)], kept=[0, 1], ended=[], penalty=1.0)
    tree.grow([(1, EOS, -0.4), (0, 5, -0.5), (0, EOS, -0.6), (1, 6, -0.7)], kept=[1, 3], ended=[0], penalty=2.0)
    tree.finish([6], EOS, cut_off=False)
    states = [[(node.parent, node.token, node.state) for node in step] for step in tree.steps]
    assert states == [
        [(None, 5, "alive"), (None, 6, "best"), (None, EOS, "dropped")],
        [(1, EOS, "best"), (0, 5, "alive"), (0, EOS, "dropped"), (1, 6, "alive")],
    ]
    assert [node.score for node in tree.steps[1]] == [-0.2, -0.25, -0.3, -0.35]
    tree.finish([6], EOS, cut_off=True)
    assert [node.state for node in tree.steps[1]] == ["best", "ended", "dropped", "ended"]

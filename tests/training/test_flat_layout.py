"""Where parameters lie in the vector, and that the shares of any number of processes cover it exactly once."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.models.seq2seq import make_model
from heedful.training.flat_layout import ALIGNED, layout_of, share_of

MODEL = make_model(11, 11, 16, layers=2, d_ff=32, heads=4, tie="all")


@pytest.mark.parametrize("muon", [False, True])
def test_every_parameter_has_a_place_of_its_own(muon: bool) -> None:
    layout = layout_of(MODEL, muon)
    places = dict(layout.slices())
    assert set(places) == {name for name, _ in MODEL.named_parameters()}
    ends = sorted((place.start, place.stop) for place in places.values())
    assert ends[0][0] == 0
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ends))
    assert ends[-1][1] == layout.size == sum(parameter.numel() for parameter in MODEL.parameters())
    assert all(places[name].stop - places[name].start == math.prod(shape) for name, shape in layout.shapes.items())


def test_muon_takes_the_matrices_of_the_layers_and_adam_the_rest() -> None:
    layout = layout_of(MODEL, muon=True)
    assert {(stack.rows, stack.columns) for stack in layout.stacks} == {(16, 16), (32, 16), (16, 32)}
    places = dict(layout.slices())
    assert places["output_weight"].start >= layout.rest.start
    assert all(place.stop <= layout.rest.start for name, place in places.items() if name.endswith("project_in.weight"))
    assert layout_of(MODEL, muon=False).stacks == ()


@given(st.integers(1, 9), st.booleans())
def test_shares_cover_everything_once(world: int, muon: bool) -> None:
    layout = layout_of(MODEL, muon)
    shares = [share_of(layout, rank, world) for rank in range(world)]
    covered = sorted((part.start, part.stop) for share in shares for part in share.parts if part.start < part.stop)
    assert covered[0][0] == 0
    assert covered[-1][1] == layout.size
    assert all(before[1] == after[0] for before, after in itertools.pairwise(covered))
    for share in shares:
        assert (share.rest.start - layout.rest.start) % ALIGNED == 0 or share.rest.start == share.rest.stop
        for stack, part in share.stacks:
            assert (part.start - stack.start) % (stack.rows * stack.columns) == 0

"""Everyone gets a turn, and the work of each stays in order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from heedful.runtime.fair_queue import FairQueue


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), max_size=40))
def test_owners_take_turns_and_their_work_stays_in_order(arrivals: list[tuple[int, int]]) -> None:
    queue: FairQueue[tuple[int, int, int]] = FairQueue()
    for number, (owner, value) in enumerate(arrivals):
        queue.add((owner, value, number), owner)
    taken = []
    while (found := queue.pop()) is not None:
        taken.append(found[0])
    assert len(queue) == 0
    assert sorted(work[2] for work in taken) == list(range(len(arrivals)))
    for owner in range(5):
        own = [work[2] for work in taken if work[0] == owner]
        assert own == sorted(own)
        # Between two of one owner's turns nobody else has more than one.
        places = [place for place, work in enumerate(taken) if work[0] == owner]
        for start, end in pairwise(places):
            between = [work[0] for work in taken[start + 1 : end]]
            assert len(between) == len(set(between))


def test_what_does_not_fit_lets_others_pass_and_keeps_its_turn() -> None:
    queue: FairQueue[int] = FairQueue()
    for owner, value in (("a", 9), ("a", 1), ("b", 2)):
        queue.add(value, owner)
    assert queue.pop(lambda value, _: value < 5) == (2, "b")
    assert queue.pop(lambda value, _: value < 5) is None
    assert queue.pop() == (9, "a")


def test_removing_and_going_first() -> None:
    queue: FairQueue[str] = FairQueue()
    for value in ("x", "y"):
        queue.add(value, 1)
    queue.add("first", 2, first=True)
    assert list(queue) == ["first", "x", "y"]
    assert queue.remove("x", 1)
    assert not queue.remove("x", 1)
    assert (len(queue), list(queue)) == (2, ["first", "y"])

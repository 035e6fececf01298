"""A fair queue: owners take turns, one piece of work each."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

Work = TypeVar("Work")


class FairQueue(Generic[Work]):
    """Work of several owners, taken in turns; the work of one owner stays in order."""

    def __init__(self) -> None:
        self.owners: OrderedDict[Hashable, deque[Work]] = OrderedDict()
        self.length = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Work]:
        return (work for waiting in self.owners.values() for work in waiting)

    def add(self, work: Work, owner: Hashable, first: bool = False) -> None:
        """Add work after its owner's other work, or with `first` before everything."""
        waiting = self.owners.setdefault(owner, deque())
        if first:
            waiting.appendleft(work)
            self.owners.move_to_end(owner, last=False)
        else:
            waiting.append(work)
        self.length += 1

    def pop(self, fits: Callable[[Work, Hashable], bool] = lambda work, owner: True) -> tuple[Work, Hashable] | None:
        """The next piece of work that fits, with its owner, who moves to the end of the line; None when nothing fits.

        Only the first work of every owner is looked at.
        """
        for owner, waiting in self.owners.items():
            if fits(waiting[0], owner):
                work = waiting.popleft()
                self.length -= 1
                if waiting:
                    self.owners.move_to_end(owner)
                else:
                    del self.owners[owner]
                return work, owner
        return None

    def remove(self, work: Work, owner: Hashable) -> bool:
        """Remove a piece of work; False if it is not in the queue."""
        waiting = self.owners.get(owner, deque())
        kept = deque(one for one in waiting if one is not work)
        if len(kept) == len(waiting):
            return False
        self.length -= len(waiting) - len(kept)
        if kept:
            self.owners[owner] = kept
        else:
            del self.owners[owner]
        return True

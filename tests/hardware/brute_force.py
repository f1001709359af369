"""A second opinion on MIG geometry: walks the grid unit by unit over a table of its own, and filters afterwards.

Nothing here uses the code under test. A table is ``name -> (starts, size, most, engines)``; a state is a frozen set of
``(name, start)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

State = frozenset[tuple[str, int]]
Table = Mapping[str, tuple[Sequence[int], int, int, tuple[int, ...]]]

SEVEN_SLICE: Table = {
    "1g": (range(7), 1, 7, ()),
    "2g": ((0, 2, 4), 2, 3, ()),
    "3g": ((0, 4), 4, 2, ()),
    "4g": ((0,), 4, 1, ()),
    "7g": ((0,), 8, 1, ()),
}
DOUBLE: Table = {"1g double": ((0, 2, 4, 6), 2, 4, ())}
ONE_MEDIA: Table = {"1g+me": (range(7), 1, 1, ())}
A30: Table = {
    "1g": (range(4), 1, 4, (0,)),
    "2g": ((0, 2), 2, 2, (0,)),
    "4g": ((0,), 4, 1, (1,)),
}
A30_MEDIA: Table = {"1g+me": (range(4), 1, 1, (1,)), "2g+me": ((0, 2), 2, 1, (1,))}
RTX: Table = {
    "1g": ((0, 3, 6, 9), 3, 4, (1, 1, 1, 0)),
    "2g": ((0, 6), 6, 2, (2, 2, 2, 0)),
    "4g": ((0,), 12, 1, (4, 4, 4, 1)),
}
RTX_VARIANTS: Table = {
    "1g+me": ((0, 3, 6, 9), 3, 1, (1, 1, 1, 1)),
    "1g+gfx": ((0, 3, 6, 9), 3, 4, (1, 1, 1, 0)),
    "1g+me.all": ((0, 3, 6, 9), 3, 1, (4, 4, 4, 1)),
    "1g-me": ((0, 3, 6, 9), 3, 4, (0, 0, 0, 0)),
    "2g+gfx": ((0, 6), 6, 2, (2, 2, 2, 0)),
    "2g+me.all": ((0, 6), 6, 1, (4, 4, 4, 1)),
    "2g-me": ((0, 6), 6, 2, (0, 0, 0, 0)),
    "4g+gfx": ((0,), 12, 1, (4, 4, 4, 1)),
}
HALVES: Table = {"1g": ((0, 1), 1, 2, ()), "2g": ((0,), 2, 1, ())}


def without_four_plus_three(state: State) -> bool:
    """What drivers before R510 allow."""
    names = {name for name, _ in state}
    return not {"4g", "3g"} <= names


@dataclass(frozen=True)
class Oracle:
    """All answers of a table, by exhaustion."""

    states: frozenset[State]
    maximal: frozenset[State]
    multisets: frozenset[frozenset[tuple[str, int]]]
    pareto: frozenset[frozenset[tuple[str, int]]]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return len(self.states), len(self.maximal), len(self.multisets), len(self.pareto)


def anything(_: State) -> bool:
    return True


def exhaust(
    table: Table, grid: int, budget: tuple[int, ...] | None = None, allowed: Callable[[State], bool] = anything
) -> Oracle:
    def walk(unit: int) -> Iterator[tuple[tuple[str, int], ...]]:
        if unit >= grid:
            yield ()
            return
        yield from walk(unit + 1)  # the unit stays free
        for name, (starts, size, _, _) in table.items():
            if unit in starts and unit + size <= grid:
                for rest in walk(unit + size):
                    yield ((name, unit), *rest)

    def within_limits(state: State) -> bool:
        counts = Counter(name for name, _ in state)
        if any(count > table[name][2] for name, count in counts.items()):
            return False
        if budget is None:
            return True
        taken = [sum(table[name][3][kind] for name, _ in state) for kind in range(len(budget))]
        return all(used <= available for used, available in zip(taken, budget, strict=True))

    states = frozenset(state for state in map(frozenset, walk(0)) if within_limits(state) and allowed(state))
    maximal = frozenset(state for state in states if not any(state < other for other in states))
    counters = {frozenset(Counter(name for name, _ in state).items()) for state in states}
    pareto = frozenset(
        one
        for one in counters
        if not any(one != other and Counter(dict(one)) <= Counter(dict(other)) for other in counters)
    )
    return Oracle(states, maximal, frozenset(counters), pareto)

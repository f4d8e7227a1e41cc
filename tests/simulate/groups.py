"""The coordinator's algorithms beside each other, on the same draws: what each finds, costs and gives away.

    python -m tests.simulate --groups --seeds 200

Each draw gives every agent some of 16 half hours; the simulated meeting is the whole course, signatures
included, over a network without trouble. An algorithm that others wish to try is one more entry of
`indai.protocol.group.algorithms.ALGORITHMS`, and one more row here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass

from indai.protocol.group.algorithms import ALGORITHMS

from tests.unit.meetings import World, wish

HALVES = 16
FREE = (6, 12)
THREAD = b"\x01" * 15 + b"g"
HEADS = ("found", "exchanges", "rounds", "told windows", "told slots", "heard windows", "heard words")


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm: the share of meetings that were agreed, and means over all draws: exchanges and rounds,
    and what members were told and said, summed over them."""

    found: float
    exchanges: float
    rounds: float
    told_windows: float
    told_slots: float
    heard_windows: float
    heard_words: float


def draws(seeds: range, agents: int) -> Iterator[tuple[int, list[frozenset[int]]]]:
    """Those in which all have a half hour in common: (seed, what each has free)."""
    for seed in seeds:
        dice = random.Random(seed)
        free = [frozenset(dice.sample(range(HALVES), dice.randint(*FREE))) for _ in range(agents)]
        if frozenset.intersection(*free):
            yield seed, free


def compare(seeds: range, agents: int = 5) -> tuple[int, dict[str, Row]]:
    """How many draws there were, and each algorithm's row."""
    drawn = list(draws(seeds, agents))
    rows = {}
    for algorithm in ALGORITHMS:
        each = [_one(seed, free, algorithm) for seed, free in drawn]
        rows[algorithm] = Row(*(sum(column) / max(1, len(each)) for column in zip(*each, strict=True)))
    return len(drawn), rows


def _one(seed: int, free: list[frozenset[int]], algorithm: str) -> tuple[float, ...]:
    world = World(seed, free)
    world.convene(THREAD, wish(*sorted(free[0])), algorithm)  # a node proposes what its owner has free
    world.run(0)
    group = world.hosts[0].store.sides[THREAD].group
    if group is None:
        raise AssertionError("a coordinator without a group")
    account = group.account()
    return (
        float(all(THREAD in host.store.booked for host in world.hosts)),
        sum(member.exchanges for member in account),
        group.rounds + (group.offer is not None),
        sum(member.told_windows for member in account),
        sum(member.told_slots for member in account),
        sum(member.heard_windows for member in account),
        sum(member.heard_ordinals for member in account),
    )


def report(seeds: range, agents: int, say: Callable[[str], None]) -> None:
    """The table."""
    count, rows = compare(seeds, agents)
    say(f"{agents} agents, {count} draws of {len(seeds)} in which all have a half hour in common")
    say(f"{'':12}" + "".join(f"{head:>15}" for head in HEADS))
    for algorithm, row in rows.items():
        found, *rest = astuple(row)
        say(f"{algorithm:12}{found:>14.0%} " + "".join(f"{value:>14.1f} " for value in rest))

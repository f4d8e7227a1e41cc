"""What must hold of a simulated meeting of several after every commit, and when nothing is left to happen."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from indai.protocol.party_state import Phase

if TYPE_CHECKING:
    from tests.unit.meetings import Host, World


class Violation(AssertionError):
    """An invariant does not hold."""


def always(world: World, host: Host) -> None:
    """After each commit."""
    held = [*host.store.reserved.items(), *host.store.booked.items()]
    for (one, a), (other, b) in itertools.combinations(held, 2):
        moving = other in host.store.booked and _moves(host, one, other)
        if a.start_ms < b.end_ms and b.start_ms < a.end_ms and not moving:
            raise Violation(f"{host.subject} holds two slots at once")
    for thread, side in host.store.sides.items():
        stands = side.life is not None and not side.life.state.ended and not side.life.successors
        if stands and thread not in host.store.booked:
            raise Violation(f"{host.subject} has a meeting without its slot")
    moved = [
        side.supersedes for side in host.store.sides.values() if side.supersedes and side.life is not None
    ]
    if len(set(moved)) != len(moved):
        raise Violation(f"{host.subject} has put two meetings in the place of one")
    if len(set(host.store.ledger)) != len(host.store.ledger):
        raise Violation(f"{host.subject} committed twice")
    for mid in host.store.sent:
        if mid in world.pending_releases and host.store.sent[mid].sender == host.subject:
            world.releases.add(world.pending_releases[mid])


def _moves(host: Host, one: bytes, old: bytes) -> bool:
    """Whether what is reserved in `one` is to take the place of what stands in `old`."""
    supersedes = host.store.sides[one].supersedes
    return one in host.store.reserved and bool(supersedes) and host.thread_of(supersedes) == old


def at_the_end(world: World) -> None:
    """Everybody knows the same, and nobody holds anything that is not agreed."""
    if world.receipts & world.releases & {m for h in world.hosts for m in h.store.ledger}:
        raise Violation("RECEIPT and RELEASE for one commitment")
    threads = {thread for host in world.hosts for thread in host.store.sides}
    for thread in threads:
        sides = [(host, host.store.sides[thread]) for host in world.hosts if thread in host.store.sides]
        agreed = {host.subject for host, side in sides if side.phase is Phase.COMMITTED}
        if agreed and len(agreed) != len(world.hosts):
            raise Violation(f"only {sorted(agreed)} have a commitment")
        for host, side in sides:
            if not side.phase.ended:
                raise Violation(f"{host.subject} is {side.phase.value} for ever")
            if thread in host.store.reserved:
                raise Violation(f"{host.subject} holds a slot for ever")
            stands = side.life is not None and not side.life.state.ended
            if stands != (thread in host.store.booked):
                raise Violation(f"{host.subject} has a meeting without its slot, or the other way round")
        for host, side in sides:
            old = host.store.sides.get(host.thread_of(side.supersedes)) if side.life else None
            if old and old.life and not old.life.state.ended:
                raise Violation(f"{host.subject} has a meeting and the one whose place it took")
        if len({side.life.state for _, side in sides if side.life}) > 1:
            raise Violation("what has become of a meeting is not the same for all")
    for host in world.hosts:
        if any(
            world.votes.get(mid, len(world.hosts) - 1) < len(world.hosts) - 1 for mid in host.store.ledger
        ):
            raise Violation("a commitment without every signature")

"""What the simulated parties move: which of several threads may have the place of a commitment, what makes
way for it meanwhile, and what ends with it. As `indai.node.moving` does it, over the store of one host."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from indai.protocol import contest
from indai.protocol.contest import FREE, Bid, Ruling, Stake
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.lifecycle import check_successor
from indai.protocol.messages import DAY_MS, HOUR_MS, MeetTerms, MeetWish, Message
from indai.protocol.party_state import OwnerStarts, Side

from tests.simulate.store import Store, Violation, fits
from tests.unit.wants import another

if TYPE_CHECKING:
    from tests.simulate.host import Host


def wanted(host: Host, thread: bytes, new: bytes, dice: random.Random, start_ms: int) -> OwnerStarts | None:
    """Our owner wants another time for what stands in `thread`, or for one of its times; None for what is no
    meeting, or has ended."""
    side = host.store.sides.get(thread)
    if side is None or side.life is None or contest.is_taken(side.life, 0):
        return None
    later_ms = start_ms + dice.choice((0, HOUR_MS // 2, DAY_MS))
    wish = another("meet", dice, later_ms, gives=False)
    if not isinstance(side.terms, MeetTerms) or not isinstance(wish, MeetWish):
        return None
    times_ms = side.life.deed.times_ms
    if times_ms and dice.random() < 0.6:
        wish = replace(wish, repeats=None, instead_of_ms=dice.choice(times_ms))
    return OwnerStarts(wish, new, host.subject, host.peer, side.life.deed.mid)


def check_first(store: Store, message: Message) -> None:
    """Whether a peer's first message may name what it does; raises ProtocolError (LIF-16)."""
    for side in store.sides.values():
        offer = side.thread.offer if side.thread else None
        if offer is None or offer.mid != message.supersedes:
            continue
        if side.life is not None:
            return check_successor(offer, message)
        if not side.phase.ended:
            raise ProtocolError(Reason.OUT_OF_ORDER, "It is not confirmed here yet.", rule="LIF-16")
    raise ProtocolError(Reason.ILLEGAL_MOVE, "There is no such commitment.", rule="LIF-16")


def agreed(store: Store, mid: bytes) -> Side | None:
    """The side that holds this commitment."""
    lives = ((side, side.life) for side in store.sides.values())
    return next((side for side, life in lives if life and mid and life.deed.mid == mid), None)


def rivals(store: Store, mid: bytes, thread: bytes = b"") -> Iterator[contest.Rival]:
    """What else is at stake for the place of this commitment."""
    for number, side in store.sides.items():
        if number != thread and side.supersedes == mid and (found := contest.rival(side)):
            yield found


def ruling(store: Store, side: Side, time_ms: int) -> Ruling:
    """Whether our signature may be given in this thread."""
    if not side.supersedes:
        return FREE
    old, offer = agreed(store, side.supersedes), side.thread.offer if side.thread else None
    bid = Bid.of(offer) if offer and offer.sender != side.owner else None
    others = list(rivals(store, side.supersedes, side.thread_id))
    return contest.ruling(old.life if old else None, time_ms, others, bid)


def leaving(store: Store, side: Side) -> set[tuple[bytes, int]]:
    """The slots, by thread and start, that make way for what this side has reserved or would sign."""
    old, said = agreed(store, side.supersedes), side.reserved or side.terms
    if old is None or not isinstance(old.terms, MeetTerms):
        return set()
    only_ms = said.replaces_ms if said else 0
    return {(old.thread_id, each.start_ms) for each in old.terms.times if only_ms in (0, each.start_ms)}


def ended_by(store: Store, mid: bytes) -> list[bytes]:
    """Open threads that ask for a place that nothing can take any more, ours to end."""
    old = agreed(store, mid)
    if old is None or old.life is None:
        return []
    open_ones = (each for each in rivals(store, mid) if each.stake is not Stake.ACCEPTED)
    return [each.thread for each in open_ones if contest.is_taken(old.life, each.time_ms)]


def check_slots(store: Store) -> None:
    """No slot is promised twice, but the old one's to what is to take its place, and to nothing else."""
    moving = [thread for thread in store.reserved if store.sides[thread].supersedes]
    held = store.holdings()
    if not fits([one for thread, one in held if thread not in moving]):
        raise Violation("more is promised than there is")
    for mine in moving:
        others = {thread for thread in moving if thread != mine}
        gone = leaving(store, store.sides[mine])
        if not fits(store.without([pair for pair in held if pair[0] not in others], gone)):
            raise Violation("what is to be moved is promised over something else")
    if not fits([one for thread, one in held if thread in moving]):
        raise Violation("two that are to be moved are promised one slot")


def check_successors(store: Store) -> None:
    """One successor at most, of all of a commitment and of each of its times (LIF-25)."""
    seen: set[tuple[bytes, int]] = set()
    for side in store.sides.values():
        if side.supersedes and side.life is not None:
            place = (side.supersedes, side.terms.replaces_ms if side.terms else 0)
            if place in seen:
                raise Violation("two commitments have taken the place of one")
            seen.add(place)


def check_end(store: Store) -> None:
    """What has been replaced has ended, or is without that time."""
    for side in store.sides.values():
        if not side.supersedes or side.life is None:
            continue
        old, time_ms = agreed(store, side.supersedes), side.terms.replaces_ms if side.terms else 0
        if old is None or old.life is None:
            raise Violation("something has taken the place of what was never agreed")
        if not old.life.state.ended and (not time_ms or time_ms not in old.life.omitted):
            raise Violation("a meeting stands beside the one that has taken its place")

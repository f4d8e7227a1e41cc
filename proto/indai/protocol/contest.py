"""What may take the place of a commitment that stands: one other, or one for each of its times.

Several threads may ask to move the same thing at once, and different sides decide them. So each party keeps
to one rule by itself: it signs for no second successor as long as its signature for one is open, or once one
stands (LIF-25). A commitment needs every party's signature, hence no two can come of it. Where both sides
have offered, each in the thread that the other began, neither could accept: then the thread with the lower
id, the older one by its beginner's clock, wins on both sides, and who offered in the other takes that back
(LIF-26). Pure: the host says which threads there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from indai.protocol.copies import replace
from indai.protocol.lifecycle import History
from indai.protocol.negotiation import OfferState
from indai.protocol.party_state import Side

OVERTAKEN: Final = "OVERTAKEN"
"""The reason of a thread that ends because another has taken, or is about to take, the place it asked for."""


class Stake(Enum):
    """How far a party has bound itself in a thread: an offer it can take back, an acceptance it cannot."""

    ASKED = "ASKED"
    OFFERED = "OFFERED"
    ACCEPTED = "ACCEPTED"


@dataclass(frozen=True, slots=True)
class Rival:
    """Another open thread of the same party for the same place. `time_ms`: the start of the one time that it
    is about, 0 for all."""

    thread: bytes
    time_ms: int
    stake: Stake


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether our signature may be given, and the threads whose offers of ours are then taken back."""

    may_sign: bool
    gives_way: tuple[bytes, ...] = ()


FREE: Final = Ruling(may_sign=True)
LOST: Final = Ruling(may_sign=False)


def rival(side: Side) -> Rival | None:
    """What the party has at stake in this thread; None once it has ended."""
    if side.phase.ended:
        return None
    said = side.reserved or side.terms
    stake = Stake.ASKED
    if side.reserved is not None:
        stake = Stake.OFFERED if side.offer is OfferState.OPEN else Stake.ACCEPTED
    return Rival(side.thread_id, said.replaces_ms if said else 0, stake)


def noted(old: Side, side: Side) -> Side:
    """`old`, whose commitment the thread of `side` names, with that thread among those that ask for its
    place, as long as it is open."""
    others = {thread for thread in old.contenders if thread != side.thread_id}
    contenders = tuple(sorted(others if side.phase.ended else {*others, side.thread_id}))
    return old if contenders == old.contenders else replace(old, contenders=contenders)


def is_taken(life: History, time_ms: int) -> bool:
    """Whether nothing can take the place of that time (0: of all of it) any more."""
    if life.state.ended or life.successors:
        return True
    return bool(time_ms) and (time_ms not in _left(life) or len(_left(life)) < 2)


def ruling(
    life: History | None, thread: bytes, time_ms: int, rivals: Sequence[Rival], *, accepting: bool
) -> Ruling:
    """Whether a party may sign in `thread` for what takes the place of `time_ms` of this commitment.

    `rivals` are its other open threads for the same; `accepting` says that it would answer an offer.
    """
    if life is None or is_taken(life, time_ms):
        return LOST
    bound = [each for each in rivals if each.stake is not Stake.ASKED]
    gone = {time_ms, *(each.time_ms for each in bound)}
    in_the_way = [each for each in bound if each.time_ms in (0, time_ms) or not time_ms]
    if not in_the_way and 0 not in gone and not _left(life) - gone:
        in_the_way = bound  # the last time is not left out: all of them together are too many (LIF-17)
    if not in_the_way:
        return FREE
    yields = all(each.stake is Stake.OFFERED and thread < each.thread for each in in_the_way)
    return Ruling(True, tuple(each.thread for each in in_the_way)) if accepting and yields else LOST


def _left(life: History) -> set[int]:
    """The times that stand, and nothing has taken the place of."""
    return set(life.deed.times_ms) - life.omitted - {time_ms for _, time_ms in life.instead}

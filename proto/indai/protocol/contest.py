"""What may take the place of a commitment that stands: one other, or one for each of its times.

Several threads may ask to move the same thing at once, and different sides decide them. So each party keeps
to one rule by itself: it signs for no second successor as long as its signature for one is open, or once one
stands (LIF-25). A commitment needs every party's signature, hence no two can come of it.

Where two have offered, neither could accept. Then one offer is *ahead* on every side alike, and who made
the other takes that back (LIF-26). Which one is drawn by a hash over what nobody chose alone: of two
parties, over both offers, neither of which was there when the other was signed; who has the other's in hand
and searches for one that wins gets no more than by refusing it. Of several, whose offers are seen by
different members in different order, over the signatures under what is to be moved, none of which its
members could see before their own: so there is one order of all who may coordinate, and no circle in it. A
member of several whose signature is open lets any other offer wait until that is decided (LIF-27); so it is
never lost between two of them. Pure: the host says which threads there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from indai.protocol.copies import replace
from indai.protocol.lifecycle import History
from indai.protocol.messages import Message
from indai.protocol.negotiation import OfferState
from indai.protocol.party_state import Phase, Side

OVERTAKEN: Final = "OVERTAKEN"
"""The reason of a thread that ends because another has taken, or is about to take, the place it asked for."""


class Stake(Enum):
    """How far a party has bound itself in a thread: an offer it can take back, an acceptance it cannot."""

    ASKED = "ASKED"
    OFFERED = "OFFERED"
    ACCEPTED = "ACCEPTED"


@dataclass(frozen=True, slots=True)
class Bid:
    """An offer of what is to take a place: its mid, 32 bytes, and the subject id of who signed it."""

    mid: bytes
    by: str

    @classmethod
    def of(cls, offer: Message) -> Bid:
        """The offer of this message."""
        return cls(offer.mid, offer.sender)


@dataclass(frozen=True, slots=True)
class Rival:
    """Another open thread of the same party for the same place. `time_ms`: the start of the one time that it
    is about, 0 for all. `bid`: the offer that the party has signed there. `is_doubted`: nobody says whether
    what it has accepted stands."""

    thread: bytes
    time_ms: int
    stake: Stake
    bid: Bid | None = None
    is_doubted: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether our signature may be given, and the threads whose offers of ours are then taken back. `waits`:
    it may not now, and may when another is decided."""

    may_sign: bool
    gives_way: tuple[bytes, ...] = ()
    waits: bool = False


FREE: Final = Ruling(may_sign=True)
LOST: Final = Ruling(may_sign=False)
WAITS: Final = Ruling(may_sign=False, waits=True)
_DRAW: Final = b"ind.ai/succession/v1\n"


def rival(side: Side) -> Rival | None:
    """What the party has at stake in this thread; None once it has ended."""
    if side.phase.ended:
        return None
    said = side.reserved or side.terms
    time_ms = said.replaces_ms if said else 0
    if side.reserved is None:
        return Rival(side.thread_id, time_ms, Stake.ASKED)
    signed = side.group.offer if side.group else side.thread.offer if side.thread else None
    bid = Bid.of(signed) if signed else None
    stake = Stake.OFFERED if side.offer is OfferState.OPEN else Stake.ACCEPTED
    return Rival(side.thread_id, time_ms, stake, bid, side.phase is Phase.IN_DOUBT)


def is_ahead(life: History, signatures: Sequence[bytes], bid: Bid, other: Bid) -> bool:
    """Whether `bid` is the one of two offers that stays (LIF-26). `signatures`: all under what is to be
    moved, in the order of its parties; they matter where these are more than two."""
    if len(life.deed.parties) > 2:
        seed = hashlib.sha256(_DRAW + life.deed.mid + b"".join(signatures)).digest()
        return _lot(seed, bid) < _lot(seed, other)
    low, high = sorted((bid.mid, other.mid))
    lower_stays = hashlib.sha256(_DRAW + life.deed.mid + low + high).digest()[0] & 1 == 0
    return bid.mid != other.mid and (bid.mid == low) == lower_stays


def _lot(seed: bytes, bid: Bid) -> tuple[bytes, bytes]:
    return hashlib.sha256(seed + bid.by.encode()).digest(), bid.mid


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
    life: History | None,
    time_ms: int,
    rivals: Sequence[Rival],
    bid: Bid | None = None,
    signatures: Sequence[bytes] = (),
) -> Ruling:
    """Whether a party may sign for what takes the place of `time_ms` of this commitment.

    `rivals` are its other open threads for the same; `bid` is the offer that it would answer, None where the
    offer would be its own; `signatures` as for `is_ahead`.
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
    if bid is None or any(each.is_doubted for each in in_the_way):
        return LOST
    if all(
        each.stake is Stake.OFFERED and each.bid and is_ahead(life, signatures, bid, each.bid)
        for each in in_the_way
    ):
        return Ruling(True, tuple(each.thread for each in in_the_way))
    return WAITS if len(life.deed.parties) > 2 else LOST


def _left(life: History) -> set[int]:
    """The times that stand, and nothing has taken the place of."""
    return set(life.deed.times_ms) - life.omitted - {time_ms for _, time_ms in life.instead}

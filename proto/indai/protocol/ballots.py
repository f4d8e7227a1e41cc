"""What the coordinator of a meeting of several asks its members, and what they answer: windows and ordinals.

A member never sends a calendar. To a call it names a few windows, best first; in a ballot it says one word
for each slot. Both are queries (`indai.protocol.queries`): they hold nothing and bind nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

from indai.protocol.errors import InvalidInput
from indai.protocol.forms import MINUTE_MS, malformed
from indai.protocol.handles import Handle
from indai.protocol.header import MID_BYTES
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetWish
from indai.v1 import negotiation_pb2

MIN_ATTENDEES, MAX_ATTENDEES = 3, 20
MAX_SLOTS = 32


class Ordinal(IntEnum):
    """How well a slot suits, best first: what a member tells of it, and no more."""

    YES = 1
    OK = 2
    AVOID = 3
    NO = 4


@dataclass(frozen=True, slots=True)
class CallQuery:
    """A few times within the wish's windows? `attendees`: the handles of all, the coordinator first.
    `supersedes`: mid of the commitment of these that is to be moved, empty for none."""

    wish: MeetWish
    attendees: tuple[str, ...]
    supersedes: bytes = b""

    def to_pb(self) -> negotiation_pb2.CallQuery:
        """As it is signed."""
        return negotiation_pb2.CallQuery(
            wish=self.wish.to_pb(), attendees=self.attendees, supersedes=self.supersedes
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Checked; raises ProtocolError(MALFORMED) with QRY-01, NEG-02 or NEG-03."""
        wish = _wish(pb.wish)
        return cls(wish, _attendees(pb.attendees), _superseded(pb.supersedes))


@dataclass(frozen=True, slots=True)
class BallotQuery:
    """How well does each slot suit? The windows of the wish are the slots; the rest as in a CallQuery."""

    wish: MeetWish
    attendees: tuple[str, ...]
    supersedes: bytes = b""

    @property
    def slots(self) -> tuple[Window, ...]:
        """What is voted on."""
        return self.wish.windows

    def to_pb(self) -> negotiation_pb2.BallotQuery:
        """As it is signed."""
        return negotiation_pb2.BallotQuery(
            wish=self.wish.to_pb(), attendees=self.attendees, supersedes=self.supersedes
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Checked; raises ProtocolError(MALFORMED) with QRY-01, NEG-02 or NEG-03."""
        wish = _wish(pb.wish)
        length_ms = wish.duration_minutes * MINUTE_MS
        if any(slot.end_ms - slot.start_ms != length_ms for slot in wish.windows):
            raise malformed("QRY-01", "A slot to vote on is as long as the meeting")
        if len(set(wish.windows)) != len(wish.windows):
            raise malformed("QRY-01", "A slot is voted on once")
        return cls(wish, _attendees(pb.attendees), _superseded(pb.supersedes))


@dataclass(frozen=True, slots=True)
class BallotAnswer:
    """One word for each slot, in the order of the question."""

    ordinals: tuple[Ordinal, ...]

    def to_pb(self) -> negotiation_pb2.BallotAnswer:
        """As it is signed."""
        values = negotiation_pb2.Ordinal.Value
        return negotiation_pb2.BallotAnswer(
            ordinals=[values(f"ORDINAL_{each.name}") for each in self.ordinals]
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Checked; raises ProtocolError(MALFORMED) with QRY-01."""
        if not 1 <= len(pb.ordinals) <= MAX_SLOTS or not {*pb.ordinals} <= {*Ordinal}:
            raise malformed("QRY-01", f"A ballot has 1 to {MAX_SLOTS} of yes, ok, avoid and no")
        return cls(tuple(Ordinal(each) for each in pb.ordinals))


def _wish(pb: Any) -> MeetWish:
    wish = MeetWish.from_pb(pb)
    wish.check()
    if wish.repeats is not None:
        raise malformed("QRY-01", "A meeting of several takes place once")
    return wish


def _superseded(mid: bytes) -> bytes:
    if len(mid) not in (0, MID_BYTES):
        raise malformed("QRY-01", "What is to be moved is named by its mid")
    return mid


def _attendees(handles: Any) -> tuple[str, ...]:
    if not MIN_ATTENDEES <= len(handles) <= MAX_ATTENDEES or len({*handles}) != len(handles):
        raise malformed(
            "QRY-01", f"A meeting of several is of {MIN_ATTENDEES} to {MAX_ATTENDEES} different handles"
        )
    try:
        canonical = all(str(Handle.parse(handle)) == handle for handle in handles)
    except InvalidInput:
        canonical = False
    if not canonical:
        raise malformed("QRY-01", "Who is to meet is named by handles")
    return tuple(handles)

"""What an owner's program sees of a negotiation: how it ended, and what is left to the owner.

Plain values out of `indai.v1.owner_pb2`; every text of a peer's stands in `terms` and `words` quoted, as the
node renders it from the signed bytes. Times are aware datetimes in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from google.protobuf.timestamp_pb2 import Timestamp
from indai.v1 import owner_pb2


class State(Enum):
    """Where a negotiation is."""

    NEGOTIATING = owner_pb2.THREAD_STATE_NEGOTIATING
    ASKING_OWNER = owner_pb2.THREAD_STATE_ASKING_OWNER
    ON_HOLD = owner_pb2.THREAD_STATE_ON_HOLD
    AWAITING_RECEIPT = owner_pb2.THREAD_STATE_AWAITING_RECEIPT
    COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
    REJECTED = owner_pb2.THREAD_STATE_REJECTED
    WITHDRAWN = owner_pb2.THREAD_STATE_WITHDRAWN
    LAPSED = owner_pb2.THREAD_STATE_LAPSED
    IN_DOUBT = owner_pb2.THREAD_STATE_IN_DOUBT


SETTLED = frozenset({State.COMMITTED, State.REJECTED, State.WITHDRAWN, State.LAPSED, State.IN_DOUBT})
"""Nothing more happens by itself; what is in doubt is settled by the other side's word alone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A negotiation as it stands. `start` and `end` are None before an offer, and where terms have no time;
    `reason` is the machine-readable word of a refusal, `words` one sentence for the owner."""

    thread: str
    peer: str
    kind: str
    state: State
    title: str
    start: datetime | None
    end: datetime | None
    reason: str
    words: str
    commitment: str

    @property
    def agreed(self) -> bool:
        """Both have signed, and the offerer's receipt is here."""
        return self.state is State.COMMITTED

    @property
    def in_doubt(self) -> bool:
        """We have accepted, and the other side has not said in time whether it stands."""
        return self.state is State.IN_DOUBT

    @property
    def settled(self) -> bool:
        """Nothing more happens by itself."""
        return self.state in SETTLED

    @classmethod
    def of(cls, thread: owner_pb2.Thread) -> Outcome:
        """From the node's answer."""
        return cls(
            thread.thread_id,
            thread.peer,
            thread.kind,
            State(thread.state),
            thread.title,
            _moment(thread.start_time) if thread.HasField("start_time") else None,
            _moment(thread.end_time) if thread.HasField("end_time") else None,
            thread.reason,
            thread.words,
            thread.commitment_mid,
        )


@dataclass(frozen=True, slots=True)
class Question:
    """What the policy leaves to the owner: a yes signs exactly `terms`, silence until `expires` is a no."""

    code: str
    thread: Outcome
    terms: str
    why: str
    expires: datetime

    @property
    def peer(self) -> str:
        """The other side's handle."""
        return self.thread.peer

    @property
    def kind(self) -> str:
        """`meet`, `share`, `ask`, `request`, `pay` or `book`."""
        return self.thread.kind

    @property
    def duration_minutes(self) -> int:
        """How long what is offered takes; 0 where it has no time."""
        start, end = self.thread.start, self.thread.end
        return int((end - start).total_seconds() // 60) if start and end else 0

    @classmethod
    def of(cls, approval: owner_pb2.Approval, thread: Outcome) -> Question:
        """From the node's answers."""
        expires = _moment(approval.expire_time)
        return cls(approval.code, thread, approval.terms, approval.why, expires)


def _moment(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)

"""What an audit remembers of the files it has read. It grows with commitments, decisions and threads,
not with leaves whose content is withheld.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from indai.client.audit.matter import Asked
from indai.client.audit.report import Place
from indai.client.exports import Header
from indai.protocol.messages import Message, ReceiptBody


@dataclass(frozen=True, slots=True)
class Held:
    """An owner's COMMIT leaf, opened. `raw` is the envelope with all signatures; `time_ms` the leaf's."""

    owner: str
    mid: bytes
    place: Place
    time_ms: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Happened:
    """An event after the deed: an owner's leaf (with its time), or a message of a thread (`time_ms` 0)."""

    owner: str
    message: Message
    place: Place
    time_ms: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Erased:
    """What an exporter says a leaf was: whose, its mid, and the commitment it was about (empty for none)."""

    owner: str
    mid: bytes
    about: bytes

    @property
    def is_event(self) -> bool:
        """Whether it was something that happened after the deed."""
        return bool(self.about) and self.about != self.mid


class Replay(Enum):
    """How taking a recorded decision again went."""

    SAME = "same"
    DIFFERENT = "different"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Decided:
    """An owner's decision about one message. `peer` and `asked` (`indai.client.audit.matter`) are what the
    policy was asked about.
    """

    owner: str
    mid: bytes
    place: Place
    permitted: bool
    replay: Replay
    peer: str = ""
    asked: Asked = field(default_factory=Asked)


@dataclass(frozen=True, slots=True)
class Successor:
    """A leaf of `owner`: a commitment that all its parties (subjects) have signed and that names the one it
    replaces, or of which it replaces the one time that begins at `time_ms`."""

    mid: bytes
    parties: frozenset[str]
    owner: str
    place: Place
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    """One exported ledger. `kinds` and `times` are those of every leaf, opened or not."""

    file: str
    header: Header
    kinds: bytearray = field(default_factory=bytearray)
    times: array[int] = field(default_factory=lambda: array("Q"))
    held: dict[tuple[str, bytes], Held] = field(default_factory=dict)
    decided: dict[tuple[str, bytes], Decided] = field(default_factory=dict)
    events: dict[tuple[str, bytes], Happened] = field(default_factory=dict)
    at: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    erased: dict[int, Erased] = field(default_factory=dict)
    erasures: dict[tuple[str, bytes], int] = field(default_factory=dict)  # of deeds: where each was
    successors: dict[bytes, set[Successor]] = field(default_factory=dict)  # by mid of what they replace
    bystanders: set[tuple[str, bytes]] = field(default_factory=set)  # events of others: a party of several?

    def absorb(self, part: Ledger, twice: Callable[[str, Place, Place, bytes], None]) -> None:
        """Add the next leaves; `twice(owner, place, first place, mid)` hears of what was there already."""
        self.kinds.extend(part.kinds)
        self.times.extend(part.times)
        _absorb(self.held, part.held, twice)
        _absorb(self.decided, part.decided, twice)
        _absorb(self.events, part.events, twice)
        self.at.update(part.at)
        self.closed.update(part.closed)
        self.bystanders.update(part.bystanders)
        self.erased.update(part.erased)
        for deed, index in part.erasures.items():
            self.erasures.setdefault(deed, index)
        for mid, successors in part.successors.items():
            self.successors.setdefault(mid, set()).update(successors)

    def shows(self, owner: str) -> bool:
        """Whether the export is meant to show this owner's contents."""
        return self.header.owner in ("", owner)


_Leaf = TypeVar("_Leaf", Held, Decided, Happened)


def _absorb(
    known: dict[tuple[str, bytes], _Leaf],
    more: dict[tuple[str, bytes], _Leaf],
    twice: Callable[[str, Place, Place, bytes], None],
) -> None:
    for (owner, mid), leaf in more.items():
        first = known.setdefault((owner, mid), leaf)
        if first is not leaf:
            twice(owner, leaf.place, first.place, mid)


@dataclass(frozen=True, slots=True)
class Said:
    """A RECEIPT or the offerer's REJECT for one commitment, from a transcript; its signature was
    verified.
    """

    message: Message
    place: Place
    raw: bytes

    @property
    def receipt(self) -> ReceiptBody | None:
        """The body, when it is a RECEIPT."""
        return self.message.body if isinstance(self.message.body, ReceiptBody) else None


@dataclass(slots=True)
class Transcripts:
    """What the threads of all files say, by the mid of the commitment. `votes` are acceptances of
    several, each with its own member's signature alone.
    """

    accepted: dict[bytes, list[Held]] = field(default_factory=lambda: defaultdict(list))
    votes: dict[bytes, list[Held]] = field(default_factory=lambda: defaultdict(list))
    receipts: dict[bytes, list[Said]] = field(default_factory=lambda: defaultdict(list))
    refusals: dict[bytes, list[Said]] = field(default_factory=lambda: defaultdict(list))
    events: list[Happened] = field(default_factory=list)
    threads: int = 0
    messages: int = 0

    def absorb(self, part: Transcripts) -> None:
        """Add what later messages say."""
        for mid, accepted in part.accepted.items():
            self.accepted[mid] += accepted
        for mid, votes in part.votes.items():
            self.votes[mid] += votes
        for mid, said in part.receipts.items():
            self.receipts[mid] += said
        for mid, said in part.refusals.items():
            self.refusals[mid] += said
        self.events += part.events
        self.threads += part.threads
        self.messages += part.messages

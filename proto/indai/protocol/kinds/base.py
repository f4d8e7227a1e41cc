"""What every kind of intent has: a wish that leaves room, terms that leave none, and a row in the table.

The rest of the protocol knows a kind by these classes only. A kind is a module that defines its `Wish` and
its `Terms` (frozen dataclasses) and a `Kind`; `indai.protocol.kinds.table` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from google.protobuf.message import Message
from indai.protocol.forms import END_OF_TIME_MS


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open interval [start_ms, end_ms), milliseconds since the epoch."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Slot:
    """To be reserved: the owner's own time, [start_ms, end_ms)."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Stock:
    """To be reserved: `quantity` units of `item`, in [start_ms, end_ms), or for good where both are 0."""

    item: str
    quantity: int
    start_ms: int = 0
    end_ms: int = 0


@dataclass(frozen=True, slots=True)
class Money:
    """To be reserved: an amount in minor units of an ISO 4217 currency, out of what may be spent that day."""

    amount_minor: int
    currency: str


Holding: TypeAlias = Slot | Stock | Money


@dataclass(frozen=True, slots=True)
class Life:
    """What terms say about the time after the deed, ms.

    `pending_minor` is not 0 for what is pending until the second party says how much of it arrived; `done`
    says that nothing is left to do at the deed; `begins_ms` is what owners are reminded of, 0 for nothing;
    `times_ms` are the starts of what takes place several times, of which one may be left out, else empty.
    """

    cancel_until_ms: int
    fulfil_from_ms: int
    due_ms: int
    begins_ms: int = 0
    pending_minor: int = 0
    done: bool = False
    times_ms: tuple[int, ...] = ()


class Terms(ABC):
    """Something concrete that can be signed."""

    __slots__ = ()
    kind: ClassVar[str]
    pb: ClassVar[type[Message]]

    @abstractmethod
    def about(self) -> str:
        """One line about it; a peer's own words."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what is out of range; raises ProtocolError(MALFORMED)."""

    @abstractmethod
    def gist(self) -> tuple[object, ...]:
        """What a repetition can't vary (NEG-24): of different length or content than any wish's."""

    @abstractmethod
    def life(self) -> Life:
        """What follows from it after the deed."""

    @abstractmethod
    def to_pb(self) -> Message:
        """As it is signed."""

    @classmethod
    @abstractmethod
    def from_pb(cls, pb: Any) -> Self:
        """Out of what was signed; unchecked."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Out of the serialised message; unchecked."""
        return cls.from_pb(cls.pb.FromString(data))

    def holdings(self, *, first: bool) -> tuple[Holding, ...]:
        """What a party reserves when it signs: the first, who offers, or another."""
        return ()

    def sign_by_ms(self) -> int:
        """Until when it can still be signed, ms."""
        return END_OF_TIME_MS

    @property
    def replaces_ms(self) -> int:
        """Where it takes the place of one time alone of what it supersedes: when that begins; else 0."""
        return 0


class Wish(ABC):
    """What one side would like, with room for choice."""

    __slots__ = ()
    kind: ClassVar[str]
    pb: ClassVar[type[Message]]

    @property
    def replaces_ms(self) -> int:
        """As of `Terms`."""
        return 0

    @abstractmethod
    def about(self) -> str:
        """One line about it; a peer's own words."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what is out of range; raises ProtocolError(MALFORMED)."""

    @abstractmethod
    def admits(self, terms: Terms) -> bool:
        """Whether an offer of these terms answers this wish (NEG-15)."""

    @abstractmethod
    def gist(self) -> tuple[object, ...]:
        """What a repetition can't vary (NEG-24)."""

    @abstractmethod
    def to_pb(self) -> Message:
        """As it is signed."""

    @classmethod
    @abstractmethod
    def from_pb(cls, pb: Any) -> Self:
        """Out of what was signed; unchecked."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Out of the serialised message; unchecked."""
        return cls.from_pb(cls.pb.FromString(data))

    def leaves_room(self, standing: Wish | Terms) -> bool:
        """Whether something that answers this could lie within what it answers itself (NEG-24)."""
        return True

    def answer_by_ms(self) -> int:
        """Until when an answer can still be of use, ms."""
        return END_OF_TIME_MS

    @property
    def sender_gives(self) -> bool | None:
        """Whether who says this is the one who gives; None where the wish doesn't say (NEG-27)."""
        return None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of intent.

    `name` is the member of the oneofs, `intent` what keys, records and rules call it. `one_gives`: one side
    gives and therefore offers (NEG-27). `opens`: an OFFER may be the first move. `parties`: how many
    there are at most. `noun` and `kept` make the sentences for owners; `unavailable` is the reason of a
    REJECT where there is nothing to offer.
    """

    name: str
    intent: str
    wish: type[Wish]
    terms: type[Terms]
    noun: str
    kept: str
    one_gives: bool = True
    opens: bool = True
    parties: int = 2
    unavailable: str = "NOT_AVAILABLE"


def meets(windows: tuple[Window, ...], spans: tuple[Window, ...], needed_ms: int) -> bool:
    """Whether some window and some span have `needed_ms` in common."""
    return any(
        min(window.end_ms, span.end_ms) - max(window.start_ms, span.start_ms) >= needed_ms
        for window in windows
        for span in spans
    )

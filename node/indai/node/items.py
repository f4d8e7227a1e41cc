"""What the engine's queue holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from indai.node.inbound import Inbound
from indai.node.outbox import Outgoing
from indai.protocol.messages import MeetWish, Terms, Wish
from indai.protocol.party_state import OwnerActs


@dataclass(slots=True, eq=False)
class Item:
    """One thing to do for one thread of one owner; `future` resolves after COMMIT."""

    owner: str
    thread: bytes
    future: asyncio.Future[Any] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future(), kw_only=True, repr=False
    )
    retried: bool = field(default=False, kw_only=True)

    def succeed(self, result: Any = None) -> None:
        """Tell whoever waits; they may have gone."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        """As `succeed`."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class Deliver(Item):
    """A verified message of a peer."""

    inbound: Inbound = field(kw_only=True)


@dataclass(slots=True, eq=False)
class Answered(Item):
    """What came back for a message of ours: replies, or the peer's refusal."""

    outgoing: Outgoing = field(kw_only=True)
    replies: Sequence[Inbound] = field(kw_only=True)
    reason: str = field(kw_only=True)
    sentence: str = field(kw_only=True)


@dataclass(slots=True, eq=False)
class Start(Item):
    """The owner wants something; with `supersedes` in place of that commitment."""

    peer: str = field(kw_only=True)
    wish: Wish | Terms = field(kw_only=True)
    request_id: str = field(kw_only=True)
    supersedes: bytes = field(default=b"", kw_only=True)  # mid of the commitment whose place this is to take
    passes_on: tuple[bytes, ...] = field(default=(), kw_only=True)  # the owner's threads that led to it


@dataclass(slots=True, eq=False)
class Convene(Item):
    """The owner wants to meet several; `algorithm` finds the slot; `supersedes` as in Start."""

    peers: tuple[str, ...] = field(kw_only=True)
    wish: MeetWish = field(kw_only=True)
    request_id: str = field(kw_only=True)
    algorithm: str = field(kw_only=True)
    supersedes: bytes = field(default=b"", kw_only=True)
    passes_on: tuple[bytes, ...] = field(default=(), kw_only=True)


@dataclass(slots=True, eq=False)
class Approval(Item):
    """The owner's yes or no, or what they want instead."""

    action_hash: bytes = field(kw_only=True)
    approved: bool = field(kw_only=True)
    instead: Wish | Terms | None = field(default=None, kw_only=True)


@dataclass(slots=True, eq=False)
class Withdrawal(Item):
    """The owner takes the matter back."""


@dataclass(slots=True, eq=False)
class Act(Item):
    """The owner says something about what was agreed."""

    said: OwnerActs = field(kw_only=True)


@dataclass(slots=True, eq=False)
class Erasure(Item):
    """The owner wants what an ended thread says to be gone."""


@dataclass(slots=True, eq=False)
class Wake(Item):
    """A timer is due."""

"""The values of conversations. Ids are UUIDs inside, and 32 hexadecimal digits on the wire."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from indai.protocol.errors import NotFound, Reason
from indai.protocol.header import RANDOM_BYTES, new_id
from indai.v1 import conversation_pb2 as pb

Clock = Callable[[], int]
"""Milliseconds since the epoch."""

CHANNELS: Final = frozenset({"whatsapp", "web", "voice", "telegram", "slack", "a2a", "cli"})
HANDLE: Final = "handle"
"""The kind of identity that a key or a token has proved."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose agent answers, at which door, with which binding. `owner` is whose rows these are: the handle, or
    the tenant of a branded agent, which may have no handle."""

    owner: str
    tenant: str
    binding: str
    handle: str
    door: str


@dataclass(frozen=True, slots=True)
class Person:
    """Who writes. `handles` are those they have proved."""

    id: UUID
    identity: UUID
    handles: tuple[str, ...] = ()
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation of one person with one agent."""

    id: UUID
    place: Place
    person: UUID
    scope_person: UUID
    segment: UUID
    status: str = "active"
    channel: str = ""
    language: str = ""
    time_zone: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message to be answered. `attempts` counts this run; `said` is what a run before it released."""

    id: UUID
    session: Session
    message: UUID
    request: pb.InboundMessage
    attempts: int
    handles: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    next_seq: int = 2
    note: Mapping[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """Whose rows these are."""
        return self.session.place.owner


@dataclass(frozen=True, slots=True)
class Breach:
    """A guardrail that an answer broke."""

    tier: str
    rule: str
    severity: str
    blocked: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Thought:
    """What became of a turn. `state` replaces the session's working memory; None leaves it. `ending` is
    answered, degraded, stopped, handed_off or failed. `hand_over`: to a person; `hand_to`: to a binding."""

    reply: pb.Reply
    ending: str = "answered"
    reason: str = ""
    language: str = ""
    state: Mapping[str, Any] | None = None
    stage_ms: Mapping[str, float] = field(default_factory=dict)
    trace: Mapping[str, Any] = field(default_factory=dict)
    breaches: tuple[Breach, ...] = ()
    cost_micros: int = 0
    hand_over: bool = False
    hand_to: str = ""


def fresh(clock: Clock) -> UUID:
    """A new id, UUIDv7: sorted by time."""
    return UUID(bytes=new_id(clock(), os.urandom(RANDOM_BYTES)))


def read_id(text: str, what: str) -> UUID:
    """An id as it came. Raises NotFound for what cannot be one."""
    try:
        return UUID(hex=text)
    except ValueError:
        raise missing(what) from None


def missing(what: str) -> NotFound:
    """One sentence for what is not there and for what the caller may not see."""
    return NotFound(Reason.NOT_FOUND, f"There is no such {what} here.", hint=f"check the {what}'s id")

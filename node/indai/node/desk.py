"""Where one owner's conversation takes place, and who can take part in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from indai.node.agents import Agent
from indai.node.compose import Letterhead
from indai.node.kinds.base import Answer, KindModule
from indai.node.reminders import Likes


@dataclass(frozen=True, slots=True)
class Cause:
    """The incoming message that is being answered; `rides` when its sender's own node waits for the
    answer."""

    mid: bytes
    move: str
    rides: bool


@dataclass(slots=True)
class Consulted:
    """What the host said last, until the message it led to is signed."""

    answer: Answer
    approved: bool


@dataclass(frozen=True, slots=True)
class Desk:
    """Where one owner's conversation takes place."""

    agent: Agent
    peer: str
    letterhead: Callable[[tuple[str, int] | None], Awaitable[Letterhead]]  # for what is signed costs us
    letterhead_to: Callable[[str], Awaitable[Letterhead]]  # for another than `peer`: a member of several
    kinds: Mapping[str, KindModule]
    ledger: str
    likes: Likes

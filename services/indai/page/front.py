"""What a node shows its pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indai.page.meeting import Meetings
    from indai.page.tickets import Tickets
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub


@dataclass(frozen=True, slots=True)
class Proof:
    """What the registry proves of a handle: its subject, the node that it lives on, and the size of the
    public log's head that says so."""

    subject: str
    node: str
    log_size: int


ProofOf = Callable[[str], Awaitable[Proof]]
"""Raises IndaiError when the registry proves nothing now."""
PausedWay = Callable[[str], Awaitable[str]]
"""`ask` or `refuse` for a handle that its owner has paused, else empty."""


@dataclass(frozen=True, slots=True)
class Front:
    """`authority` completes short names; `conversations` is of this cell alone: it believes who is said to
    write."""

    authority: str
    conversations: ConversationServiceAsyncStub
    proof_of: ProofOf
    paused: PausedWay
    meetings: Meetings
    tickets: Tickets

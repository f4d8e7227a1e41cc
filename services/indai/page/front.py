"""What a node shows its pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from indai.client.introduction import Introduced, Occasion
    from indai.page.meeting import Meetings
    from indai.page.tickets import Tickets
    from indai.v1 import conversation_pb2 as pb
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub


@dataclass(frozen=True, slots=True)
class Proof:
    """What the registry proves of a handle: its subject, the node that it lives on, and the size of the
    public log's head that says so."""

    subject: str
    node: str
    log_size: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What is proved of a handle that lives on another node, and where that node says that its pages are:
    like `https://node.example`, or nothing."""

    handle: str
    subject: str
    node: str
    log_size: int
    url: str


class Guests(Protocol):
    """Visitors whose agent lives on another node."""

    def lives_here(self, handle: str) -> bool:
        """Whether it lives on this one."""

    async def find(self, handle: str) -> Elsewhere:
        """Verify a handle. Raises IndaiError for one that is none, or can't be proved now."""

    async def introduced(self, text: str, occasion: Occasion) -> Introduced:
        """Whom an introduction introduces. Raises IndaiError for one that is not good."""


ProofOf = Callable[[str], Awaitable[Proof]]
"""Raises IndaiError when the registry proves nothing now."""
PausedWay = Callable[[str], Awaitable[str]]
"""`ask` or `refuse` for a handle that its owner has paused, else empty."""


FileLink = Callable[["pb.Media"], str]
"""Where a file that an agent has sent is fetched, for some days; nothing where it can't be."""


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
    guests: Guests
    link: FileLink

"""What the tools of one owner work with: generated stubs, the verifying resolver, the owner's limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar
from zoneinfo import ZoneInfo

from indai.client.because import MOST, acting_on
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.protocol.errors import IndaiError
from indai.v1 import calendar_pb2, owner_pb2
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

if TYPE_CHECKING:
    from indai.v1.asking_pb2_grpc import AskingServiceAsyncStub
    from indai.v1.calendar_pb2_grpc import CalendarServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from indai.v1.owner_pb2_grpc import OwnerServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub
    from indai.v1.sharing_pb2_grpc import SharingServiceAsyncStub

P = ParamSpec("P")
T = TypeVar("T")

SHOWN_MS: Final = 900_000  # for so long what was read may be what an assistant acts on


@dataclass(frozen=True, slots=True)
class Verdict:
    """What rules answer: `permit`, `refuse` or `ask`, why in words, and by which rules."""

    outcome: str
    words: str
    rules: tuple[str, ...]


class Rules(Protocol):
    """Reads rules without a node: compiles them, and asks them what they would answer."""

    def check(self, yaml: str) -> tuple[str, ...]:
        """Every rule in words. Raises InvalidInput for rules that are none."""

    def explain(
        self, yaml: str, kind: str, peer: str, start_ms: int, end_ms: int, facts: Mapping[str, str]
    ) -> Verdict:
        """What they answer to a peer whose signature is verified. Raises InvalidInput."""


@dataclass(frozen=True, slots=True)
class Session:
    """One owner's node, as one assistant may use it.

    `may_start`: new threads need no yes of the owner at the host. `scopes`: all of the memory that may be
    read, each as `kind` or `kind:id`; empty for whatever the owner sees. `shown`: threads that the assistant
    has read, and when (ms).
    """

    handle: str
    owner: OwnerServiceAsyncStub
    calendars: CalendarServiceAsyncStub
    memory: MemoryServiceAsyncStub
    asking: AskingServiceAsyncStub
    sharing: SharingServiceAsyncStub
    registry: RegistryServiceAsyncStub
    resolver: Resolver
    network: NetworkPolicy
    rules: Rules
    clock: Callable[[], int]
    may_start: bool = False
    scopes: tuple[str, ...] = ()
    shown: dict[str, int] = field(default_factory=dict)

    def look(self, *threads: str) -> None:
        """The assistant reads these threads now."""
        now = self.clock()
        self.shown.update(dict.fromkeys(threads, now))
        for thread in [each for each, at in self.shown.items() if at < now - SHOWN_MS]:
            del self.shown[thread]

    async def acting(self) -> AbstractContextManager[None]:
        """What an assistant begins by itself is begun because of what others have asked and it has just read:
        it can't be relied upon to say so. What the owner confirms at the host is their own wish."""
        now = self.clock()
        recent = [thread for thread, at in self.shown.items() if at >= now - SHOWN_MS][-MOST:]
        if not self.may_start:
            return nullcontext()
        asked = [self.owner.GetThread(owner_pb2.GetThreadRequest(thread_id=thread)) for thread in recent]
        found = [answer.thread for answer in await asyncio.gather(*asked)]
        return acting_on(*(each.thread_id for each in found if not each.outgoing))

    async def zone(self) -> ZoneInfo:
        """The owner's time zone, as their policy states it."""
        answer = await self.calendars.GetMeetSettings(calendar_pb2.GetMeetSettingsRequest())
        return ZoneInfo(answer.time_zone or "UTC")


Ctx = Context[Session, Any]


def of(ctx: Ctx) -> Session:
    """The session that a call belongs to."""
    return ctx.request_context.lifespan_context


def told(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A tool whose errors reach the assistant as a sentence and what to do next; faults of ours don't."""

    @wraps(tool)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except IndaiError as error:
            raise ToolError(sentence(error)) from None

    return call


def sentence(error: IndaiError) -> str:
    """An error for an assistant."""
    hint = f" Next: {error.hint}." if error.hint else ""
    return f"{error.message}{hint} [{error.reason.name}]"

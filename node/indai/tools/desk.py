"""What tools act through: the owner's own services, as if the owner had called them.

So a tool does nothing that the owner's policy would not let the owner do: the same checks, signatures,
ledger entries and journal lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from indai.mcp.values import RESTING
from indai.tools.values import Caller, Progress
from indai.v1 import owner_pb2

if TYPE_CHECKING:
    from indai.v1.asking_pb2_grpc import AskingServiceAsyncStub
    from indai.v1.calendar_pb2_grpc import CalendarServiceAsyncStub
    from indai.v1.commerce_pb2_grpc import CommerceServiceAsyncStub
    from indai.v1.group_pb2_grpc import GroupServiceAsyncStub
    from indai.v1.owner_pb2_grpc import OwnerServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub
    from indai.v1.sharing_pb2_grpc import SharingServiceAsyncStub

WAIT_S: Final = 8.0
AGAIN_S: Final = 0.1
_REQUESTS: Final = UUID("5b0e8f43-4d0e-5e31-9f2f-4b1f6a3b7c11")


@dataclass(frozen=True, slots=True)
class Desk:
    """The services of one owner, who is the caller of each."""

    owner: OwnerServiceAsyncStub
    groups: GroupServiceAsyncStub
    sharing: SharingServiceAsyncStub
    asking: AskingServiceAsyncStub
    calendars: CalendarServiceAsyncStub
    commerce: CommerceServiceAsyncStub
    registry: RegistryServiceAsyncStub


Desks = Callable[[str], Desk]
"""The desk of an owner, by handle."""


def request_id(caller: Caller, tool: str, *parts: object) -> str:
    """The UUID of a request: the same turn asking for the same is the same request."""
    return str(
        uuid5(_REQUESTS, "\n".join([caller.owner, caller.session, caller.turn, tool, *map(str, parts)]))
    )


def rests(thread: owner_pb2.Thread) -> bool:
    """It has ended, or waits for a person."""
    return thread.state in RESTING


async def settle(
    desk: Desk,
    thread: owner_pb2.Thread,
    progress: Progress,
    until: Callable[[owner_pb2.Thread], bool] = rests,
    wait_s: float = WAIT_S,
) -> owner_pb2.Thread:
    """The thread when `until` holds, or as it is after `wait_s`."""
    last = thread
    try:
        async with asyncio.timeout(wait_s):
            while not until(last):
                async with aclosing(_changes(desk, thread.thread_id, progress)) as changes:
                    async for seen in changes:
                        last = seen
                        if until(last):
                            return last
                # What is agreed and written down is watched no longer, and may still be called off.
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        pass
    return last


async def _changes(desk: Desk, thread_id: str, progress: Progress) -> AsyncGenerator[owner_pb2.Thread, None]:
    told = ""
    updates: Any = desk.owner.WatchThread(owner_pb2.WatchThreadRequest(thread_id=thread_id))
    async with aclosing(updates) as changes:
        async for update in changes:
            yield update.thread
            state = _STEPS.get(update.thread.state, "")
            if state and state != told:
                told = state
                await progress(f"{update.thread.peer}: {state}")


_STEPS: Final = {
    owner_pb2.THREAD_STATE_NEGOTIATING: "talking with their agent",
    owner_pb2.THREAD_STATE_AWAITING_RECEIPT: "agreed, waiting for the receipt",
    owner_pb2.THREAD_STATE_IN_DOUBT: "their side is silent",
}

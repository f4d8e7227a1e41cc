"""What the tests of a commitment's life have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

from indai.client.audit import Report, audit
from indai.node.calendar import read_busy
from indai.protocol.envelope import parse_envelope
from indai.v1 import negotiation_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.test_meeting import messages
from tests.service.node.world import Node, Owner

CANCELLED = owner_pb2.COMMITMENT_STATE_CANCELLED
STANDS = owner_pb2.COMMITMENT_STATE_COMMITTED


async def seen(owner: Owner, thread_id: str) -> owner_pb2.Thread:
    """The thread as it is now."""
    return (await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))).thread


async def until(
    owner: Owner, thread_id: str, ready: Callable[[owner_pb2.Thread], bool], within_s: float = 60
) -> owner_pb2.Thread:
    """The thread once it is as wanted; a watch ends with the deed."""
    async with asyncio.timeout(within_s):
        while not ready(thread := await seen(owner, thread_id)):
            await asyncio.sleep(0.05)
    return thread


async def events(owner: Owner, thread: owner_pb2.Thread) -> list[negotiation_pb2.Event]:
    """Events and requests of the thread, as this owner holds them."""
    return [
        negotiation_pb2.Event.FromString(parse_envelope(message.envelope).payload)
        for message in await messages(owner, thread.thread_id)
        if message.move == "EVENT"
    ]


def is_cancelled(thread: owner_pb2.Thread) -> bool:
    """Whether it was called off."""
    return thread.commitment_state == CANCELLED


def busy(node: Node, owner: Owner, thread: owner_pb2.Thread) -> bool:
    """Whether the owner's calendar file has the slot taken."""
    text = (node.data / "calendars" / f"{owner.handle.replace('/', '_')}.ics").read_bytes()
    start, end = thread.start_time.ToMilliseconds(), thread.end_time.ToMilliseconds()
    return bool(read_busy(text, owner_zone=ZoneInfo("UTC"), start_ms=start, end_ms=end))


async def audited(pair: Pair, folder: Path) -> Report:
    """The audit of both owners' exports."""
    paths = []
    for owner in (pair.alice, pair.bob):
        path = folder / f"{owner.handle.rpartition('/')[2]}.jsonl"
        with path.open("wb") as file:
            async for part in owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
                file.write(part.lines)
        paths.append(path)
    registry = await pair.world.mirror(folder / "registry.jsonl")
    return audit(paths, registry, pair.world.policy.policy)

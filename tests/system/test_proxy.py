"""Connections between two nodes are cut in the middle, while one of them is killed: nothing is lost, nothing
happens twice. The cuts are counted in bytes and connections, never in time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.service.node.world import World
from tests.system.test_kills import (
    RULES,
    Pair,
    Process,
    ask,
    check_everything_once,
    committed,
    died_everywhere,
    keep_alive,
    node_of,
    process,
)

pytestmark = pytest.mark.system

# How many bytes of each connection pass before it is cut: in the handshake, in a call, in its answer.
CUTS = (0, 900, 4_000, 5_500, 7_000, 9_000, 12_000)


@dataclass
class Proxy:
    """Stands where the node's record says that the node is."""

    node: Process
    address: str = ""
    cuts: list[int] = field(default_factory=lambda: list(CUTS))

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = self.node.plan["advertise"] = f"{host}:{port}"
        try:
            yield self
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = [self.cuts.pop(0)] if self.cuts else None
        writers = [writer]
        try:
            host, _, port = self.node.addresses["peer"].rpartition(":")
            inner_reader, inner = await asyncio.open_connection(host, int(port))
            writers.append(inner)
            ways = (_pipe(reader, inner, left), _pipe(inner_reader, writer, left))
            await asyncio.wait([asyncio.create_task(way) for way in ways], return_when="FIRST_COMPLETED")
        except (OSError, KeyError):
            pass  # the node is down: so is its address
        finally:
            for each in writers:
                each.transport.abort()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: list[int] | None) -> None:
    """Until the end, or until nothing is `left` of what both directions together may carry."""
    with contextlib.suppress(OSError):
        while data := await source.read(512):
            if left is not None:
                left[0] -= len(data)
                if left[0] < 0:
                    return
            sink.write(data)
            await sink.drain()


@pytest.mark.timeout(300)
async def test_cut_connections_and_a_killed_node_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        registry = process(tmp_path, "registry")
        stack.push_async_callback(registry.stop)
        await registry.start()
        world = World(tmp_path, registry.addresses["registry"], registry.data / "network.policy")
        a, b = process(tmp_path, "node-a", registry), process(tmp_path, "node-b", registry)
        proxies = [await stack.enter_async_context(Proxy(node).listening()) for node in (a, b)]
        for node in (a, b):
            stack.push_async_callback(node.stop)
        await asyncio.gather(a.start(), b.start("after-commit"))
        alice = await node_of(world, a).agent("ind.ai/alice", RULES)
        bob = await node_of(world, b).agent("ind.ai/bob", RULES)
        finished = asyncio.Event()
        guard = asyncio.create_task(keep_alive(b, finished))
        titles = [f"cut {number}" for number in range(4)]
        threads = await asyncio.gather(*(ask(alice, title) for title in titles))
        for owner in (alice, bob):
            await asyncio.gather(*(committed(owner, thread) for thread in threads))
        await died_everywhere(b)
        finished.set()
        await guard
        assert any(len(proxy.cuts) < len(CUTS) for proxy in proxies)
        await check_everything_once(Pair(world, a, b, alice, bob), titles)

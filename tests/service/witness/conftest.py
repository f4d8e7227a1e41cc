"""Witnesses on loopback, as many as a test wants, each over HTTP and a directory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from indai.node.http_server import HttpServer
from indai.protocol.keys import SigningKey
from indai.protocol.note import Verifier
from indai.protocol.tlogpolicy import Group, TlogPolicy
from indai.protocol.witnessing import AddCheckpoint
from indai.tlog.witness import Witness, witness_routes

from tests.ports import free_address


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


class Clock:
    """Whole seconds, moved by the test."""

    def __init__(self, now: int = 1_790_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@dataclass
class Running:
    """One witness; `stop` and `start` are a crash and a restart on the same port."""

    name: str
    logs: list[Verifier]
    directory: Path
    clock: Clock
    address: str = field(default_factory=free_address)
    guard: Path | None = None
    witness: Witness | None = None
    _server: HttpServer | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    @property
    def verifier(self) -> Verifier:
        assert self.witness is not None
        return self.witness.verifier

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def start(self) -> None:
        witness_key = key(self.name)
        opened = Witness.open(self.name, witness_key, self.logs, self.directory, self.clock, self.guard)
        self.witness = self._open.enter_context(opened)
        self._server = await HttpServer.start(self.address, witness_routes(self.witness))
        self.address = self._server.address

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
            self._server = None
            self._open.close()

    async def ask(self, request: AddCheckpoint | bytes) -> tuple[int, bytes, str]:
        body = request if isinstance(request, bytes) else request.encode()
        async with aiohttp.ClientSession() as session:
            url = f"{self.url}/add-checkpoint"
            async with session.post(url, data=body) as answer:
                return answer.status, await answer.read(), answer.content_type


StartWitness = Callable[..., "object"]


@pytest.fixture
def witness_clock() -> Clock:
    return Clock()


@pytest.fixture
async def start_witness(tmp_path: Path, witness_clock: Clock) -> AsyncIterator[object]:
    """Starts a witness of some logs."""
    async with AsyncExitStack() as stack:

        async def start(name: str, *logs: Verifier, guard: Path | None = None) -> Running:
            running = Running(name, list(logs), tmp_path / name, witness_clock, guard=guard)
            await running.start()
            stack.push_async_callback(running.stop)
            return running

        yield start


def quorum_of(threshold: int, *witnesses: Running) -> TlogPolicy:
    """The policy in which `threshold` of the witnesses must cosign."""
    return TlogPolicy(
        (),
        {witness.name: witness.verifier for witness in witnesses},
        {"quorum-group": Group(threshold, tuple(witness.name for witness in witnesses))},
        "quorum-group",
        {witness.name: witness.url for witness in witnesses},
    )

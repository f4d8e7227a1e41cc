"""Registry, policy, ledger and node as in containers of their own: apart, over TLS, each with its data."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from indai.client.cell import cell_channel, cell_identity, registry_channel
from indai.client.channels import plain_channel
from indai.node.app import running
from indai.node.auth import new_token
from indai.node.settings import Settings
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import ledger_pb2, owner_pb2, registry_pb2
from indai.v1.ledger_pb2_grpc import LedgerServiceStub
from indai.v1.owner_pb2_grpc import OperatorServiceStub
from indai.v1.registry_pb2_grpc import RegistryServiceStub

if TYPE_CHECKING:
    from indai.v1.owner_pb2_grpc import OperatorServiceAsyncStub

    from tests.conftest import Database

# Reachable from this machine, and no loopback address: what a container binds to.
ANYWHERE = "0.0.0.0:0"


@dataclass
class Cell:
    """Starts roles as processes are: by settings and environment, with nothing shared but the database."""

    base: Path
    token: str
    node_key: str
    databases: dict[str, Database]
    environment: Callable[[str, str], None]
    addresses: dict[str, str] = field(default_factory=dict)
    enrolled: list[registry_pb2.NodeRecord] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def role(self, name: str) -> AsyncIterator[None]:
        database = self.databases[name]
        self.environment("INDAI_DATABASE_URL", database.dsn)
        self.environment("INDAI_DATABASE_ADMIN_URL", database.admin_dsn)
        self.environment("INDAI_CELL_TOKEN", self.token)
        self.environment("INDAI_NODE_KEY", self.node_key)
        network = self.base / "registry" / "network.policy"
        settings = Settings(
            data=self.base / name,
            roles=frozenset({name}),
            handle="ind.ai/north",
            listen={name: ANYWHERE},
            neighbours=dict(self.addresses),
            network=network if name != "registry" else None,
        )
        async with running(settings, self._enrol) as info:
            self.addresses.update(info.addresses)
            yield

    async def _enrol(self, _: str, handle: str, record: registry_pb2.NodeRecord) -> None:
        self.enrolled.append(record)


@pytest.fixture
async def cell(
    tmp_path: Path, make_database: Callable[[], Awaitable[Database]], monkeypatch: pytest.MonkeyPatch
) -> Cell:
    registry, shared, policy = [await make_database() for _ in range(3)]
    databases = {"registry": registry, "ledger": shared, "node": shared, "policy": policy}
    return Cell(
        tmp_path, new_token().text, base64.b64encode(os.urandom(32)).decode(), databases, monkeypatch.setenv
    )


async def test_roles_apart_find_each_other_and_a_restarted_ledger_leaves_the_node_its_log(cell: Cell) -> None:
    async with cell.role("registry"), cell.role("policy"), contextlib.AsyncExitStack() as first:
        await first.enter_async_context(cell.role("ledger"))
        async with cell.role("node"):
            assert await _agents(cell) == []
            await _create_agent(cell, "ind.ai/alice")
            before = await _ledger_size(cell)
            await first.aclose()
            async with cell.role("ledger"):
                # Activating a policy is an entry of the ledger: the node can still write it.
                await _create_agent(cell, "ind.ai/bob")
                assert await _ledger_size(cell) == before + 1
            assert await _agents(cell) == ["ind.ai/alice", "ind.ai/bob"]
    assert [record.ledger_origin.split("/")[1] for record in cell.enrolled] == ["north"]


async def test_a_role_of_another_cell_is_not_taken_for_ours(cell: Cell) -> None:
    other = new_token().text
    async with cell.role("registry"), cell.role("ledger"):
        channel = cell_channel(cell.addresses["ledger"], other)
        with pytest.raises(IndaiError) as caught:
            await LedgerServiceStub(channel).GetCheckpoint(ledger_pb2.GetCheckpointRequest(), timeout=5)
        await channel.close()
        assert caught.value.reason is Reason.UNREACHABLE


async def test_a_caller_without_the_token_is_refused_even_with_the_right_certificate(cell: Cell) -> None:
    async with cell.role("registry"), cell.role("ledger"):
        channel = cell_channel(cell.addresses["ledger"], cell.token)
        channel._metadata = ()
        with pytest.raises(IndaiError) as caught:
            await LedgerServiceStub(channel).GetCheckpoint(ledger_pb2.GetCheckpointRequest())
        await channel.close()
        assert caught.value.reason is Reason.UNAUTHENTICATED


async def test_a_registry_that_others_can_reach_speaks_no_plaintext(cell: Cell) -> None:
    async with cell.role("registry"):
        port = cell.addresses["registry"].rpartition(":")[2]
        async with plain_channel(f"127.0.0.1:{port}") as plain:
            with pytest.raises(IndaiError) as caught:
                await RegistryServiceStub(plain).GetHead(registry_pb2.GetHeadRequest(), timeout=3)
            assert caught.value.reason in {Reason.UNREACHABLE, Reason.DEADLINE_EXCEEDED}
        async with registry_channel(cell.addresses["registry"]) as channel:
            assert (await RegistryServiceStub(channel).GetHead(registry_pb2.GetHeadRequest())).ByteSize()


def test_a_cells_certificate_follows_from_its_token_alone() -> None:
    token = new_token().text
    first = cell_identity(token)
    cell_identity.cache_clear()
    assert cell_identity(token) == first
    assert cell_identity(new_token().text).spki_sha256 != first.spki_sha256


def _operator(cell: Cell) -> OperatorServiceAsyncStub:
    token = (cell.base / "node" / "operator.token").read_text().strip()
    return OperatorServiceStub(plain_channel(cell.addresses["owner"], token=token))


async def _agents(cell: Cell) -> list[str]:
    return sorted((await _operator(cell).GetNode(owner_pb2.GetNodeRequest())).agents)


async def _create_agent(cell: Cell, handle: str) -> None:
    policy = "version: 1\ntimezone: Asia/Kolkata\nrules:\n  - {id: all, allow: meet, with: anyone}\n"
    await _operator(cell).CreateAgent(owner_pb2.CreateAgentRequest(handle=handle, policy_yaml=policy))


async def _ledger_size(cell: Cell) -> int:
    async with cell_channel(cell.addresses["ledger"], cell.token) as channel:
        answer = await LedgerServiceStub(channel).GetCheckpoint(ledger_pb2.GetCheckpointRequest())
    return int(answer.checkpoint.decode().splitlines()[1])

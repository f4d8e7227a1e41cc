"""The roles as they are started: a registry, two witnesses in directories of their own, and its tiles."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from indai.client.network import NetworkPolicy
from indai.node.app import running
from indai.node.settings import Settings
from indai.protocol.errors import InvalidInput
from indai.v1 import registry_pb2


async def nobody(_: str, __: str, record: registry_pb2.NodeRecord) -> None:
    raise AssertionError("neither a registry nor a witness has a record")


async def test_a_registry_is_witnessed_by_processes_of_their_own(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "registry", roles=frozenset({"registry"}))
    network = settings.data / "network.policy"
    async with running(settings, nobody):
        pass
    async with AsyncExitStack() as stack:
        lines = []
        for name in ("north", "south"):
            data = tmp_path / name
            witness = Settings(
                data=data, roles=frozenset({"witness"}), handle=f"ind.ai/{name}", network=network
            )
            info = await stack.enter_async_context(running(witness, nobody))
            vkey = (data / "witness.vkey").read_text().strip()
            lines.append(f"witness {name} {vkey} http://{info.addresses['http']}\n")
            assert not (data / "postgres").exists()
        policy = tmp_path / "witnesses.policy"
        policy.write_text("".join(lines) + "group both all north south\nquorum both\n")
        again = Settings(data=settings.data, roles=frozenset({"registry"}), witnesses=policy)
        info = await stack.enter_async_context(running(again, nobody))
        believed = NetworkPolicy.load(network)
        assert (believed.policy.quorum, set(believed.policy.witnesses)) == (
            "both",
            {"clock", "north", "south"},
        )
        async with aiohttp.ClientSession() as session:
            url = f"http://{info.addresses['http']}/ind.ai/registry/checkpoint"
            async with session.get(url) as answer:
                assert believed.open(await answer.read()).size == 0


async def test_a_witness_must_be_told_which_logs_it_knows(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="names the logs"):
        async with running(Settings(data=tmp_path, roles=frozenset({"witness"})), nobody):
            pass

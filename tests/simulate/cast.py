"""Who takes part in the simulation of two nodes: real keys and real, verified records, and a registry that is
always there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

from indai.client.handlekeys import claim, new_agent_key
from indai.client.network import Head
from indai.client.resolver import Resolved
from indai.node.agents import Agent
from indai.protocol.checkpoint import Checkpoint
from indai.protocol.envelope import Envelope
from indai.protocol.errors import NotFound, Reason
from indai.protocol.handlestate import NodeRecord
from indai.protocol.keys import SigningKey
from indai.protocol.note import format_vkey
from indai.protocol.operations import Chain, replay

from tests.simulate.host import START_MS

REGISTRY = "ind.ai/registry"
NETWORK = f"{REGISTRY}+00000000"
HOMES = {"ind.ai/ann": "ind.ai/node-a", "ind.ai/cat": "ind.ai/node-a", "ind.ai/bob": "ind.ai/node-b"}
NODES = tuple(dict.fromkeys(HOMES.values()))
_HEAD = Head(b"", Checkpoint(REGISTRY, 9, b"r" * 32), START_MS)


def key_of(name: str) -> SigningKey:
    """The same key every time."""
    return SigningKey.from_seed(hashlib.sha256(name.encode()).digest())


def spki(node: str) -> bytes:
    """What stands for the node's TLS key."""
    return hashlib.sha256(node.encode()).digest()


@cache
def record(handle: str) -> Resolved:
    """What the registry shows of a handle."""
    rotation, born_ms = key_of(f"rotation {handle}"), START_MS - 86_400_000
    if handle in NODES:
        origin = f"{handle}/ledger/2026"
        vkey = format_vkey(origin, key_of(origin).public_key)
        node = NodeRecord("127.0.0.1:9", spki(handle), origin, vkey)
        made = _claimed(handle, rotation, born_ms, node_record=node)
    else:
        keys = [new_agent_key(key_of(handle).public_key, born_ms)]
        made = _claimed(handle, rotation, born_ms, agent_keys=keys, node=HOMES[handle])
    return Resolved(replay([made]), _HEAD)


def _claimed(handle: str, rotation: SigningKey, now_ms: int, **shown: Any) -> Envelope:
    """The same bytes in every process."""
    with patch("os.urandom", lambda count: bytes(count)):
        return claim(handle, REGISTRY, [rotation], now_ms=now_ms, **shown)


@dataclass(frozen=True, slots=True)
class _Policy:
    network: str = NETWORK


class Registry:
    """The resolver of both nodes."""

    policy = _Policy()

    async def resolve(self, handle: str, **_: object) -> Resolved:
        """A handle's record."""
        if handle not in HOMES and handle not in NODES:
            raise NotFound(Reason.NOT_FOUND, f"{handle} is not taken.")
        return record(handle)

    async def node_of(self, person: Resolved, **_: object) -> Resolved:
        """The record of a person's node."""
        return record(HOMES[person.handle])

    async def authority_of(self, agent: Resolved, **_: object) -> tuple[Chain, ...]:
        """Nobody here is a sub-agent."""
        return (agent.chain,)

    async def tail(self) -> Head:
        """Nothing new."""
        return _HEAD


class Household:
    """The agents of one node."""

    def __init__(self, node: str) -> None:
        self._agents = {
            owner: Agent(owner, b"", Path("none.ics"), ZoneInfo("UTC"), {key_of(owner).key_id: key_of(owner)})
            for owner, home in HOMES.items()
            if home == node
        }

    def get(self, owner: str) -> Agent:
        """An agent that lives here."""
        return self._agents[owner]

    def __contains__(self, owner: object) -> bool:
        return owner in self._agents

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

"""Very many handles on one node, made at once: rows in bulk, and their claims in the registry's log.

What each of them has is what `CreateAgent` and a claim leave behind: an agent with a sealed key, a policy
that is active, an operation in the registry's log and its place in the map. Nodes and registry must be
stopped meanwhile. Leaves in the node's ledger about their policies are written when they first decide.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
from indai.client.decisions import layer_values
from indai.client.handlekeys import claim, new_agent_key
from indai.node.following import portions
from indai.node.keyring import Keyring
from indai.node.keystore import open_keystore
from indai.policy.compiled import CompiledPolicy, compile_policy
from indai.protocol.keys import SigningKey
from indai.registry.service import Registry
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.pool import DatabaseUrls, open_pool

from bench.system import POLICY

AT_ONCE = 512
# Tables of owners take no COPY: row-level security holds for the administrator as well.
_VERSION = """
    INSERT INTO policy.version
        (owner, policy_hash, schema_hash, source, layers, schema, engine, time_zone)
    SELECT owner, $2, $3, $4, $5, $6, $7, $8 FROM unnest($1::text[]) AS owner
"""
_ACTIVE = """
    INSERT INTO policy.active (owner, policy_hash, activated_at)
    SELECT owner, $2, now() FROM unnest($1::text[]) AS owner
"""
NODE = "ind.ai/node-a"


async def crowd(base: Path, count: int) -> None:
    """So many agents on node A under `base`, each with a key and a claim of its own."""
    keys = {f"ind.ai/crowd-{number}": SigningKey.generate() for number in range(count)}
    await _agents(base / "A", keys)
    await _claims(base / "registry", keys)


async def _agents(data: Path, keys: dict[str, SigningKey]) -> None:
    store, policy = open_keystore(data, os.environ), compile_policy(POLICY)
    agents = (
        (owner, hashlib.sha256(owner.encode()).digest(), str(data / "calendars" / f"{number}.ics"), "UTC")
        for number, owner in enumerate(keys)
    )
    sealed = (
        (owner, key.key_id, store.seal(key.seed, f"agent-key {owner} {key.key_id}"))
        for owner, key in keys.items()
    )
    async with EmbeddedPostgres(data / "postgres") as server:
        connection = await asyncpg.connect(DatabaseUrls.from_server(server).admin)
        await _copy(connection, "agents", "owner token_sha256 calendar_path time_zone", agents)
        await _copy(connection, "agent_keys", "owner key_id sealed_seed", sealed)
        for owners in portions(keys):
            async with connection.transaction():
                await connection.execute("SELECT set_config('indai.owners', $1, true)", ",".join(owners))
                await connection.execute(_VERSION, owners, *_values(policy))
                await connection.execute(_ACTIVE, owners, policy.policy_hash)
        await connection.execute("ANALYZE")
        await connection.close()


async def _copy(connection: asyncpg.Connection, table: str, columns: str, rows: Iterator[Any]) -> None:
    while some := list(itertools.islice(rows, 5_000)):
        await connection.copy_records_to_table(
            table, schema_name="node", columns=columns.split(), records=some
        )


def _values(policy: CompiledPolicy) -> tuple[Any, ...]:
    layers = json.dumps([layer_values(layer) for layer in policy.layers])
    known = policy.policy_hash, policy.schema_hash, policy.source
    return (*known, layers, policy.schema, policy.engine, policy.time_zone)


async def _claims(data: Path, keys: dict[str, SigningKey]) -> None:
    """Through the registry's own rules, without a network between."""
    log_keys = Keyring(data / "keys", open_keystore(data, os.environ)).log_keys(
        "ind.ai/registry", "ind.ai/clock"
    )
    async with EmbeddedPostgres(data / "postgres") as server:
        pool = await open_pool(DatabaseUrls.from_server(server).app)
        async with Registry.open(pool, log_keys, data / "heads", _now_ms) as registry:
            waiting = iter(keys.items())

            async def work() -> None:
                for handle, key in waiting:
                    now = _now_ms()
                    agent, rotation = new_agent_key(key.public_key, now), [SigningKey.generate()]
                    operation = claim(
                        handle, registry.origin, rotation, now_ms=now, agent_keys=[agent], node=NODE
                    )
                    await registry.submit(operation.raw)

            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        await pool.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

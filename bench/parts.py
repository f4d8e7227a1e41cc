"""What one deal is made of, each part alone: signatures, policy decisions, and commits."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.policy.servicer import PolicyService
from indai.protocol.keys import SigningKey, verify
from indai.v1 import policy_pb2, policy_pb2_grpc

from bench.loads import run
from bench.system import POLICY

# One deal, counted in the protocol: PROPOSE, OFFER, ACCEPT and RECEIPT are signed; each is verified where it
# arrives, ACCEPT with both its signatures. Each side derives its windows, three slots are judged, and five
# batches are committed: three by the initiator, two by the responder.
SIGNED, VERIFIED, WINDOWS, DECIDED, COMMITTED = 4, 5, 2, 3, 5
DAY_MS = 86_400_000
PAE_BYTES = 900


def signatures(count: int) -> dict[str, float]:
    """Microseconds of one signature and of one verification."""
    key, message = SigningKey.generate(), os.urandom(PAE_BYTES)
    signature = key.sign(message)
    return {
        "sign_us": _each_us(count, lambda: key.sign(message)),
        "verify_us": _each_us(count, lambda: verify(key.public_key, message, signature)),
    }


async def policy(pool: asyncpg.Pool, count: int) -> dict[str, float]:
    """Microseconds of one decision, and of the windows of a day, through the stub that the node uses."""
    now = time.time_ns() // 1_000_000
    service = PolicyService(pool, lambda: now)
    stub = policy_pb2_grpc.PolicyServiceStub(
        local_channel([Service(policy_pb2_grpc.add_PolicyServiceServicer_to_server, service)])
    )
    await stub.SetPolicy(policy_pb2.SetPolicyRequest(owner="ind.ai/alice", yaml=POLICY))
    start = now + 2 * DAY_MS
    facts = policy_pb2.Facts(
        meet=policy_pb2.MeetFacts(start_ms=start, end_ms=start + 900_000),
        peer="ind.ai/bob",
        verified=True,
        now_ms=now,
        channel="agent",
    )
    windows = policy_pb2.ListAllowedWindowsRequest(
        owner="ind.ai/alice",
        peer="ind.ai/bob",
        duration_minutes=15,
        start_ms=start,
        end_ms=start + DAY_MS,
        now_ms=now,
        verified=True,
    )
    one = policy_pb2.DecideRequest(owner="ind.ai/alice", facts=[facts])
    return {
        "decide_us": await _each_call_us(count, lambda: stub.Decide(one)),
        "windows_us": await _each_call_us(count, lambda: stub.ListAllowedWindows(windows)),
    }


async def commits(pool: asyncpg.Pool, admin: str, count: int) -> dict[str, float]:
    """Microseconds of one durable commit of one row, and of 64."""
    connection = await asyncpg.connect(admin)
    await connection.execute(
        "CREATE SCHEMA bench; CREATE TABLE bench.row (id bigserial PRIMARY KEY, bytes bytea)"
    )
    await connection.execute("GRANT USAGE ON SCHEMA bench TO indai_app; GRANT ALL ON bench.row TO indai_app")
    await connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA bench TO indai_app")
    await connection.close()
    insert = "INSERT INTO bench.row (bytes) SELECT unnest($1::bytea[])"

    def commit(rows: list[bytes]) -> Callable[[], Awaitable[Any]]:
        return lambda: pool.execute(insert, rows)

    return {
        f"commit_{size}_us": await _each_call_us(count, commit([os.urandom(PAE_BYTES)] * size))
        for size in (1, 64)
    }


def per_deal_ms(parts: dict[str, float]) -> dict[str, float]:
    """Milliseconds of one deal, if it were nothing else."""
    return {
        "signatures": (SIGNED * parts["sign_us"] + VERIFIED * parts["verify_us"]) / 1000,
        "policy": (DECIDED * parts["decide_us"] + WINDOWS * parts["windows_us"]) / 1000,
        "commits, one by one": COMMITTED * parts["commit_1_us"] / 1000,
        "commits, 64 deals in one": COMMITTED * parts["commit_64_us"] / 64 / 1000,
    }


def _each_us(count: int, work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - began) / count * 1e6


async def _each_call_us(count: int, call: Callable[[], Awaitable[Any]]) -> float:
    async def once() -> None:
        await call()

    load = await run(once, 1, count)
    return load.seconds / count * 1e6

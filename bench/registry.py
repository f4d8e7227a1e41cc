"""`python -m bench.registry`: what the registry costs, beside a gRPC echo with the same bytes.

python -m bench.registry            a few minutes; 200,000 handles
python -m bench.registry --quick    seconds: shows that it runs, and measures nothing well

The registry is a process of its own with an embedded Postgres, and so is the echo; this one is the client.

- *registrations*: signed claims, submitted at once; each is answered under a signed head.
- *resolve, cold*: a look-up over the network with every proof verified, by a client that knows nothing yet.
- *resolve, warm*: from the client's memory, as fresh as its last tail.
- *serve*: `GetHandle` answered from the registry's memory and not verified, against an echo of as many bytes.
- *proof*: the map's and the log's, in this process, at the full number of handles.
- *start*: taking over and signing a log of that many leaves, against one of 256 (the edge is stored).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

# Children are started while gRPC runs in this process; they replace themselves at once and never use it.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import asyncpg
import uvloop
from indai.client.channels import CheckedChannel, plain_channel
from indai.client.handlekeys import claim, new_agent_key
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.protocol.keys import SigningKey
from indai.protocol.sparsemap import SparseMap, map_key
from indai.storage.pool import transaction
from indai.tlog.append import Entry, append, take_over
from indai.tlog.reader import LogReader
from indai.tlog.signer import LogKeys, LogSigner
from indai.v1 import registry_pb2
from indai.v1.registry_pb2_grpc import RegistryServiceStub

from bench.database import database
from bench.loads import Load, run
from bench.peers import peer
from bench.system import Child

OWNER = "ind.ai/bench"
LEAF_BYTES = 400
AT_ONCE = (1, 16, 64)


async def measure(base: Path, claims: int, handles: int, calls: int) -> dict[str, Any]:
    """Everything, one after the other."""
    child = await Child.start({"data": str(base / "registry"), "roles": ["registry"]}, base / "registry.log")
    policy = NetworkPolicy.load(base / "registry" / "network.policy")
    channel = plain_channel(child.addresses["registry"])
    try:
        found = await _served(channel, policy, claims, calls)
    finally:
        await channel.close()
        await child.stop()
    found["proofs"] = _proofs(handles)
    async with database(base / "logs") as (pool, _):
        found["start_ms"] = {
            str(size): round(await _start_ms(pool, base / "heads", size), 1) for size in (256, handles)
        }
        found["proofs"] |= await _log_proofs(pool, handles)
    return found


async def _served(channel: CheckedChannel, policy: NetworkPolicy, claims: int, calls: int) -> dict[str, Any]:
    stub = RegistryServiceStub(channel)
    signed = [_claim(number, policy.origin) for number in range(claims)]
    waiting = iter(signed)

    async def register() -> None:
        await stub.SubmitOperation(registry_pb2.SubmitOperationRequest(operation=next(waiting).raw))

    loads = {"registrations": [await run(register, 64, claims)]}
    names = itertools.cycle([f"ind.ai/bench-{number}" for number in range(claims)])
    resolver = Resolver(stub, policy, _now_ms)

    async def cold() -> None:
        await Resolver(stub, policy, _now_ms).resolve(next(names))

    async def warm() -> None:
        await resolver.resolve("ind.ai/bench-0")

    async def serve() -> None:
        await stub.GetHandle(registry_pb2.GetHandleRequest(handle=next(names)))

    await warm()
    loads["resolve, cold and verified"] = await _levels(cold, calls)
    loads["resolve, warm"] = await _levels(warm, calls)
    await run(serve, 16, claims)  # now all of it is in the registry's memory
    loads["serve from memory"] = await _levels(serve, calls)
    request = registry_pb2.GetHandleRequest(handle="ind.ai/bench-0")
    answer = await stub.GetHandle(request)
    sizes = [request.ByteSize(), answer.ByteSize()] * 2
    async with peer("echo", sizes) as exchange:
        await run(exchange, 16, calls // 4)
        echo = [_of_calls(load) for load in await _levels(exchange, calls // 2)]
    return {
        "answer_bytes": answer.ByteSize(),
        "loads": {name: [load.figures() for load in some] for name, some in loads.items()},
        "echo_calls": [load.figures() for load in echo],
    }


async def _levels(exchange: Callable[[], Awaitable[None]], calls: int) -> list[Load]:
    return [await run(exchange, at_once, calls) for at_once in AT_ONCE]


def _of_calls(exchanges: Load) -> Load:
    """One exchange of the echo is two calls, one after the other."""
    each = [ms / 2 for ms in exchanges.latencies_ms for _ in range(2)]
    return Load(exchanges.concurrency, each, exchanges.seconds)


def _claim(number: int, origin: str) -> Any:
    now = _now_ms()
    agent = new_agent_key(SigningKey.generate().public_key, now)
    keys, handle = [SigningKey.generate(), SigningKey.generate()], f"ind.ai/bench-{number}"
    return claim(handle, origin, keys, now_ms=now, agent_keys=[agent], node="ind.ai/home")


def _proofs(handles: int) -> dict[str, Any]:
    """Of the map with that many handles: bytes, and microseconds to make one."""
    tree = SparseMap(lambda _: None)
    for number in range(handles):
        tree.put(map_key(f"ind.ai/user-{number}"), number.to_bytes(32, "big"))
    asked = [map_key(f"ind.ai/user-{number}") for number in range(0, handles, max(1, handles // 500))]
    began = time.perf_counter()
    proofs = [tree.prove(key) for key in asked]
    seconds = time.perf_counter() - began
    sizes = [len(proof.bitmap) + 32 * len(proof.siblings) for proof in proofs]
    return {
        "handles": handles,
        "map_bytes": round(sum(sizes) / len(sizes)),
        "map_us": round(1e6 * seconds / len(asked), 1),
    }


async def _start_ms(pool: asyncpg.Pool, heads: Path, size: int) -> float:
    """Milliseconds to take over and sign a log of so many leaves, all of them hashed before."""
    keys = _keys(size)
    writer = await take_over(pool, keys.origin)
    for start in range(0, size, 1_024):
        numbers = range(start, min(size, start + 1_024))
        entries = [Entry(OWNER, number.to_bytes(32, "big"), 2, bytes(LEAF_BYTES), 0) for number in numbers]
        async with transaction(pool, [OWNER]) as connection:
            await append(connection, writer, entries)
    await LogSigner.open(pool, keys, heads, _now_ms)
    began = time.perf_counter()
    await take_over(pool, keys.origin)
    await LogSigner.open(pool, keys, heads, _now_ms)
    return 1_000 * (time.perf_counter() - began)


async def _log_proofs(pool: asyncpg.Pool, size: int) -> dict[str, Any]:
    reader, count = LogReader(pool, _keys(size).origin), 200
    began = time.perf_counter()
    for number in range(count):
        proof = await reader.inclusion_proof(number * size // count, size)
    seconds = time.perf_counter() - began
    return {"log_bytes": 32 * len(proof), "log_us": round(1e6 * seconds / count, 1)}


def _keys(size: int) -> LogKeys:
    origin = f"bench-{size}.example/registry"
    return LogKeys(
        origin, SigningKey.from_seed(bytes(32)), f"{origin}/clock", SigningKey.from_seed(bytes(32))
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def render(found: dict[str, Any]) -> str:
    """The table, 80 columns wide."""
    echo = {row["concurrency"]: row["per_second"] for row in found["echo_calls"]}
    lines = [f"{'':37}{'at once':>8}{'per s':>9}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}"]
    for name, rows in [*found["loads"].items(), ("gRPC echo, the same bytes", found["echo_calls"])]:
        for number, row in enumerate(rows):
            ratio = row["per_second"] / echo[row["concurrency"]]
            lines.append(
                f"{'' if number else name:37}{row['concurrency']:>8}{row['per_second']:>9.1f}"
                f"{row['p50_ms']:>9.2f}{row['p99_ms']:>9.2f}{ratio:>8.2f}"
            )
    proofs, start = found["proofs"], found["start_ms"]
    lines += [
        "ratio: calls a second over the echo's at the same concurrency",
        f"An answer has {found['answer_bytes']} bytes.",
        f"At {proofs['handles']:,} handles:",
        f"the map's proof {proofs['map_bytes']} bytes, {proofs['map_us']} us;",
        f"the log's proof {proofs['log_bytes']} bytes, {proofs['log_us']} us.",
        *(f"Start with {int(size):,} leaves: {ms} ms." for size, ms in start.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.registry")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="indai-bench-"))
    base.chmod(0o711)  # Postgres' own account passes through
    plan = (64, 512, 64) if arguments.quick else (2_048, 200_000, 2_048)
    try:
        found = uvloop.run(measure(base, *plan))
    except BaseException:
        print(f"The logs of the processes are in {base}.", file=sys.stderr)
        raise
    shutil.rmtree(base, ignore_errors=True)
    print(json.dumps(found) if arguments.json else render(found))


if __name__ == "__main__":
    main()

"""A registry in a process of its own that claims handles, several at a time, and prints what was answered."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from indai.client.handlekeys import claim
from indai.protocol.keys import SigningKey
from indai.registry.service import Registry
from indai.storage.pool import open_pool
from indai.tlog.signer import LogKeys


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


async def claim_for_ever(registry: Registry, name: str) -> None:
    number = 0
    while True:
        number += 1
        operation = claim(f"ind.ai/{name}-{number}", registry.origin, [key("root")], now_ms=now_ms())
        handle, _ = await registry.submit(operation.raw)
        line = {"handle": handle, "mid": operation.mid.hex(), "time_ms": now_ms()}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


async def main(dsn: str, directory: Path) -> None:
    keys = LogKeys("ind.ai/registry", key("log"), "ind.ai/registry/clock", key("clock"))
    pool = await open_pool(dsn)
    async with Registry.open(pool, keys, directory, now_ms) as registry:
        await asyncio.gather(*(claim_for_ever(registry, name) for name in ("one", "two", "three")))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

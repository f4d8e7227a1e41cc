"""Channels in a process of their own, to be killed: `program.py PLAN`, a file of JSON. Says where it listens
in the file `ready`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from indai.client.channels import plain_channel
from indai.edge.edge import EdgePlan, edge
from indai.node.http_server import HttpServer
from indai.storage.pool import open_pool
from indai.v1.conversation_pb2_grpc import ConversationServiceStub


async def main(path: Path, plan: dict[str, Any]) -> None:
    async def secret(reference: str) -> str:
        return str(plan["secrets"][reference])

    async with await open_pool(plan["database"], max_size=5) as pool:
        built = EdgePlan(
            pool=pool,
            conversation=ConversationServiceStub(plain_channel(plan["talk"])),
            secret=secret,
            key=b"k" * 32,
            clock=lambda: time.time_ns() // 1_000_000,
            media=path.parent / "media",
            authority="ind.ai",
            url=lambda: "",
        )
        async with edge(built) as role:
            server = await HttpServer.start("127.0.0.1:0", role.routes)
            (path.parent / "ready.new").write_text(f"http://{server.address}")
            (path.parent / "ready.new").rename(path.parent / "ready")
            await asyncio.Event().wait()


PLAN = Path(sys.argv[1])
asyncio.run(main(PLAN, json.loads(PLAN.read_text())))

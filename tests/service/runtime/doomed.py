"""Takes one message and is killed while a provider thinks: `doomed.py`, with a JSON plan on stdin."""

from __future__ import annotations

import asyncio
import json
import sys

from indai.storage.pool import open_pool
from indai.v1 import conversation_pb2 as pb

from tests.service.runtime.cell import ALICE, cell, owner


async def main() -> None:
    plan = json.loads(sys.stdin.readline())
    pool = await open_pool(plan["dsn"], max_size=4)
    async with cell(pool, config=plan["config"], epoch=1) as here:
        request = pb.SendMessageRequest(message=owner(ALICE, plan["text"]))
        async for response in here.stub.SendMessage(request):
            print(response.event.turn_id, flush=True)


if __name__ == "__main__":
    asyncio.run(main())

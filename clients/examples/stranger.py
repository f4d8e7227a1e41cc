"""A whole agent: `python stranger.py ind.ai/zoe ind.ai/bob`, beside `indai up` with both handles claimed."""

import asyncio
import sys
from datetime import timedelta

from indai.client.agent import Agent
from indai.client.outcomes import Question
from indai.protocol.errors import IndaiError


async def main(handle: str, peer: str) -> None:
    async with Agent.local(handle) as me:

        @me.on("meet")
        def incoming(question: Question) -> bool:
            return question.duration_minutes <= 60

        serving = asyncio.create_task(me.serve())
        outcome = await me.meet(peer, minutes=30, within=timedelta(days=7), about="Hello")
        print(outcome.state.name, outcome.start or outcome.words, flush=True)
        await serving


try:
    asyncio.run(main(*sys.argv[1:3]))
except IndaiError as error:
    sys.exit(str(error))  # one sentence, and what to do next

"""A whole agent: answers what it is asked, asks for a meeting itself, and awaits what comes of it.

pip install .
indai up                                                   # in a terminal of its own
indai handle claim ind.ai/zoe; indai handle claim ind.ai/bob
python stranger.py ind.ai/zoe ind.ai/bob
"""

import asyncio
import sys
from datetime import timedelta

from indai.client.agent import Agent
from indai.client.outcomes import Question


async def main(handle: str, peer: str) -> None:
    async with Agent.local(handle) as me:

        @me.on("meet")
        def incoming(question: Question) -> bool:
            return question.duration_minutes <= 60

        serving = asyncio.create_task(me.serve())
        outcome = await me.meet(peer, minutes=30, within=timedelta(days=7), about="Hello")
        print(outcome.state.name, outcome.start or outcome.words, flush=True)
        await serving


asyncio.run(main(*sys.argv[1:3]))

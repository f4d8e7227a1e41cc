"""A bot that decides for its owner what the policy leaves open: `python approve.py ind.ai/bob`."""

import asyncio
import sys

from indai.client.agent import Agent
from indai.client.outcomes import Question


async def main(handle: str) -> None:
    async with Agent.local(handle) as me:

        @me.on("meet")
        def short_ones(question: Question) -> bool | None:
            print(question.terms, flush=True)
            if question.duration_minutes <= 60:
                return True
            return None if question.peer == "ind.ai/carol" else False  # carol's are left to the owner

        await me.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

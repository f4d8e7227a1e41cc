"""Meet somebody: `python meet.py ind.ai/alice ind.ai/bob`."""

import asyncio
import sys
from datetime import timedelta

from indai.client.agent import Agent
from indai.protocol.errors import IndaiError


async def main(handle: str, peer: str) -> None:
    async with Agent.local(handle) as me:
        outcome = await me.meet(peer, minutes=30, within=timedelta(days=7), about="Lunch")
    if outcome.agreed:
        print(f"Agreed with {outcome.peer}: {outcome.start:%a %d %b %H:%M} UTC")
    elif outcome.in_doubt:
        print(f"{outcome.peer} has not confirmed: me.withdraw({outcome.thread!r}) takes it back")
    else:
        print(f"No meeting: {outcome.reason or outcome.state.name}. {outcome.words}")


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:3]))
    except IndaiError as error:
        sys.exit(str(error))  # one sentence, and what to do next

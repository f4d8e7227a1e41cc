"""Scene 5: node B dies in the middle of a negotiation, twice, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio

from indai.cli.demo.agreement import both_signed, in_both_calendars, in_both_ledgers
from indai.cli.demo.world import AGREED, World, ask, follow, messages, signed
from indai.v1 import owner_pb2

KILLS = (
    ("after-offer", "Pick a present", "it has signed its OFFER and told nobody"),
    ("before-receipt", "Hand over keys", "Alice has signed, its RECEIPT is not written"),
)


async def killed(world: World) -> None:
    """SIGKILL at two points; each thread completes with exactly one commitment."""
    world.stage.scene("Node B is killed (SIGKILL) in the middle of a negotiation, and restarted")
    for point, title, words in KILLS:
        await _killed_at(world, point, title, words)


async def _killed_at(world: World, point: str, title: str, words: str) -> None:
    stage, node = world.stage, world.node_b
    await node.stop()
    await node.start(kill_at=point)
    async with world.alice() as alice:
        asked = asyncio.create_task(ask(alice, world.setting, 30, title))
        try:
            stage.check(await node.killed(), f'"{title}": process {node.pid} is dead; {words}')
            await node.start()
            stage.say(f"restarted as process {node.pid}")
            thread, ms = await asked
        finally:
            asked.cancel()
        world.done(title, thread, ms, interrupted=True)
        stage.check(thread.state == AGREED, f"the thread completed {ms / 1000:.1f} s after it was begun")
        ours = await messages(alice, thread.thread_id)
        async with world.bob() as bob:
            other, _ = await follow(bob, thread.thread_id)
            theirs = await messages(bob, thread.thread_id)
            about = await bob.stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=500))
        for name in ("OFFER", "ACCEPT", "RECEIPT"):
            signed(ours, name), signed(theirs, name)
        same = [each for each in about.threads if each.title == title]
        stage.check(
            len(same) == 1 and same[0].commitment_mid == thread.commitment_mid,
            "exactly one thread, one OFFER, one ACCEPT, one RECEIPT on both sides",
        )
        await both_signed(world, signed(ours, "ACCEPT"), signed(theirs, "ACCEPT"))
        in_both_ledgers(world, thread, other)
        in_both_calendars(world, thread, signed(ours, "ACCEPT"))

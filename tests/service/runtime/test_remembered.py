"""What agents say and hear is kept: opinions for each person, summaries, an archive, and all of it can go."""

from __future__ import annotations

import json
from typing import Any

from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.v1 import conversation_pb2 as pb
from indai.v1 import memory_pb2, memory_pb2_grpc

from tests.conftest import Database
from tests.service.llm.upstream import Reply, Upstream
from tests.service.memory.rooms import Room
from tests.service.runtime.cell import ALICE, BOB, Cell, cell, owner
from tests.service.runtime.gear import one_provider


def memory_of(database: Database) -> memory_pb2_grpc.MemoryServiceAsyncStub:
    room = Room(database.pool)
    add = memory_pb2_grpc.add_MemoryServiceServicer_to_server
    return memory_pb2_grpc.MemoryServiceStub(local_channel([Service(add, room.service)]))


def private(who: str) -> memory_pb2.Access:
    return memory_pb2.Access(tenant=who, door=memory_pb2.DOOR_PRIVATE)


async def opinions(memory: Any, who: str) -> list[str]:
    """What the agent thinks, once memory was told."""
    found: list[memory_pb2.Opinion] = []
    while not found:
        found = list(
            (await memory.ListOpinions(memory_pb2.ListOpinionsRequest(access=private(who)))).opinions
        )
    assert all(each.source for each in found)  # so that forgetting the turn reaches them
    return [f"{each.topic}: {each.stance}" for each in found]


async def consistency(here: Cell, turn_id: str) -> list[dict[str, str]]:
    trace = (await here.stub.GetTurn(pb.GetTurnRequest(turn_id=turn_id))).trace_json
    found: list[dict[str, str]] = json.loads(trace)["consistency"]
    return found


async def test_what_the_agent_thinks_is_kept_for_each_person_and_holds(database: Database) -> None:
    memory = memory_of(database)
    replies = [
        Reply(text=("I really like Goa.",)),
        Reply(text=("Good. ", "I'd avoid Goa.")),
        Reply(text=("I'd avoid Goa.",)),
        Reply(text=("I'd avoid Goa because the monsoon has begun.",)),
    ]
    async with (
        Upstream("openai", replies).serving() as up,
        cell(database.pool, config=one_provider(up), memory=memory) as here,
    ):
        await here.say(owner(ALICE, "which place do you like for a holiday?"))
        assert await opinions(memory, ALICE) == ["goa: I really like Goa."]
        async with database.pool.acquire() as connection:
            await connection.execute("SELECT set_config('indai.owners', $1, false)", ALICE)
            # Long ago, and out of the last messages: only memory knows it.
            await connection.execute("UPDATE runtime.messages SET text = ''")
        again = await here.say(owner(ALICE, "shall we book the trip to Goa?"))
        assert again.text == "Good. As I said before: “I really like Goa.” I stay with that."
        assert again.sentences[-1] == "As I said before: “I really like Goa.” I stay with that."
        assert await consistency(here, again.turn_id) == [{"kind": "opinion", "did": "kept", "topic": "goa"}]
        assert "goa: I really like Goa." in up.seen[-1].raw.decode()
        other = await here.say(owner(BOB, "shall we book the trip to Goa?"))
        assert other.text == "I'd avoid Goa."  # nobody else is held to what alice was told
        changed = await here.say(owner(ALICE, "why should we not go there?"))
        assert changed.text.startswith("Before, I said “I really like Goa.”")
        while await opinions(memory, ALICE) == ["goa: I really like Goa."]:
            pass
        assert await opinions(memory, ALICE) == ["goa: I'd avoid Goa because the monsoon has begun."]

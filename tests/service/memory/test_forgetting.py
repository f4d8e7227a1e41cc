"""Forgetting: what was asked for is gone everywhere, and nothing else is."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from indai.memory.access import user_binding
from indai.memory.queue import Job, Task
from indai.protocol.errors import InvalidInput, Refused
from indai.v1 import memory_pb2 as pb

from tests.service.memory.rooms import (
    BOB,
    CONTEXT,
    DAY,
    HOUR,
    NOW,
    Room,
    admin,
    agent,
    fan,
    private,
    scope,
)

PLANTS = ("rose", "lily", "fern", "moss", "iris", "reed", "vine", "palm")


async def everything(room: Room) -> str:
    """Every row of the schema as text, with row-level security out of the way for a moment."""
    connection = await asyncpg.connect(room.admin_url)
    tables = await connection.fetch(
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = 'memory' AND relkind = 'r'"
    )
    text = ""
    away = connection.transaction()
    await away.start()
    for row in tables:
        await connection.execute(f"ALTER TABLE memory.{row['relname']} NO FORCE ROW LEVEL SECURITY")
        text += str(await connection.fetch(f"SELECT t::text FROM memory.{row['relname']} t"))  # noqa: S608
    await away.rollback()
    await connection.close()
    return text


@pytest.fixture
async def full(room: Room) -> Room:
    await room.remember(private(), "I love zebras", "the weather is fine")
    room.now += HOUR
    await room.remember(private(), "I love okapis", session="later")
    await room.remember(agent(BOB), "the quagga is late", session="with bob")
    await room.remember(private(), "bob likes tea", scope=scope("relationship", BOB), session="about bob")
    await room.run_jobs()
    return room


async def test_by_key_goes_what_said_it_with_its_vectors_and_edges(full: Room) -> None:
    assert "zebra" in await everything(full)
    answer = await full.forget(private(), key="preference")
    assert answer.remaining == 0
    assert {name: answer.removed[name] for name in ("chunks", "facts", "relations")} == {
        "chunks": 2,
        "facts": 2,
        "relations": 2,
    }
    left = await everything(full)
    assert not {word for word in ("zebra", "okapi") if word in left}
    assert "weather" in left
    assert "quagga" in left


async def test_a_fact_that_another_turn_has_said_too_outlives_the_first(full: Room) -> None:
    await full.remember(private(), "I love okapis", session="again")
    await full.forget(private(), session="later")
    (fact,) = await full.facts(private())
    assert (fact.value_json, fact.mentions) == ('"okapis"', 1)


async def test_by_person_goes_their_scope_and_what_they_said_anywhere(full: Room) -> None:
    answer = await full.forget(private(), person=BOB)
    assert answer.remaining == 0
    left = await everything(full)
    assert "quagga" not in left
    assert "tea" not in left
    assert BOB not in left
    assert "zebra" in left


async def test_an_administrator_forgets_an_end_user_without_reading_them(room: Room, database: Any) -> None:
    for who in ("fan-1", "fan-2"):
        await room.remember(fan(who), f"I love walrus of {who}")
        entries = [pb.WorkingEntry(name="plan", value_json=f'"narwhal of {who}"')]
        await room.service.SetWorkingMemory(
            pb.SetWorkingMemoryRequest(access=fan(who), entries=entries), CONTEXT
        )
    await room.run_jobs()
    with pytest.raises(Exception, match="no memory scope"):
        await room.facts(admin(), scopes=[scope("user_binding", user_binding("fan-1", "shop"))])
    assert (await room.forget(admin(), person="fan-1")).remaining == 0
    left = await everything(room)
    assert "of fan-1" not in left
    assert "walrus of fan-2" in left
    assert "narwhal of fan-2" in left


async def test_an_end_user_forgets_their_own_and_nobody_elses(room: Room) -> None:
    for who in ("fan-1", "fan-2"):
        await room.remember(fan(who), "I love walrus")
    await room.forget(fan("fan-1"), person="fan-1")
    assert not await room.facts(fan("fan-1"))
    await room.forget(fan("fan-1"), person="fan-2")
    assert await room.facts(fan("fan-2"))


async def test_by_time_goes_what_was_said_in_it(full: Room) -> None:
    until = pb.ForgetRequest()
    until.end_time.FromMilliseconds(NOW + HOUR)
    await full.forget(private(), end_time=until.end_time)
    turns = (await full.service.ListTurns(pb.ListTurnsRequest(access=private()), CONTEXT)).turns
    assert [one.text for one in turns] == ["I love okapis"]
    assert [fact.value_json for fact in await full.facts(private(), all_states=True)] == ['"okapis"']


async def test_by_id_goes_one_memory(full: Room) -> None:
    hit = (await full.recall(private(), "weather")).hits[0]
    answer = await full.forget(private(), id=hit.id)
    assert dict(answer.removed) == {"chunks": 1}
    assert hit.id not in {one.id for one in (await full.recall(private(), "weather")).hits}


async def test_a_scope_goes_whole_and_counting_first_changes_nothing(full: Room) -> None:
    counted = await full.forget(private(), scope=scope("private"), dry_run=True)
    assert dict(counted.removed) == {"chunks": 3, "facts": 2}
    assert "zebra" in await everything(full)
    answer = await full.forget(private(), scope=scope("private"))
    assert (answer.removed["chunks"], answer.remaining) == (3, 0)
    left = await everything(full)
    assert "zebra" not in left
    assert "quagga" in left


async def test_who_leaves_is_forgotten_in_every_scope_and_nobody_else(full: Room) -> None:
    await full.remember(fan("fan-1"), "I love walrus")
    await full.remember(private("ind.ai/carol"), "I love gnus")
    await full.run_jobs()
    with pytest.raises(InvalidInput, match="stands alone"):
        await full.forget(admin(), everything=True, key="plant")
    done = await full.forget(admin(), everything=True)
    assert (done.removed["scopes"], done.remaining) == (3, 0)
    left = await everything(full)
    for gone in ("zebra", "okapi", "quagga", "tea", "walrus"):
        assert gone not in left
    assert "gnus" in left
    assert not (await full.forget(admin(), everything=True)).removed


async def test_nothing_named_forgets_nothing_and_visitors_forget_nothing(full: Room) -> None:
    with pytest.raises(InvalidInput):
        await full.forget(private())
    with pytest.raises(Refused):
        await full.forget(agent(BOB), person=BOB)


async def test_a_summary_goes_with_its_source_and_is_made_anew_without_it(room: Room, database: Any) -> None:
    texts = [f"the garden needs {plant} and water" for plant in PLANTS]
    await room.remember(
        private(), *texts, "a secret axolotl lives in the garden", *(f"pond {n}" for n in range(20))
    )
    room.now += 2 * DAY
    consolidate = Job(Task.CONSOLIDATE, *await _session(room))
    await room.work.consolidate(consolidate)
    request = pb.RecallRequest(access=private(), query="garden", kinds=[pb.MEMORY_KIND_SUMMARY])
    assert len((await room.service.Recall(request, CONTEXT)).hits) == 1
    axolotl = (await room.recall(private(), "axolotl")).hits[0]
    assert (await room.forget(private(), id=axolotl.id)).remaining == 0
    assert "axolotl" not in await everything(room)
    assert not (await room.service.Recall(request, CONTEXT)).hits
    await room.work.consolidate(consolidate)
    (summary,) = (await room.service.Recall(request, CONTEXT)).hits
    assert "axolotl" not in summary.text


async def _session(room: Room) -> Any:
    row = await room.pool.fetchrow("SELECT headers FROM memory.pgqueuer WHERE entrypoint = 'consolidate'")
    from json import loads
    from uuid import UUID

    headers = loads(row["headers"])
    return UUID(headers["scope"]), UUID(headers["session"])


async def test_a_job_that_waits_finds_nothing_of_what_was_forgotten(room: Room) -> None:
    await room.remember(private(), *(f"maybe secret {n}" for n in range(10)))
    rows = await room.pool.fetch("SELECT entrypoint, payload FROM memory.pgqueuer ORDER BY id")
    jobs = [Job.parse(row["entrypoint"], row["payload"]) for row in rows]
    await room.forget(private(), scope=scope("private"))
    assert await room.pool.fetchval("SELECT count(*) FROM memory.pgqueuer") == 0
    for job in jobs:
        await room.work.handlers[job.task](job)  # picked by a worker before it was removed
    assert await room.pool.fetchval("SELECT count(*) FROM memory.embeddings") == 0
    assert not (await room.recall(private(), "secret")).hits


async def test_a_turn_that_is_forgotten_while_its_facts_are_looked_for_leaves_none(room: Room) -> None:
    await room.remember(private(), *(f"maybe secret {n}" for n in range(10)))
    real = room.extractor.extract

    async def slow(said: Any, context: Any) -> Any:
        if said.text == "maybe secret 5":
            turns = (await room.service.ListTurns(pb.ListTurnsRequest(access=private()), CONTEXT)).turns
            await room.forget(private(), id=turns[0].id)
        return await real(said, context)

    room.extractor.extract = slow
    rows = await room.pool.fetch("SELECT payload FROM memory.pgqueuer WHERE entrypoint = 'extract'")
    job = Job.parse("extract", rows[0]["payload"])
    with pytest.raises(Exception, match="in 0 s"):
        await room.work.extract(job)
    room.extractor.extract = real
    await room.work.extract(job)
    values = {fact.value_json for fact in await room.facts(private(), all_states=True)}
    assert values == {f'"secret {n}"' for n in range(1, 10)}


async def test_what_was_forgotten_may_be_said_again(full: Room) -> None:
    await full.forget(private(), scope=scope("private"))
    again = await full.remember(private(), "I love zebras")
    assert (again.stored, len(again.facts)) == (1, 1)

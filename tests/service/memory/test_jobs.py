"""Background work: durable, run again without harm, and visible when it fails for good."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from indai.memory.embedding import LocalEmbedder
from indai.memory.queue import Job, Task, make_worker
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import Schema, migrate
from indai.storage.pool import DatabaseUrls, open_pool
from indai.storage.queue import Worker
from indai.v1 import memory_pb2 as pb

from tests.service.memory.rooms import BOB, CONTEXT, DAY, Letters, Room, private, scope


@pytest.fixture
async def working(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[Room], Worker]]:
    """Starts workers who are told of all there is to do: none looks by itself."""
    monkeypatch.setattr("indai.storage.queue.LOOK_S", 3600.0)
    workers = []

    def start(room: Room) -> Worker:
        worker = make_worker(room.pool, room.work.handlers, retry_s=0.0)
        worker.start()
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        await worker.close()


async def jobs(room: Room, **settings: Any) -> list[pb.Job]:
    return list((await room.service.ListJobs(pb.ListJobsRequest(access=private(), **settings), CONTEXT)).jobs)


async def until(room: Room, done: Callable[[list[pb.Job]], bool]) -> list[pb.Job]:
    async with asyncio.timeout(60):
        while not done(found := [job for job in await jobs(room) if job.task != "consolidate"]):
            await asyncio.sleep(0.02)
    return found


async def test_the_worker_embeds_and_extracts_what_was_stored(
    room: Room, working: Callable[[Room], Worker]
) -> None:
    working(room)
    await room.remember(private(), *(f"maybe color {n}" for n in range(12)))
    await until(room, lambda found: not found)
    assert await room.pool.fetchval("SELECT count(*) FROM memory.scope_models WHERE model = 'letters'") == 1
    answer = await room.recall(private(), "color 3")
    assert answer.model == "letters"
    assert len(await room.facts(private(), state=pb.FACT_STATE_PENDING)) == 12


async def test_work_that_can_be_done_later_is_tried_again_and_nothing_is_doubled(
    room: Room, working: Callable[[Room], Worker]
) -> None:
    real, failures = room.extractor.extract, 3

    async def flaky(said: Any, context: Any) -> Any:
        nonlocal failures
        if said.text.endswith("7") and failures:
            failures -= 1
            # The end of another job would wake the worker too.
            await until(room, lambda found: all(job.task != "embed" for job in found))
            raise Unavailable(Reason.UNREACHABLE, "The model is out of reach.")
        return await real(said, context)

    room.extractor.extract = flaky
    working(room)
    await room.remember(private(), *(f"maybe color {n}" for n in range(12)))
    await until(room, lambda found: not found)
    assert failures == 0
    facts = await room.facts(private(), all_states=True)
    assert [fact.mentions for fact in facts] == [1] * 12


async def test_work_that_fails_for_good_is_shown_without_content_and_can_be_retried(
    room: Room, working: Callable[[Room], Worker]
) -> None:
    real = room.extractor.extract

    async def broken(said: Any, context: Any) -> Any:
        raise RuntimeError(f"cannot read {said.text}")

    room.extractor.extract = broken
    working(room)
    await room.remember(private(), *(f"maybe zebra {n}" for n in range(12)))
    (failed,) = await until(room, lambda found: [job.state for job in found] == ["failed"])
    assert (failed.task, failed.reason) == ("extract", "INTERNAL")
    assert await jobs(room, failed_only=True) == [failed]
    rows = await room.pool.fetch("SELECT traceback FROM memory.pgqueuer_log WHERE traceback IS NOT NULL")
    assert rows
    assert "zebra" not in str(rows)
    room.extractor.extract = real
    other = pb.RetryJobsRequest(access=private(BOB))
    assert (await room.service.RetryJobs(other, CONTEXT)).requeued == 0
    again = pb.RetryJobsRequest(access=private(), ids=[failed.id])
    assert (await room.service.RetryJobs(again, CONTEXT)).requeued == 1
    await until(room, lambda found: not found)
    assert len(await room.facts(private(), state=pb.FACT_STATE_PENDING)) == 12


async def test_a_job_killed_half_way_is_done_by_running_it_again(room: Room) -> None:
    await room.remember(private(), *(f"maybe color {n}" for n in range(80)))
    assert isinstance(room.embedder, Letters)
    real = room.embedder.embed

    async def killed(texts: Any, *, query: bool) -> Any:
        if await room.pool.fetchval("SELECT count(*) FROM memory.scope_models WHERE model = 'letters'"):
            raise AssertionError("finished before it was killed")
        if len(room.embedder.asked) >= 32:  # type: ignore[union-attr]
            raise asyncio.CancelledError
        return await real(texts, query=query)

    room.embedder.embed = killed  # type: ignore[method-assign]
    job = Job(Task.EMBED, await room.pool.fetchval("SELECT scope FROM memory.scope_models"))
    with pytest.raises(asyncio.CancelledError):
        await room.work.embed(job)
    room.embedder.embed = real  # type: ignore[method-assign]
    await room.work.embed(job)
    await room.work.embed(job)
    assert len(room.embedder.asked) == 80
    assert (await room.recall(private(), "color 70")).model == "letters"


async def test_another_model_embeds_everything_anew_and_old_vectors_go(room: Room) -> None:
    await room.remember(private(), "the dentist is Dr. Rao", "the car is red")
    await room.run_jobs()
    changed = Room(room.pool, embedder=Letters("letters two"))
    before = await changed.recall(private(), "dentist")
    assert [hit.text for hit in before.hits][:1] == ["the dentist is Dr. Rao"]  # by its words
    await changed.work.resume()
    assert await changed.run_jobs(Task.EMBED) == 1
    models = await room.pool.fetch("SELECT model FROM memory.scope_models")
    assert [row["model"] for row in models] == ["letters two"]
    await changed.work.resume()
    assert await changed.run_jobs(Task.EMBED) == 0


async def test_a_vector_of_another_width_is_refused_and_nothing_is_stored(room: Room) -> None:
    await room.remember(private(), "the car is red")
    job = Job(Task.EMBED, await room.pool.fetchval("SELECT scope FROM memory.scope_models"))
    lying = Room(room.pool, embedder=Letters("wide", width=27))
    with pytest.raises(InvalidInput, match="26 numbers, not 27"):
        await lying.work.embed(job)
    assert (await room.recall(private(), "car")).hits[0].text == "the car is red"


async def test_with_the_model_missing_words_are_searched_and_the_job_says_why(
    room: Room, working: Callable[[Room], Worker]
) -> None:
    embedder = LocalEmbedder(("no-such-weights.bin", "00"))
    without = Room(room.pool, embedder=embedder)
    worker = working(without)
    await without.remember(private(), "the dentist is Dr. Rao")
    (failed,) = await until(without, lambda found: [job.state for job in found] == ["failed"])
    assert (failed.task, failed.reason) == ("embed", "UNSUPPORTED")
    answer = await without.recall(private(), "dentist")
    assert answer.hits[0].text == "the dentist is Dr. Rao"
    assert "no-such-weights" in answer.notes[0]
    await worker.close()
    await room.work.resume()  # a start with the model there
    assert await room.run_jobs(Task.EMBED) == 1
    embedder.close()


async def test_a_session_that_is_not_idle_yet_waits_and_an_idle_one_is_summarised(room: Room) -> None:
    texts = [f"we talked about the garden and plant {n}" for n in range(24)]
    await room.remember(private(), *texts, "maybe blue")
    row = await room.pool.fetchrow("SELECT payload FROM memory.pgqueuer WHERE entrypoint = 'consolidate'")
    job = Job.parse("consolidate", row["payload"])
    with pytest.raises(Exception, match="in 864"):
        await room.work.consolidate(job)
    await room.run_jobs()
    assert len(await room.facts(private(), state=pb.FACT_STATE_PENDING)) == 1
    room.now += 31 * DAY
    await room.work.consolidate(job)
    await room.work.consolidate(job)
    found = await room.recall(private(), "garden plant", kinds=[pb.MEMORY_KIND_SUMMARY])
    assert len(found.hits) == 1
    assert set(found.hits[0].text.removeprefix("somebody: ").split("\nsomebody: ")) <= set(texts)
    assert await room.facts(private(), all_states=True) == []  # nobody said it again for a month


async def test_a_scope_that_grows_large_is_found_by_postings_and_graph_as_before(room: Room) -> None:
    texts = [f"parcel {n} went to city {n % 7} on day {n % 30}" for n in range(300)]
    await room.remember(private(), *texts)
    real = LocalEmbedderLike()
    large = Room(room.pool, embedder=real)
    await large.run_jobs(Task.EMBED)
    before = await large.recall(private(), "parcel 123 city 4")
    identifier = await room.pool.fetchval("SELECT scope FROM memory.scope_models")
    await large.work.promote(Job(Task.PROMOTE, identifier))
    scopes = (await large.service.ListScopes(pb.ListScopesRequest(access=private()), CONTEXT)).scopes
    assert [(one.chunks, one.large) for one in scopes] == [(300, True)]
    after = await large.recall(private(), "parcel 123 city 4")
    assert [hit.text for hit in after.hits[:5]] == [hit.text for hit in before.hits[:5]]
    assert abs(after.hits[0].score - before.hits[0].score) < 1e-3
    await large.remember(private(), "parcel 1234567 went home")  # written both ways from now on
    await large.run_jobs(Task.EMBED)
    assert (await large.recall(private(), "parcel 1234567")).hits[0].text == "parcel 1234567 went home"
    assert (await large.forget(private(), scope=scope("private"))).remaining == 0


class LocalEmbedderLike(Letters):
    """As wide as the graph."""

    def __init__(self) -> None:
        super().__init__("letters 384", 384)

    async def embed(self, texts: Any, *, query: bool) -> list[list[float]]:
        short = await super().embed(texts, query=query)
        digits = [[float(text.count(str(n))) for n in range(10)] for text in texts]
        return [(one + more + [0.0] * 384)[:384] for one, more in zip(short, digits, strict=True)]


async def test_a_worker_that_is_stopped_while_the_database_is_lost_stops(
    room: Room, working: Callable[[Room], Worker]
) -> None:
    worker = working(room)
    await room.remember(private(), "before")
    await until(room, lambda found: not found)
    room.pool.terminate()
    assert worker._task is not None
    worker._task.cancel()
    await asyncio.wait({worker._task}, timeout=60)
    assert worker._task.cancelled()


async def test_after_a_restart_of_the_database_work_goes_on(server_home: Path) -> None:
    server = EmbeddedPostgres(server_home / "postgres")
    urls = DatabaseUrls.from_server(await server.start())
    await migrate(urls.admin, [Schema("memory", "indai.memory")])
    pool = await open_pool(urls.app)
    room = Room(pool)
    worker = make_worker(pool, room.work.handlers, retry_s=0.0)
    worker.start()
    await room.remember(private(), "before")
    await until(room, lambda found: not found)
    assert server.pid
    os.kill(server.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while server.pid is not None:
            await asyncio.sleep(0.02)
    with pytest.raises(IndaiError) as refused:
        await room.remember(private(), "during")
    assert refused.value.reason is Reason.DATABASE_UNAVAILABLE
    await server.start()
    await room.remember(private(), "during", "after")
    await until(room, lambda found: not found)
    turns = (await room.service.ListTurns(pb.ListTurnsRequest(access=private()), CONTEXT)).turns
    assert [one.text for one in turns] == ["before", "during", "after"]
    assert isinstance(room.embedder, Letters)
    assert sorted(room.embedder.asked) == ["after", "before", "during"]
    await worker.close()
    pool.terminate()
    await server.stop()

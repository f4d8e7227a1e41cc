"""Work that outlives a call: done at least once, told once it ends, given up in the open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from indai.protocol.errors import NotFound, Reason, Unavailable
from indai.storage.pool import transaction
from indai.storage.queue import Listening, Worker
from indai.tools.approvals import LIFETIME_MS, Approvals
from indai.tools.jobs import MAX_ATTEMPTS, Job, Jobs
from indai.tools.jobwork import JobWork
from indai.tools.outcomes import sentence
from indai.tools.queue import make_worker
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Caller, Outcome, Status

from tests.service.tools.conftest import ACT, ALICE, OWNER, SEALER, Bench, Made, call, closed, tool

FIRST = (1 << 62, UUID(int=(1 << 128) - 1))
THREAD = {"type": "object", "properties": {"state": {"type": "string", "x-importance": 3}}}


@dataclass
class Shop:
    """A toolbox with jobs, whose news the test hears."""

    bench: Bench
    thread: dict[str, Any] = field(default_factory=lambda: {"state": "waiting", "running": True})
    news: list[tuple[str, Outcome]] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    answers: Any = field(default_factory=dict)

    def open(self, *tools: Made) -> NodeToolbox:
        self.jobs = Jobs(self.bench.pool, self.bench.clock, self._hear, SEALER)
        box = self.bench.box(*tools, jobs=self.jobs, threads=self._answer)
        work = JobWork(box, Approvals(self.bench.pool), self._look, self.bench.clock)
        self.jobs.handlers = work.handlers
        return box

    async def _hear(self, caller: Caller, outcome: Outcome) -> None:
        self.news.append((caller.session, outcome))
        self.heard.set()

    async def _answer(self, caller: Caller, code: str, approve: bool) -> Mapping[str, Any]:
        if callable(self.answers):
            return await self.answers(caller, code, approve)  # type: ignore[no-any-return]
        return self.answers  # type: ignore[no-any-return]

    async def _look(self, _: Caller, thread_id: str) -> Mapping[str, Any]:
        return self.thread | {"thread_id": thread_id}

    async def rows(self, state: str = "") -> list[Job]:
        return list(await self.jobs.listed(OWNER, state, FIRST, 50))

    async def work(self) -> list[float | None]:
        """Each job that waits, once."""
        return [await self.jobs.work(each.holder, each.id) for each in await self.rows("waiting")]


@pytest.fixture
def shop(bench: Bench) -> Shop:
    return Shop(bench)


@pytest.fixture
async def worker(shop: Shop) -> AsyncIterator[Callable[[], None]]:
    started: list[Worker] = []

    def start() -> None:
        started.append(make_worker(shop.bench.pool, shop.jobs.work))
        started[-1].start()

    yield start
    for each in started:
        await each.close()


def slow(does: Callable[[Mapping[str, Any]], Any] | None = None) -> Made:
    return tool(
        "report", does or (lambda _: {"state": "ready"}), result=THREAD, long_running=True, effect=ACT
    )


async def test_a_long_one_runs_as_a_job_and_the_session_is_told(
    shop: Shop, worker: Callable[[], None]
) -> None:
    made = slow()
    box = shop.open(made)
    outcome = await call(box, "report", {"x": 1})
    assert (outcome.status, bool(outcome.job)) == (Status.RUNNING, True)
    assert not made.calls
    assert (await call(box, "report", {"x": 1})).job == outcome.job  # the same turn asks for the same job
    worker()
    await asyncio.wait_for(shop.heard.wait(), 60)
    ((session, told),) = shop.news
    assert (session, told.job, told.result) == ("s1", outcome.job, {"state": "ready"})
    assert [caller.turn for caller, _ in made.calls] == ["t1"]


async def test_what_fails_for_a_while_is_tried_again_and_then_given_up_in_the_open(shop: Shop) -> None:
    def away(_: Mapping[str, Any]) -> Any:
        raise Unavailable(Reason.UNREACHABLE, "The printer is away.")

    made = slow(away)
    await call(shop.open(made), "report")
    waits = [(await shop.work())[0] for _ in range(MAX_ATTEMPTS)]
    assert waits[-1] is None
    assert None not in waits[:-1]
    assert waits[:3] == [10.0, 20.0, 40.0]
    (dead,) = await shop.rows("dead")
    assert (dead.error, dead.attempts) == ("UNREACHABLE", MAX_ATTEMPTS)
    assert [told.words for _, told in shop.news] == ["The printer is away."]
    await shop.jobs.retry(OWNER, dead.id)
    assert [each.attempts for each in await shop.rows("waiting")] == [0]
    with pytest.raises(NotFound):
        await shop.jobs.retry(OWNER, dead.id)
    with pytest.raises(NotFound):
        await shop.jobs.retry("ind.ai/bob", dead.id)


async def test_a_job_that_breaks_is_dead_at_once_and_says_only_its_kind(shop: Shop) -> None:
    box = shop.open(slow())
    await call(box, "report")

    async def bad(_: Job) -> Any:
        raise ValueError("a secret")

    shop.jobs.handlers["run"] = bad
    assert await shop.work() == [None]
    (dead,) = await shop.rows("dead")
    assert dead.error == "INTERNAL"


async def test_a_job_keeps_what_is_secret_sealed_until_it_is_done_and_no_secret_result(shop: Shop) -> None:
    secret = {"type": "string", "x-unkept": True}
    made = tool(
        "report",
        lambda arguments: {"balance": f"s3cr3t of {arguments['account']}"},
        arguments=closed(account=secret),
        result=closed(balance=secret),
        long_running=True,
    )

    async def row() -> str:
        async with transaction(shop.bench.pool, [OWNER]) as connection:
            return str(await connection.fetchval("SELECT json_agg(t) FROM tools.jobs t"))

    await call(shop.open(made), "report", {"account": "s3cr3t-account"})
    assert "s3cr3t" not in await row()
    assert '"sealed":null' not in await row()
    await shop.work()
    assert [arguments for _, arguments in made.calls] == [{"account": "s3cr3t-account"}]
    assert [told.result for _, told in shop.news] == [{"balance": "s3cr3t of s3cr3t-account"}]
    assert '"sealed":null' in await row()
    assert "s3cr3t" not in await row()


async def test_a_negotiation_is_followed_until_it_rests(shop: Shop) -> None:
    made = tool(
        "meet", lambda _: {"state": "waiting", "running": True, "thread_id": "ab"}, result=THREAD, effect=ACT
    )
    outcome = await call(shop.open(made), "meet")
    assert (outcome.status, outcome.thread) == (Status.RUNNING, "ab")
    assert outcome.job
    assert await shop.work() == [5.0]
    shop.bench.now_ms += 3_600_000
    assert await shop.work() == [360.0]  # the older it is, the less often it is looked at
    shop.thread = {"state": "agreed"}
    assert await shop.work() == [None]
    ((_, told),) = shop.news
    assert (told.status, told.result["state"], told.thread) == (Status.DONE, "agreed", "ab")


async def test_a_yes_that_others_must_answer_is_followed_and_brings_its_files(shop: Shop) -> None:
    file = {"reference": f"media:{'0' * 64}", "file_name": "meeting.ics", "media_type": "text/calendar"}
    shop.answers = {"state": "waiting", "running": True, "thread_id": "ab", "with": "ind.ai/bob"}
    box = shop.open()
    for _ in range(2):  # the second time after a kill, by the same turn
        outcome = await box.answer(ALICE, "0a1b2c3d", approve=True)
        assert (outcome.status, outcome.words) == (Status.RUNNING, "ind.ai/bob is still being asked.")
    shop.thread = {"state": "agreed", "with": "ind.ai/bob", "files": [{**file, "size": 3}]}
    assert await shop.work() == [None]
    ((_, told),) = shop.news
    assert [each.file_name for each in told.files] == ["meeting.ics"]
    assert sentence(told) == "Agreed with ind.ai/bob."
    declined = await box.answer(ALICE, "0a1b2c3d", approve=False)
    assert (declined.code, declined.files) == ("DECLINED", ())
    assert not await shop.rows("waiting")


async def test_what_was_approved_runs_after_a_crash_and_once(shop: Shop) -> None:
    made = tool("pay", effect=ACT, arguments=closed(amount={"type": "integer"}))
    box = shop.open(made)
    asked = await call(box, "pay", {"amount": 5}, replace(ALICE, approvals=frozenset({"pay"})))
    assert asked.approval is not None
    approvals = Approvals(shop.bench.pool)
    # The process dies between the owner's yes and the call: only the transaction is left.
    await approvals.take(
        OWNER, asked.approval.code, approve=True, by=OWNER, now_ms=0, also=partial(box._answered, "s1")
    )
    assert not made.calls
    await shop.work()
    assert [arguments for _, arguments in made.calls] == [{"amount": 5}]
    assert [told.status for _, told in shop.news] == [Status.DONE]
    await shop.work()
    assert len(made.calls) == 1


async def test_an_answer_from_elsewhere_is_told_where_it_was_asked(shop: Shop) -> None:
    box = shop.open(tool("pay", effect=ACT))
    asking = replace(ALICE, approvals=frozenset({"pay"}))
    asked = await call(box, "pay", {"x": 1}, asking)
    assert asked.approval is not None
    await box.answer(replace(ALICE, session="elsewhere"), asked.approval.code, approve=True)
    assert [session for session, _ in shop.news] == ["s1"]
    asked = await call(box, "pay", {"x": 2}, asking)
    assert asked.approval is not None
    await box.answer(
        ALICE, asked.approval.code, approve=True
    )  # in the same conversation it is answered at once
    assert len(shop.news) == 1


ASKED = {"action_hash": "0a1b2c3d" * 8, "code": "0a1b2c3d", "terms": "Pay bob", "expires_ms": 0}
OPEN = {"state": "needs_you", "approval": ASKED, "with": "ind.ai/bob", "thread_id": "ab"}
AGREED = {"state": "agreed", "with": "ind.ai/bob", "when": "Tue 24 Nov 2026, 10:00"}


async def test_what_is_decided_elsewhere_is_told_where_it_was_asked_once_in_its_language(shop: Shop) -> None:
    shop.thread = OPEN
    box = shop.open(tool("pay", lambda _: OPEN, result=THREAD, effect=ACT))
    asked = await call(box, "pay", {"x": 1}, replace(ALICE, language="hi"))
    assert asked.status is Status.NEEDS_APPROVAL
    assert await shop.work() == [5.0]
    assert not shop.news  # the question was told by its turn, and still waits
    shop.thread = AGREED
    (job,) = await shop.rows("waiting")
    await asyncio.gather(*(shop.jobs.work(job.holder, job.id) for _ in range(2)))
    assert {(session, told.job) for session, told in shop.news} == {("s1", str(job.id))}  # one message's key
    words = sentence(shop.news[0][1], "hi")
    assert words == "ind.ai/bob के साथ तय हो गया: मंगल 24 नव॰ 2026, 10:00।", words
    assert not await shop.rows("waiting")


async def test_what_is_decided_in_the_conversation_is_told_by_its_turn_alone(shop: Shop) -> None:
    shop.thread = OPEN
    box = shop.open(tool("pay", lambda _: OPEN, result=THREAD, effect=ACT))
    await call(box, "pay", {"x": 1})
    await call(box, "pay", {"x": 1}, replace(ALICE, session="s2"))
    assert len(await shop.rows("waiting")) == 2

    async def answer(caller: Caller, code: str, approve: bool) -> Mapping[str, Any]:
        shop.thread = AGREED
        # Woken by the very change: that of the conversation that answers keeps quiet, the other's tells.
        await shop.work()
        return AGREED | {"thread_id": "ab"}

    shop.answers = answer
    outcome = await box.answer(ALICE, " 0A1B 2c3d", approve=True)
    assert outcome.result["state"] == "agreed"
    assert [session for session, _ in shop.news] == ["s2"]
    assert not await shop.rows("waiting")


async def test_an_answer_that_failed_in_the_conversation_leaves_the_question_followed(shop: Shop) -> None:
    shop.thread = OPEN
    box = shop.open(tool("pay", lambda _: OPEN, result=THREAD, effect=ACT))
    await call(box, "pay", {"x": 1})

    async def away(*_: Any) -> Mapping[str, Any]:
        raise Unavailable(Reason.UNREACHABLE, "The database is away.")

    shop.answers = away
    assert (await box.answer(ALICE, "0a1b2c3d", approve=True)).status is Status.FAILED
    shop.thread = AGREED
    await shop.work()
    assert [told.result["state"] for _, told in shop.news] == ["agreed"]


async def test_a_later_question_is_told_once_with_its_code_and_followed(shop: Shop) -> None:
    made = tool("pay", lambda _: dict(shop.thread) | {"thread_id": "ab"}, result=THREAD, effect=ACT)
    await call(shop.open(made), "pay")
    shop.thread = OPEN
    assert await shop.work() == [None]
    ((_, told),) = shop.news
    assert (told.status, told.about) == (Status.NEEDS_APPROVAL, ASKED["action_hash"])
    shop.thread = {"state": "declined", "with": "ind.ai/bob", "reason": "declined"}
    await shop.work()
    assert sentence(shop.news[1][1]) == "You said no, so nothing was agreed with ind.ai/bob."


async def test_an_answer_from_elsewhere_is_told_after_a_kill_and_a_visitor_not_what_was_asked(
    shop: Shop,
) -> None:
    box = shop.open(tool("pay", effect=ACT))
    own = replace(ALICE, approvals=frozenset({"pay"}), language="hi")
    visitor = replace(own, person="web:1", door="public", verified=False, language="en")
    approvals, told = Approvals(shop.bench.pool, SEALER), list[tuple[str, str]]()
    for asking, yes in ((own, True), (own, False), (visitor, False)):
        await call(box, "pay", {"x": len(told)}, asking)
        (asked,) = await approvals.waiting(OWNER, 0)
        # The process dies between the owner's word and the conversation.
        answered = partial(box._answered, "desk")
        code = asked.approval.code
        await approvals.take(OWNER, code, approve=yes, by=OWNER, now_ms=0, also=answered)
        if yes:  # … and after it was done
            found = await approvals.find(OWNER, asked.id)
            assert found is not None
            await box.carry_out(found)
        await shop.work()
        ((_, news),) = shop.news
        told.append((news.about, sentence(news, asking.language)))
        shop.news.clear()
        await shop.work()
        assert not [each for each in shop.news if each[1].code != "EXPIRED"]
        assert told[-1][0] == str(asked.id)
    assert [words for _, words in told] == [
        "हो गया।",
        "इसे मना कर दिया गया; कुछ नहीं हुआ।\npay: Does a thing",
        "It was declined; nothing has happened.",
    ]


async def test_a_change_wakes_who_waits_for_it(shop: Shop, worker: Callable[[], None]) -> None:
    shop.thread = OPEN
    box = shop.open(tool("pay", lambda _: OPEN, result=THREAD, effect=ACT))
    await call(box, "pay", {"x": 1})
    followed = box.followed
    assert followed is not None
    await shop.work()  # the queue would try it in five seconds, and then ever later
    shop.thread = AGREED
    followed.start()
    worker()
    followed.changed("ind.ai/bob", "ab")
    followed.changed(OWNER, "cd")
    assert not followed._changed
    followed.changed(OWNER, "ab")
    await asyncio.wait_for(shop.heard.wait(), 60)
    await followed.close()


async def test_who_asked_hears_that_a_question_expired(shop: Shop) -> None:
    box = shop.open(tool("pay", effect=ACT))
    asked = await call(box, "pay", {"x": 1}, replace(ALICE, approvals=frozenset({"pay"})))
    assert asked.approval is not None
    assert await shop.work() == [600.0]  # too early: it still waits
    assert not shop.news
    shop.bench.now_ms += LIFETIME_MS + 1
    await shop.work()
    assert [told.code for _, told in shop.news] == ["EXPIRED"]


async def test_a_visitor_whose_wish_expired_does_not_read_what_the_owner_was_asked(shop: Shop) -> None:
    box = shop.open(tool("pay", effect=ACT))
    visitor = replace(ALICE, person="web:1", door="public", verified=False, approvals=frozenset({"pay"}))
    assert (await call(box, "pay", {"x": 1}, visitor)).code == "NEEDS_APPROVAL"
    shop.bench.now_ms += LIFETIME_MS + 1
    await shop.work()
    assert [told.words for _, told in shop.news] == ["Nobody answered in time, so nothing has happened."]


async def test_jobs_of_one_owner_are_hidden_from_another(shop: Shop) -> None:
    await call(shop.open(slow()), "report")
    assert len(await shop.rows()) == 1
    assert not await shop.jobs.listed("ind.ai/bob", "", FIRST, 50)
    (job,) = await shop.rows()
    assert await shop.jobs.work("ind.ai/bob", job.id) is None
    assert (await shop.rows())[0].attempts == 0


async def test_a_database_that_is_away_loses_no_job(
    shop: Shop, worker: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indai.tools.queue.AGAIN_S", 0.05)
    box = shop.open(slow())
    work, failed = shop.jobs.work, list[int]()

    async def shaky(holder: str, id: UUID) -> float | None:
        if len(failed) < 2:
            failed.append(1)
            raise Unavailable(Reason.DATABASE_UNAVAILABLE, "The database cannot be reached.")
        return await work(holder, id)

    monkeypatch.setattr(shop.jobs, "work", shaky)
    await call(box, "report")
    worker()
    await asyncio.wait_for(shop.heard.wait(), 90)  # a listener that fails is tried again later
    assert len(failed) == 2


async def test_a_queue_s_probe_is_told_only_once_somebody_listens(bench: Bench) -> None:
    """The manager probes from one task while another begins to listen: whichever is first, it is heard."""
    connections, heard = Listening(bench.pool), asyncio.Queue[object]()
    async with bench.pool.acquire(), bench.pool.acquire():
        pass  # two are open from now on, so that a probe which does not wait is told at once
    async with connections:
        probe = asyncio.create_task(connections.notify("ch_test", "are you there"))
        for _ in range(5):  # enough trips to the database for a probe that does not wait to be told and lost
            await bench.pool.fetchval("SELECT 1")
        assert not probe.done()
        await connections.add_listener("ch_test", heard.put_nowait)
        assert await asyncio.wait_for(heard.get(), 60) == "are you there"
        await probe

"""What a turn makes of providers that fail, tools that fail, odd messages, and a node that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from uuid import UUID

import pytest
from indai.protocol.errors import IndaiError, Reason
from indai.runtime.conversations.intake import MAX_WAITING
from indai.runtime.conversations.talk import Talk
from indai.runtime.conversations.turns import TurnStore
from indai.runtime.conversations.values import Thought
from indai.storage.pool import transaction
from indai.tools.identity import LEFT_OUT
from indai.tools.values import Effect
from indai.v1 import conversation_pb2 as pb
from indai.v1 import llm_pb2

from tests.conftest import Database
from tests.service.llm.upstream import Reply, Upstream
from tests.service.runtime.cell import ALICE, BOB, Cell, Heard, cell, now_ms, owner
from tests.service.runtime.gear import QUICK, Told, one_provider

NUMBER = re.compile(r"2849\D?6545")
QUESTION = "Which paint lasts longest outside?"


async def row(here: Cell, heard: Heard) -> dict[str, object]:
    """The turn's row, as who looks for the cause finds it."""
    async with transaction(here.pool, (ALICE,)) as connection:
        found = await connection.fetchrow(
            "SELECT ending, reason, cost_micros, trace, stage_ms FROM runtime.turns WHERE id = $1::uuid",
            heard.turn_id,
        )
    assert found is not None
    return {**found, "trace": json.loads(found["trace"]), "stage_ms": json.loads(found["stage_ms"])}


async def spent(here: Cell) -> int:
    listed = await here.llm.ListCosts(
        llm_pb2.ListCostsRequest(scope=llm_pb2.LlmScope(tenant="personal", owner=ALICE))
    )
    return sum(each.cost_micros for each in listed.costs)


async def first_part(here: Cell, message: pb.InboundMessage, name: str) -> tuple[str, asyncio.Task[Heard]]:
    """Say something in the background; returns when an event of this kind has come."""
    came, turn = asyncio.Event(), ""

    async def listen() -> Heard:
        nonlocal turn
        heard = Heard()
        async for response in here.stub.SendMessage(pb.SendMessageRequest(message=message)):
            if response.HasField("event"):
                heard.events.append(response.event)
                turn = response.event.turn_id
                if response.event.WhichOneof("event") == name:
                    came.set()
        return heard

    task = asyncio.create_task(listen())
    await asyncio.wait({asyncio.ensure_future(came.wait()), task}, return_when=asyncio.FIRST_COMPLETED)
    return turn, task


async def watched(here: Cell, turn: str) -> Heard:
    request = pb.WatchTurnRequest(turn_id=turn, sender=owner(ALICE, "").sender)
    return Heard([each.event async for each in here.stub.WatchTurn(request) if each.HasField("event")])


async def test_a_stream_at_the_node_that_was_replaced_ends_with_what_the_next_one_answered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indai.runtime.conversations.servicer.KEEP_ALIVE_S", 0.02)
    async with (
        Upstream("openai", [Reply(hang_at=0), Reply(text=("Oil paint.",))]).serving() as up,
        cell(database.pool, config=one_provider(up), epoch=1) as here,
    ):
        _, task = await first_part(here, owner(ALICE, QUESTION), "accepted")
        await up.asked.wait()
        async with cell(database.pool, config=one_provider(up), epoch=2):
            async with asyncio.timeout(60):
                heard = await task
            assert "Oil paint." in heard.text
            # Told once, in order, by whichever process stored it.
            assert [each.seq for each in heard.events] == list(range(1, len(heard.events) + 1))


async def test_what_a_killed_node_left_is_answered_by_the_next(database: Database) -> None:
    async with Upstream("openai", [Reply(hang_at=0), Reply(text=("Oil paint.",))]).serving() as up:
        async with cell(database.pool, config=one_provider(up), epoch=1) as here:
            turn, task = await first_part(here, owner(ALICE, QUESTION), "accepted")
            await up.asked.wait()
            task.cancel()
        async with cell(database.pool, config=one_provider(up), epoch=2) as there:
            heard = await watched(there, turn)
            assert heard.text == "Oil paint."
            assert [each.seq for each in heard.events] == list(range(1, len(heard.events) + 1))


async def test_a_process_that_is_killed_in_the_middle_of_a_turn_loses_nothing(database: Database) -> None:
    async with Upstream("openai", [Reply(hang_at=0), Reply(text=("Oil paint.",))]).serving() as up:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.service.runtime.doomed",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        plan = {"dsn": database.dsn, "config": one_provider(up), "text": QUESTION}
        child.stdin.write(json.dumps(plan).encode() + b"\n")
        turn = (await child.stdout.readline()).decode().strip()
        await up.asked.wait()
        child.send_signal(signal.SIGKILL)
        await child.wait()
        async with cell(database.pool, config=one_provider(up), epoch=2) as there:
            assert (await watched(there, turn)).text == "Oil paint."
            listed = await there.stub.ListSessions(pb.ListSessionsRequest(handle=ALICE))
            request = pb.ListSessionMessagesRequest(session_id=listed.sessions[0].session_id)
            messages = (await there.stub.ListSessionMessages(request)).messages
            assert [each.text for each in messages] == [QUESTION, "Oil paint."]


async def test_a_conversation_has_a_limit_of_messages_that_wait(database: Database) -> None:
    async with (
        Upstream("openai", [Reply(hang_at=0)]).serving() as up,
        cell(database.pool, config=one_provider(up)) as here,
    ):
        streams = []
        for number in range(MAX_WAITING):
            message = owner(ALICE, f"{QUESTION} {number}")
            streams.append(aiter(here.stub.SendMessage(pb.SendMessageRequest(message=message))))
            await anext(streams[-1])
        with pytest.raises(IndaiError) as caught:
            await here.say(owner(ALICE, QUESTION))
        assert caught.value.reason is Reason.RATE_LIMITED
        assert (await here.say(owner(BOB, "hello"))).text  # others are not kept waiting


async def test_a_half_said_answer_of_a_killed_node_ends_with_words(database: Database) -> None:
    half = Reply(text=("It is oil paint. ", "And more"), hang_at=3)
    async with Upstream("openai", [half]).serving() as up:
        async with cell(database.pool, config=one_provider(up), epoch=1) as here:
            turn, task = await first_part(here, owner(ALICE, QUESTION), "sentence")
            task.cancel()
        async with cell(database.pool, config=one_provider(up), epoch=2) as there:
            heard = await watched(there, turn)
        assert heard.text.startswith("It is oil paint. I was interrupted")
        assert heard.finished.reason == "INTERRUPTED"
        assert len(up.seen) == 1


async def test_a_message_that_kills_its_node_does_so_only_twice(database: Database) -> None:
    async with Upstream("openai", [Reply(hang_at=0)]).serving() as up:
        async with cell(database.pool, config=one_provider(up), epoch=1) as here:
            turn, task = await first_part(here, owner(ALICE, QUESTION), "accepted")
            await up.asked.wait()
            task.cancel()
        up.asked.clear()
        async with cell(database.pool, config=one_provider(up), epoch=2):
            await up.asked.wait()
        async with cell(database.pool, config=one_provider(up), epoch=3) as there:
            assert (await watched(there, turn)).finished.reason == "INTERRUPTED"


async def test_stopping_a_turn_keeps_what_was_said_and_hangs_up_on_the_provider(database: Database) -> None:
    half = Reply(text=("It is oil paint. ", "And more"), hang_at=3)
    async with (
        Upstream("openai", [half, Reply()]).serving() as up,
        cell(database.pool, config=one_provider(up)) as here,
    ):
        turn, task = await first_part(here, owner(ALICE, QUESTION), "sentence")
        stop = pb.StopTurnRequest(turn_id=turn, sender=owner(ALICE, "").sender)
        assert (await here.stub.StopTurn(stop)).stopped
        heard = await task
        await asyncio.wait_for(up.aborted.wait(), 60)
        assert (heard.finished.stopped, heard.text) == (True, "It is oil paint.")
        assert not (await here.stub.StopTurn(stop)).stopped
        assert (await here.say(owner(ALICE, QUESTION))).text == "Hello there"  # the session goes on


async def test_a_stop_that_comes_while_the_answer_is_stored_says_that_it_came_too_late(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    store = Talk.end
    async with (
        Upstream("openai", [Reply()]).serving() as up,
        cell(database.pool, config=one_provider(up)) as here,
    ):

        async def end(talk: Talk, thought: Thought) -> None:
            stop = pb.StopTurnRequest(turn_id=talk._turn.id.hex, sender=owner(ALICE, "").sender)
            stopped.append((await here.stub.StopTurn(stop)).stopped)
            await store(talk, thought)

        monkeypatch.setattr(Talk, "end", end)
        heard = await here.say(owner(ALICE, QUESTION))
        assert (stopped, heard.finished.stopped, heard.text) == ([False], False, "Hello there")


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_turn_is_stopped_from_another_process_also_while_it_hears_nothing(
    database: Database, deaf: bool
) -> None:
    half = Reply(text=("It is oil paint. ", "And more"), hang_at=3)
    async with (
        Upstream("openai", [half]).serving() as up,
        cell(database.pool, config=one_provider(up), epoch=1) as here,
        cell(database.pool, config=one_provider(up), epoch=2) as there,
    ):
        turn, task = await first_part(here, owner(ALICE, QUESTION), "sentence")
        if deaf:  # the server drops whoever listens; what is told meanwhile stands in the row
            async with database.pool.acquire() as connection:
                gone = await connection.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
                )
            assert len(gone) >= 2
        stop = pb.StopTurnRequest(turn_id=turn, sender=owner(ALICE, "").sender)
        assert (await there.stub.StopTurn(stop)).stopped
        heard = await asyncio.wait_for(task, 60)
        await asyncio.wait_for(up.aborted.wait(), 60)
        assert (heard.finished.stopped, heard.text) == (True, "It is oil paint.")
        assert not (await there.stub.StopTurn(stop)).stopped


async def test_a_turn_that_was_to_end_when_its_process_died_is_not_begun_again(database: Database) -> None:
    async with Upstream("openai", [Reply(hang_at=0)]).serving() as up:
        async with cell(database.pool, config=one_provider(up), epoch=1) as here:
            turn, task = await first_part(here, owner(ALICE, QUESTION), "accepted")
            await up.asked.wait()
            task.cancel()
        assert await TurnStore(database.pool, now_ms, 1).ask_to_stop(ALICE, turn=UUID(turn))
        async with cell(database.pool, config=one_provider(up), epoch=2) as there:
            assert (await watched(there, turn)).finished.stopped
        assert len(up.seen) == 1


BUSY = Reply(status=429, headers=(("retry-after", "3600"),))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Reply(status=500), "up failed (500)."),
        (BUSY, "up has had too many requests (429)."),
        (Reply(status=401), "up refused the key (401)."),
        (Reply(status=400), "up rejected the request (400)."),
        (Reply(raw_event=True, cut_after=1), "up sent a broken answer."),
        (Reply(cut_after=0), "up sent a broken answer."),
        (Reply(hang_at=0), "up said nothing for too long."),
        (None, "up can't be reached."),
    ],
)
async def test_without_a_model_the_person_is_told_why_stands_in_rows_and_nothing_is_billed(
    database: Database, bad: Reply | None, why: str
) -> None:
    server = Upstream("openai", [bad or Reply()])
    async with contextlib.AsyncExitStack() as stack:
        if bad is None:
            server.address = "http://127.0.0.1:9"  # nobody listens there
        else:
            await stack.enter_async_context(server.serving())
        silent = bad is not None and bad.hang_at == 0
        limits = QUICK.replace("first_token_ms: 30000", "first_token_ms: 300") if silent else QUICK
        here = await stack.enter_async_context(cell(database.pool, config=one_provider(server, limits)))
        heard = await here.say(owner(ALICE, QUESTION))
        assert heard.finished.degraded
        assert "try again" in heard.text
        assert "SECRET" not in heard.text
        kept = await row(here, heard)
        assert (kept["ending"], kept["reason"], kept["cost_micros"]) == ("degraded", "PROVIDER_FAILED", 0)
        assert why in kept["trace"]["problems"]  # type: ignore[index]
        assert await spent(here) == 0
        listed = await here.llm.ListCalls(
            llm_pb2.ListCallsRequest(scope=llm_pb2.LlmScope(tenant="personal", owner=ALICE))
        )
        *tried, last = sorted(listed.calls, key=lambda call: call.attempt)
        assert {each.error for each in tried} == {why}
        assert (last.finish, last.cost_micros) == (llm_pb2.FINISH_DEGRADED, 0)


async def test_a_stream_that_breaks_leaves_what_was_said(database: Database) -> None:
    broken = Reply(text=("It is oil paint. ", "Or else"), cut_after=3)
    async with (
        Upstream("openai", [broken]).serving() as up,
        cell(database.pool, config=one_provider(up)) as here,
    ):
        heard = await here.say(owner(ALICE, QUESTION))
        assert heard.text.startswith("It is oil paint.")
        assert (await row(here, heard))["trace"]["problems"]  # type: ignore[index]


def calls(name: str, arguments: str = '{"query": "paint"}') -> Reply:
    return Reply(text=(), call=(name, arguments))


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (calls("fly-to-moon"), "UNKNOWN_TOOL"),
        (calls("search-kb", '{"query": 7}'), "BAD_ARGUMENTS"),
        (calls("search-kb", '{"query"'), "BAD_ARGUMENTS"),
    ],
)
async def test_a_call_that_cannot_be_run_is_told_to_the_model_and_not_run(
    database: Database, bad: Reply, code: str
) -> None:
    tool = Told()
    async with (
        Upstream("openai", [bad, Reply(text=("I can't look that up.",))]).serving() as up,
        cell(database.pool, tools=[tool], config=one_provider(up)) as here,
    ):
        heard = await here.say(owner(ALICE, QUESTION))
        assert heard.text == "I can't look that up."
        assert tool.asked == []
        assert '\\"ok\\": false' in up.seen[-1].raw.decode()
        assert bad.call is not None
        kept = await row(here, heard)
        assert kept["trace"]["refused"] == [{"tool": bad.call[0], "code": code}]  # type: ignore[index]


async def test_a_model_that_calls_for_ever_is_stopped_after_four_rounds(database: Database) -> None:
    replies = [calls("search-kb", json.dumps({"query": f"paint {number}"})) for number in range(9)]
    tool = Told()
    async with (
        Upstream("openai", replies).serving() as up,
        cell(database.pool, tools=[tool], config=one_provider(up)) as here,
    ):
        heard = await here.say(owner(ALICE, QUESTION))
        assert len(tool.asked) == 4
        assert "steps I may take" in heard.text
        assert "TOO_MANY_ROUNDS" in (await row(here, heard))["trace"]["problems"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (QUESTION, "search kb does not work at the moment."),
        ("बाहर की दीवार के लिए कौन सा पेंट सबसे ज़्यादा चलता है?", "search kb अभी काम नहीं कर रहा।"),
    ],
)
async def test_a_tool_that_fails_twice_ends_the_turn_in_the_person_s_words(
    database: Database, question: str, words: str
) -> None:
    replies = [calls("search-kb", json.dumps({"query": f"paint {number}"})) for number in range(9)]
    async with (
        Upstream("openai", replies).serving() as up,
        cell(database.pool, tools=[Told(fails=9)], config=one_provider(up)) as here,
    ):
        heard = await here.say(owner(ALICE, question))
        assert words in heard.text
        assert [each.failed for each in heard.tools if each.done] == [True, True]
        assert "TOOL_FAILED_TWICE" in (await row(here, heard))["trace"]["problems"]  # type: ignore[index]


async def test_the_model_gets_key_facts_and_never_raw_results(database: Database) -> None:
    tool = Told(answer={"summary": "Oil paint lasts ten years.", "internal": {"a": [1]}})
    async with (
        Upstream("openai", [calls("search-kb"), Reply(text=("Ten years.",))]).serving() as up,
        cell(database.pool, tools=[tool], config=one_provider(up)) as here,
    ):
        assert (await here.say(owner(ALICE, QUESTION))).text == "Ten years."
        seen = up.seen[-1].raw.decode()
        assert "Use only this" in seen
        assert '{\\"a\\": [1]}' not in seen
        assert seen.count("Oil paint lasts ten years.") == 2  # its section, and the tool's message


@pytest.mark.parametrize("effect", [Effect.READ, Effect.IRREVERSIBLE], ids=["at once", "after a yes"])
@pytest.mark.parametrize("hands_over", [True, False], ids=["its own", "a stranger's word"])
async def test_a_file_of_a_tool_goes_with_the_answer_and_past_the_model(
    database: Database, effect: Effect, hands_over: bool
) -> None:
    """What a tool that hands over nothing calls a file, as one of another server might, is none."""
    reference = f"media:{'5e' * 32}"
    file = {"reference": reference, "file_name": "meeting.ics", "media_type": "text/calendar", "size": 7}
    tool = Told(effect=effect, answer={"summary": "Booked.", "files": [file, file]}, files=hands_over)
    async with (
        Upstream("openai", [calls("search-kb"), Reply(text=("It is booked.",))]).serving() as up,
        cell(database.pool, tools=[tool], config=one_provider(up)) as here,
    ):
        heard = await here.say(owner(ALICE, "book it"))
        if effect is Effect.IRREVERSIBLE:
            (asked,) = [each.approval for each in heard.events if each.HasField("approval")]
            assert list(heard.finished.reply.media) == []
            heard = await here.say(owner(ALICE, f"yes {asked.code}"))
        wanted = pb.Media(kind="document", media_type="text/calendar", reference=reference, size=7)
        wanted.file_name = "meeting.ics"
        assert list(heard.finished.reply.media) == ([wanted] if hands_over else [])
        assert not any("5e5e" in each.raw.decode() for each in up.seen)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "without text"),
        ("   \n ", "without text"),
        ("Which paint is the best one for my house? " * 1_000, "at most 20,000"),
        ("a" * 100_000, "20,000"),
        ("\u0915" * 33_334, "20,000"),  # 100 kB of Hindi
        ("मुझे paint வேண்டும் 🎨 urgently", ""),
    ],
)
async def test_odd_messages_get_a_clear_answer(database: Database, text: str, words: str) -> None:
    async with cell(database.pool) as here:
        heard = await here.say(owner(ALICE, text))
        assert heard.text
        assert words in heard.text
        kept = await row(here, heard)
        assert kept["ending"] == "answered"
        assert "total" in kept["stage_ms"]  # type: ignore[operator]


@pytest.mark.parametrize(
    "said",
    [
        ("Keep this: my aadhaar is 2999 2849 6545. Which paint lasts longest?",),
        ("I will now give you my Aadhaar number", "2999-2849-6545. Which paint lasts longest?"),
    ],
)
async def test_an_aadhaar_number_is_neither_kept_nor_shown_to_a_model_and_the_person_is_told(
    database: Database, said: tuple[str, ...]
) -> None:
    async with (
        Upstream("openai", [Reply(text=("Oil paint.",))] * 3).serving() as up,
        cell(database.pool, config=one_provider(up)) as here,
    ):
        for text in said:
            heard = await here.say(owner(ALICE, text))
        assert heard.text.startswith("Please never send an Aadhaar number here.")
        assert heard.text.endswith("Oil paint.")
        request = pb.ListSessionMessagesRequest(
            session_id=(await here.stub.ListSessions(pb.ListSessionsRequest(handle=ALICE)))
            .sessions[0]
            .session_id
        )
        texts = [each.text for each in (await here.stub.ListSessionMessages(request)).messages]
        assert LEFT_OUT in " ".join(texts)
        async with transaction(here.pool, (ALICE,)) as connection:
            for table in ("messages", "turns", "turn_events", "sessions", "segments"):
                rows = await connection.fetch(f"SELECT * FROM runtime.{table}")  # noqa: S608
                assert rows
                assert not NUMBER.search(repr(rows))
        assert up.seen
        assert not any(NUMBER.search(each.raw.decode()) for each in up.seen)

"""Meetings as tools: the same path as the owner's own call, whatever words were said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from indai.client.channels import plain_channel
from indai.edge.media import MediaStore
from indai.node.outgoing import MEDIA, keeper
from indai.tools.intents.meet import CancelMeeting, Meet, MoveMeeting
from indai.tools.intents.table import goal_tools
from indai.tools.values import Outcome, Status, Tool, Touch
from indai.v1 import goals_pb2, owner_pb2
from indai.v1.goals_pb2_grpc import GoalServiceStub

from tests.databases import pooled
from tests.service.node.conftest import Pair
from tests.service.tooling import Talk, desk_of, people, talk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alice(pair: Pair, shared_database: tuple[str, str]) -> AsyncIterator[Talk]:
    async with pooled(shared_database[0], 2) as pool:
        desk, who = desk_of(pair.world, pair.a, pair.alice), people(pair.world)
        desks, keep = lambda _: desk, keeper(pair.a.data)
        made: list[Tool] = [
            Meet(desks, who, keep),
            MoveMeeting(desks, who, keep),
            CancelMeeting(desks, who, keep),
        ]
        yield talk(pool, pair.alice, made)


async def test_half_an_hour_with_bob_this_week_is_agreed_moved_and_called_off(
    alice: Talk, pair: Pair
) -> None:
    outcome = await alice.say("Set up 30 min with bob this week")
    assert (outcome.status, outcome.result["state"], outcome.result["with"]) == (
        Status.DONE,
        "agreed",
        "ind.ai/bob",
    )
    theirs = await pair.bob.stub.ListThreads(owner_pb2.ListThreadsRequest())
    assert [each.state for each in theirs.threads] == [owner_pb2.THREAD_STATE_COMMITTED]
    assert theirs.threads[0].thread_id == outcome.thread
    assert "asking ind.ai/bob for 30 minutes" in alice.told[-1] or len(alice.told) > 1
    (booked,) = invitations(outcome, pair)
    assert booked["METHOD"] == "REQUEST"

    moved = await alice.say("Move my meeting with bob to next friday")
    assert moved.result["state"] == "agreed"
    assert moved.result["when"].startswith("Fri")
    later, gone = invitations(moved, pair)
    assert (later["METHOD"], gone["METHOD"]) == ("REQUEST", "CANCEL")
    # Whoever took the first one into a calendar takes it out again by this.
    assert (gone["UID"], gone["STATUS"]) == (booked["UID"], "CANCELLED")
    assert int(gone["SEQUENCE"]) > int(booked["SEQUENCE"])
    assert later["DTSTART"] != booked["DTSTART"]

    off = await alice.say("Cancel my meeting with bob")
    assert off.status is Status.DONE, off
    assert off.result["state"] == "cancelled"
    (ended,) = invitations(off, pair)
    assert (ended["UID"], ended["METHOD"]) == (later["UID"], "CANCEL")
    again = await alice.say("Cancel my meeting with bob")
    assert (again.status, again.code) == (Status.FAILED, "NO_SUCH_MEETING")


def invitations(outcome: Outcome, pair: Pair) -> list[dict[str, str]]:
    """The properties of each file that came with an outcome."""
    return [_event(MediaStore(pair.a.data / MEDIA).get(each.reference).decode()) for each in outcome.files]


def _event(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\r\n"):
        name, _, value = line.partition(":")
        found.setdefault(name.partition(";")[0], value)
    return found


@pytest.mark.parametrize(
    ("said", "slots"),
    [
        ("कल शाम 5 बजे bob के साथ 30 मिनट की मीटिंग रखो", {"time": "17:00", "when": "tomorrow"}),
        ("kal subah bob ke saath 30 min ki meeting rakho", {"time": "morning", "when": "tomorrow"}),
        ("Schedule a call with ind.ai/bob next monday at 11", {"time": "11:00", "when": "next monday"}),
    ],
)
async def test_what_the_provider_wishes_fits_the_tool(alice: Talk, said: str, slots: dict[str, str]) -> None:
    name, arguments = alice.wish(said)
    assert name == "meet"
    assert slots.items() <= arguments.items()
    asked = await alice.call(name, arguments, replace(alice.caller(), autonomy="supervised"))
    assert asked.approval is not None, asked.words
    assert "Ask ind.ai/bob for 30 minutes" in asked.approval.terms


async def test_the_same_turn_asks_once(alice: Talk, pair: Pair) -> None:
    caller = alice.caller()
    arguments = {"with": "bob", "when": "next week", "title": "Once"}
    one, two = [await alice.call("meet", arguments, caller) for _ in range(2)]
    assert one.thread == two.thread
    other = await alice.call("meet", arguments)
    assert other.thread != one.thread


async def test_nobody_is_guessed(alice: Talk) -> None:
    unknown = await alice.call("meet", {"with": "zed"})
    assert (unknown.code, unknown.retryable) == ("UNKNOWN_PERSON", False)
    assert "handle" in unknown.words
    assert (await alice.call("meet", {"with": "alice"})).code == "UNKNOWN_PERSON"
    assert (await alice.call("meet", {"with": "bob", "when": "someday"})).status is Status.FAILED


async def test_what_the_policy_refuses_is_refused_to_a_tool_too(alice: Talk) -> None:
    outcome = await alice.call("meet", {"with": "bob", "duration_minutes": 180, "when": "next week"})
    assert outcome.status is Status.FAILED or outcome.result["state"] == "refused"
    assert not outcome.result.get("start_ms")


async def test_a_longer_one_waits_for_the_other_owner(alice: Talk) -> None:
    outcome = await alice.call("meet", {"with": "bob", "duration_minutes": 60, "when": "next week"})
    assert (outcome.status, outcome.result["state"]) == (Status.RUNNING, "waiting")
    back = await alice.call("cancel-meeting", {"with": "bob", "when": ""})
    assert back.status is Status.FAILED or back.result["state"] == "cancelled"


async def test_what_a_supervised_agent_asks_about_is_concrete(alice: Talk) -> None:
    caller = replace(alice.caller(), autonomy="supervised")
    asked = await alice.call("meet", {"with": "bob", "when": "next monday", "time": "11:00"}, caller)
    assert asked.status is Status.NEEDS_APPROVAL
    assert asked.approval is not None
    assert "Ask ind.ai/bob for 30 minutes" in asked.approval.terms
    assert "11:00 to " in asked.approval.terms
    outcome = await alice.box.answer(alice.caller(), asked.approval.code, approve=True)
    assert outcome.result["state"] == "agreed"
    assert outcome.result["when"].endswith("11:00")


async def test_goals_are_set_listed_and_ended_in_words_at_the_owner_s_door_alone(
    alice: Talk, pair: Pair
) -> None:
    port = GoalServiceStub(plain_channel(pair.a.info.addresses["owner"], token=pair.alice.token))
    desk = desk_of(pair.world, pair.a, pair.alice)
    for tool in goal_tools(lambda _: port, lambda _: desk, people(pair.world)):
        alice.box.add(tool)
        alice.names = (*alice.names, tool.spec.name)

    caller = alice.caller()
    name, arguments = alice.wish("har hafte bob se milna hai")
    one, two = [await alice.call(name, arguments, caller) for _ in range(2)]
    assert one.result == two.result, (one, two)  # the same turn is the same goal
    assert one.result["kept_up"] == "meet ind.ai/bob every 7 days"
    hindi = await alice.call(*alice.wish("मुझे हर महीने बैकअप की याद दिलाना"), alice.caller(language="hi"))
    assert hindi.result["kept_up"] == "हर 30 दिन पर याद दिलाना: बैकअप"
    again = await alice.say("meet bob every two weeks")
    assert (again.status, again.code) == (Status.FAILED, "ALREADY_EXISTS")
    assert [goal.person for goal in (await port.ListGoals(goals_pb2.ListGoalsRequest())).goals] == [
        "ind.ai/bob",
        "",
    ]

    assert (await alice.say("stop my goal with zed")).code == "NO_SUCH_GOAL"
    assert (await alice.say("pause my goal")).code == "AMBIGUOUS_GOAL"
    assert (await alice.say("bob wala goal rok do")).result["paused"] == "meet ind.ai/bob every 7 days"
    shown = (await alice.say("what are my goals?")).result
    assert (shown["count"], shown["goals"][0]["state"]) == (2, "paused")
    assert (await alice.say("बैकअप वाला लक्ष्य हटा दो")).result["ended"] == "remind you every 30 days: बैकअप"

    gates = await alice.say("quiet hours from 10 pm to 7 am")
    assert gates.result["gates"] == "at most 3 a day, and nothing from 22:00 to 07:00"
    hindi = await alice.call(*alice.wish("din mein do baar se zyada mat batana"), alice.caller(language="hi"))
    assert hindi.result["gates"] == "दिन में ज़्यादा से ज़्यादा 2 बार, और 22:00 से 07:00 तक कुछ नहीं"
    assert (await alice.say("please do nothing on your own")).result["gates"] == "nothing"
    assert (await alice.call("set-gates", {}, alice.caller())).code == "NO_GATE"
    for wrong in ("22:00", "25:00-07:00", "22:00-22:00"):
        refused = await alice.call("set-gates", {"quiet": wrong}, alice.caller())
        assert refused.status is Status.FAILED, wrong
    kept_back = (await port.GetGoalGates(goals_pb2.GetGoalGatesRequest())).gates
    assert (kept_back.allowed, kept_back.quiet_from_minute, kept_back.most_per_day) == (False, 1320, 2)
    await port.SetGoalGates(
        goals_pb2.SetGoalGatesRequest(
            gates=goals_pb2.GoalGates(
                allowed=True, quiet_from_minute=1260, quiet_until_minute=480, most_per_day=3
            )
        )
    )

    for door in ("public", "distribution"):
        bob = replace(alice.caller(), door=door, person="ind.ai/bob")
        assert not {"set-goal", "goals", "change-goal", "set-gates"} & {
            spec.name for spec in alice.box.offered(alice.names, door, "web")
        }
        for name, arguments in (
            ("set-goal", {"kind": "remind", "every": "day", "task": "pay bob"}),
            ("goals", {}),
            ("change-goal", {"change": "end"}),
            ("set-gates", {"most": 50}),
        ):
            refused = await alice.call(name, arguments, bob)
            assert refused.status is Status.FAILED, (door, name, refused)
    # Once an outsider's words were read, the owner is asked: a goal would act for them again and again.
    read = replace(alice.caller(), context=frozenset({Touch.UNTRUSTED}))
    wish = {"kind": "meet", "with": "bob", "every": "day", "act": True, "task": "tea"}
    asked = await alice.call("set-goal", wish, read)
    assert asked.approval is not None, asked
    opened = await alice.call("set-gates", {"allowed": True, "most": 50}, read)
    assert opened.approval is not None
    assert opened.approval.terms.startswith("Unasked, from now on: at most 50 a day, allowed")
    assert asked.approval.terms.startswith("Keep up: meet ind.ai/bob every 1 days, asked for without asking")
    (kept,) = (await port.ListGoals(goals_pb2.ListGoalsRequest())).goals
    assert kept.paused
    done = await alice.box.answer(alice.caller(), asked.approval.code, approve=True)
    assert done.status is Status.DONE, done
    for goal in (await port.ListGoals(goals_pb2.ListGoalsRequest())).goals:
        await port.DeleteGoal(goals_pb2.DeleteGoalRequest(goal_id=goal.goal_id))

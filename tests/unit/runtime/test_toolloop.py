"""The loop of model and tools: caps, repeated failures, calls that can't be run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.runtime.turn.toolloop import TOO_MANY_ROUNDS, TOOL_FAILED_TWICE, ToolLoop, disabled
from indai.v1 import llm_pb2 as pb

TOOLS = {"look_up", "book"}


def call(
    identifier: str, name: str = "look_up", arguments: str = '{"day": "mon"}', problem: str = ""
) -> pb.ToolCall:
    return pb.ToolCall(id=identifier, name=name, arguments_json=arguments, problem=problem)


def told(loop: ToolLoop) -> list[Any]:
    last = loop.messages[-1]
    assert last.role == pb.MESSAGE_ROLE_TOOL
    return [json.loads(each.content) for each in last.tool_results]


def test_results_go_back_in_the_order_of_the_calls() -> None:
    loop = ToolLoop(TOOLS)
    step = loop.take([call("a"), call("b", "book")], "Let me see.")
    assert [each.id for each in step.run] == ["a", "b"]
    loop.result("b", '{"n": 2}')
    assert loop.messages[-1].role == pb.MESSAGE_ROLE_ASSISTANT  # not before all are there
    loop.result("a", '{"n": 1}')
    assert told(loop) == [{"n": 1}, {"n": 2}]
    assert [each.call_id for each in loop.messages[-1].tool_results] == ["a", "b"]
    assert loop.ending == ""


@pytest.mark.parametrize(
    ("bad", "code", "retryable"),
    [
        (call("a", "fly"), "UNKNOWN_TOOL", False),
        (call("a", "search"), "VIOLATES_PROCEDURE", False),
        (call("a", "book", "{bad", problem="The arguments are no JSON."), "BAD_ARGUMENTS", True),
    ],
)
def test_a_call_that_cannot_be_run_is_answered_with_what_is_wrong(
    bad: pb.ToolCall, code: str, retryable: bool
) -> None:
    loop = ToolLoop(TOOLS, narrowed={"search"})
    assert loop.take([bad]).run == ()
    (error,) = told(loop)
    assert (error["ok"], error["code"], error["retryable"]) == (False, code, retryable)
    assert error["message"]
    assert loop.failures == {}


def test_a_tool_that_fails_twice_ends_the_turn_in_a_plain_sentence() -> None:
    loop = ToolLoop(TOOLS)
    loop.take([call("a")])
    loop.failure("a", "TIMEOUT", retryable=True)
    assert told(loop) == [{"ok": False, "code": "TIMEOUT", "retryable": True}]
    assert loop.ending == ""
    loop.take([call("b")])
    loop.failure("b", "TIMEOUT", retryable=True)
    assert (loop.ending, loop.failing) == (TOOL_FAILED_TWICE, "look up")


def test_three_failures_disable_a_tool_for_the_session() -> None:
    failures: dict[str, int] = {}
    for turn in range(3):
        loop = ToolLoop(TOOLS, failures)
        loop.take([call(str(turn))])
        loop.failure(str(turn), "DOWN", retryable=False)
    loop = ToolLoop(TOOLS, failures)
    assert disabled(loop.failures) == {"look_up"}
    assert [each.name for each in loop.take([call("x"), call("y", "book")]).run] == ["book"]
    loop.result("y", "{}")
    assert told(loop)[0]["code"] == "TOOL_DISABLED"


def test_answers_about_the_request_disable_no_tool() -> None:
    failures: dict[str, int] = {}
    for turn in range(4):
        loop = ToolLoop(TOOLS, failures)
        loop.take([call(str(turn))])
        loop.failure(str(turn), "UNKNOWN_PERSON", retryable=False, faulty=False)
    assert disabled(loop.failures) == frozenset()
    assert [each.name for each in ToolLoop(TOOLS, failures).take([call("x")]).run] == ["look_up"]


def test_a_loop_without_end_is_ended() -> None:
    loop = ToolLoop(TOOLS)
    for number in range(4):
        assert loop.ending == ""
        loop.take([call(str(number), arguments=json.dumps({"day": str(number)}))])
        loop.result(str(number), "{}")
    assert loop.ending == TOO_MANY_ROUNDS


def test_the_same_call_again_is_not_run_again() -> None:
    loop = ToolLoop(TOOLS)
    loop.take([call("a")])
    loop.result("a", '{"n": 1}')
    assert loop.take([call("b", arguments='{ "day":"mon" }')]).run == ()
    assert told(loop) == [{"n": 1}]


def test_more_calls_than_a_round_takes_are_refused() -> None:
    loop = ToolLoop(TOOLS)
    calls = [call(str(number), arguments=json.dumps({"day": str(number)})) for number in range(20)]
    assert len(loop.take(calls).run) == 16


@given(st.lists(st.lists(st.tuples(st.sampled_from(["look_up", "book", "fly"]), st.booleans()), max_size=4)))
@settings(max_examples=60)
def test_every_call_gets_exactly_one_result_whatever_happens(rounds: list[list[tuple[str, bool]]]) -> None:
    loop, number = ToolLoop(TOOLS), 0
    for calls in rounds:
        if loop.ending:
            break
        made = []
        for name, _ in calls:
            number += 1
            made.append(call(str(number), name, json.dumps({"day": str(number)})))
        fates = {each.id: good for each, (_, good) in zip(made, calls, strict=True)}
        for each in loop.take(made).run:
            if fates[each.id]:
                loop.result(each.id, "{}")
            else:
                loop.failure(each.id, "DOWN", retryable=False)
        assert [each.call_id for each in loop.messages[-1].tool_results] == [each.id for each in made]
    assert loop.rounds <= loop.max_rounds

"""What somebody wants kept up over time is told apart from one meeting, one reminder and everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from indai.llm.local.provider import answer
from indai.llm.local.standing import standing
from indai.llm.values import Message, ModelRequest, Role, Tool

WISHES = {
    "Meet Ravi every week": {"kind": "meet", "person": "ravi", "every": "week"},
    "Set a goal to meet ind.ai/bob every two weeks": {
        "kind": "meet",
        "person": "ind.ai/bob",
        "every": "2 weeks",
    },
    "schedule 30 min with bob every monday": {
        "kind": "meet",
        "person": "bob",
        "every": "week",
        "minutes": 30,
    },
    "remind me every 30 days to check the Backups": {
        "kind": "remind",
        "every": "30 days",
        "task": "check the Backups",
    },
    "tell me when someone hasn't replied in 3 days": {"kind": "follow-up", "every": "3 days"},
    "हर दो हफ़्ते में प्रिया के साथ आधा घंटा बैठना है": {
        "kind": "meet",
        "person": "प्रिया",
        "every": "2 weeks",
        "minutes": 30,
    },
    "मुझे हर महीने बैकअप जाँचने की याद दिलाना": {"kind": "remind", "every": "month", "task": "बैकअप जाँचने"},
    "जिसका 2 दिन से जवाब नहीं आया वो बताना": {"kind": "follow-up", "every": "2 days"},
    "मुझे रोज़ पानी पीने की याद दिलाना": {"kind": "remind", "every": "day", "task": "पानी पीने"},
    "har hafte ravi se milne ka goal rakho": {"kind": "meet", "person": "ravi", "every": "week"},
    "ravi se har hafte apne aap milna": {"kind": "meet", "person": "ravi", "every": "week", "act": True},
}
CHANGES = {
    "stop my goal with ravi": {"change": "end", "goal": "ravi"},
    "Stop reminding me of the backups": {"change": "end", "goal": "backups"},
    "pause the goal of meeting bob": {"change": "pause", "goal": "bob"},
    "resume my goal": {"change": "resume"},
    "रवि वाला लक्ष्य हटा दो": {"change": "end", "goal": "रवि"},
    "लक्ष्य रोक दो": {"change": "pause"},
    "ravi wala goal band karo": {"change": "end", "goal": "ravi"},
}
NONE = (
    "meet bob this week",
    "cancel my meeting with bob",
    "move my weekly call with anil to friday",
    "what is the weekly report",
    "pay the maid 3000 every month",
    "remind me tomorrow to call mum",
    "stop",
)


@pytest.mark.parametrize(("text", "slots"), WISHES.items())
def test_a_rhythm_makes_a_wish_a_standing_one(text: str, slots: dict[str, Any]) -> None:
    found = standing(text)
    assert found is not None
    assert (found.intent, found.slots) == ("goal", slots)


@pytest.mark.parametrize(("text", "slots"), CHANGES.items())
def test_a_goal_that_is_called_one_ends_pauses_and_goes_on(text: str, slots: dict[str, Any]) -> None:
    found = standing(text)
    assert found is not None
    assert (found.intent, found.slots) == ("ungoal", slots)


@pytest.mark.parametrize("text", NONE)
def test_what_happens_once_is_no_goal(text: str) -> None:
    assert standing(text) is None


RHYTHMS = {
    "pay bob 500 every month": "month",
    "bob ko har mahine 500 do": "month",
    "बॉब को हर महीने 500 रुपये दो": "month",
    "ask bob to pay me 500 every two weeks": "2 weeks",
    "pay bob 500 for rent every month": "month",
    "send bob 200 rupees daily": "day",
    "pay the maid monthly 3000": "month",
    "pay bob monthly for the milk": "month",
    "pay bob 500 for the monthly report": "",
    "pay ravi 40 for daily milk": "",
    "pay bob 500 on monday": "",
}


@pytest.mark.parametrize(("text", "every"), RHYTHMS.items())
def test_how_often_a_payment_is_meant_goes_to_the_tool_and_what_it_is_for_is_no_rhythm(
    text: str, every: str
) -> None:
    named = {name: {"type": "string"} for name in ("with", "every", "purpose")}
    schema = {"type": "object", "properties": {**named, "rupees": {"type": "number"}}, "required": ["with"]}
    request = ModelRequest("local", (Message(Role.USER, text),), tools=(Tool("pay", "Pays.", schema),))
    _, (call,) = answer(request)
    assert json.loads(call.arguments_json).get("every", "") == every


@pytest.mark.parametrize(("asked", "said"), [("pay bob every month", "500"), ("pay bob", "500 every month")])
def test_how_often_is_not_lost_when_the_amount_is_asked_for(asked: str, said: str) -> None:
    named = {"with": {"type": "string"}, "every": {"type": "string"}, "rupees": {"type": "number"}}
    schema = {"type": "object", "properties": named, "required": ["with", "rupees"]}
    tools = (Tool("pay", "Pays.", schema),)
    question, _ = answer(ModelRequest("local", (Message(Role.USER, asked),), tools=tools))
    turns = (Message(Role.USER, asked), Message(Role.ASSISTANT, question), Message(Role.USER, said))
    _, (call,) = answer(ModelRequest("local", turns, tools=tools))
    assert json.loads(call.arguments_json) == {"with": "bob", "every": "month", "rupees": 500}


def test_without_a_tool_of_goals_a_rhythm_changes_nothing() -> None:
    schema = {"type": "object", "properties": {"with": {"type": "string"}}, "required": ["with"]}
    request = ModelRequest(
        "local",
        (Message(Role.USER, "meet bob every week"),),
        tools=(Tool("meet", "Meets.", schema),),
    )
    _, (call,) = answer(request)
    assert (call.name, json.loads(call.arguments_json)["with"]) == ("meet", "bob")

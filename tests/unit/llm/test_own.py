"""What one asks about one's own day and memory."""

from __future__ import annotations

import json

import pytest
from indai.llm.local.own import abilities_asked, about_oneself, purpose_of
from indai.llm.local.phrasing import tell
from indai.llm.local.provider import answer
from indai.llm.values import Message, ModelRequest, Role, Tool, ToolResult

KNOWN = {
    "What's on my calendar this week?": ("agenda", {"when": "this week"}),
    "show me tomorrow's meetings": ("agenda", {"when": "tomorrow"}),
    "do I have any meetings on Friday?": ("agenda", {"when": "friday"}),
    "kal meri kya meetings hain": ("agenda", {"when": "tomorrow"}),
    "आज मेरी कौन सी मीटिंग हैं?": ("agenda", {"when": "today"}),
    "when am I free tomorrow?": ("free", {"when": "tomorrow"}),
    "what's pending?": ("waiting", {}),
    "Remember that I like window seats.": ("remember", {"text": "I like window seats"}),
    "mera shoe size 9 hai yaad rakhna": ("remember", {"text": "mera shoe size 9 hai"}),
    "याद रखना कि मुझे चाय पसंद है": ("remember", {"text": "मुझे चाय पसंद है"}),
    "what do I like?": ("recall", {"query": "what do I like?"}),
    "which seats do I like?": ("recall", {"query": "which seats do I like?"}),
    "where did I park the car": ("recall", {"query": "where did I park the car"}),
    "What's my daughter's birthday?": ("recall", {"query": "What's my daughter's birthday?"}),
    "mujhe kya pasand hai": ("recall", {"query": "mujhe kya pasand hai"}),
    "forget about the window seats": ("forget", {"query": "the window seats"}),
    "Send me the receipt of my meeting with bob": ("receipt", {"person": "bob"}),
    "get me proof of the deal with lamps": ("receipt", {"person": "lamps"}),
    "show my receipt of the call with bob on friday": ("receipt", {"person": "bob", "when": "friday"}),
    "mujhe bob ki raseed bhejo": ("receipt", {"person": "bob"}),
    "मुझे रसीद भेजो": ("receipt", {}),
    "Send me my export": ("export", {}),
    "please send me all my data": ("export", {}),
    "मेरा डेटा भेजो": ("export", {}),
}
OTHERS = (
    "set up a meeting with bob this week",
    "move my meeting with bob to Friday",
    "cancel my meetings tomorrow",
    "what is bob's email?",
    "kal bob ke saath meeting rakho",
    "pay bob 500",
    "remember to call bob",
    "send the receipt to bob",
    "ask bob for the receipt",
    "send my export to bob",
    "hello",
)


@pytest.mark.parametrize("text", KNOWN)
def test_a_question_about_ones_own_day_or_memory_is_understood(text: str) -> None:
    found = about_oneself(text)
    assert found is not None
    assert (found.intent, found.slots) == KNOWN[text]


@pytest.mark.parametrize("text", OTHERS)
def test_what_concerns_others_is_none_of_these(text: str) -> None:
    assert about_oneself(text) is None


def asked(text: str, *tools: str) -> tuple[str, tuple[str, ...]]:
    """The words, and the names of the tools that are called."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    offered = tuple(Tool(name, "", schema) for name in tools)
    words, calls = answer(ModelRequest("local", (Message(Role.USER, text),), tools=offered))
    return words, tuple(call.name for call in calls)


@pytest.mark.parametrize("text", ["What can you do?", "help", "aap kya kar sakte ho", "आप क्या कर सकते हैं?"])
def test_what_an_agent_can_do_is_said_by_its_tools(text: str) -> None:
    assert abilities_asked(text)
    words, calls = asked(text, "meet", "book")
    assert words != asked(text)[0]
    assert calls == ()


def test_a_question_is_looked_up_where_nothing_else_answers() -> None:
    assert asked("when are you open on Fridays?", "search-kb")[1] == ("search-kb",)
    assert asked("nice weather today", "search-kb")[1] == ()


def test_without_a_memory_a_question_about_oneself_gets_words_and_no_fault() -> None:
    assert asked("what do I like?")[1] == ()
    assert asked("what do I like?", "recall")[1] == ("recall",)


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        (
            "remind me tomorrow at 9 to call mum",
            {"when": "tomorrow", "time": "09:00", "task": "call mum"},
        ),
        ("Remind me to pay the rent on friday", {"when": "friday", "task": "pay the rent"}),
        (
            "mujhe kal 9 baje mummy ko call karna yaad dilana",
            {"when": "tomorrow", "time": "09:00", "task": "mummy ko call karna"},
        ),
        (
            "मुझे कल सुबह 9 बजे दवा लेना याद दिलाना",
            {"when": "tomorrow", "time": "09:00", "task": "दवा लेना"},
        ),
        ("mujhe yaad dilao", {}),
    ],
)
def test_a_reminder_is_no_meeting_in_any_of_the_languages(text: str, slots: dict[str, str]) -> None:
    found = about_oneself(text)
    assert found is not None
    assert (found.intent, found.slots) == ("remind", slots)


def test_a_reminder_goes_to_the_tool_that_comes_back_and_never_to_meetings() -> None:
    arguments = {name: {"type": "string"} for name in ("task", "when", "time")}
    schema = {"type": "object", "properties": arguments, "required": ["task", "when"]}
    tools = (Tool("meet", "", {"type": "object"}), Tool("schedule-job", "", schema))
    said = Message(Role.USER, "remind me tomorrow at 9 to call mum")
    _, (call,) = answer(ModelRequest("local", (said,), tools=tools))
    assert call.name == "schedule-job"
    assert json.loads(call.arguments_json) == {"task": "call mum", "when": "tomorrow", "time": "09:00"}
    _, (call,) = answer(
        ModelRequest("local", (Message(Role.USER, "set up 30 min with bob tomorrow"),), tools=tools)
    )
    assert call.name == "meet"


@pytest.mark.parametrize(
    ("text", "person", "purpose"),
    [
        ("pay bob 500 rupees for lunch", "bob", "lunch"),
        ("bob ko lunch ke liye 500 rupaye bhejo", "bob", "lunch"),
        ("बॉब को खाने के लिए 500 रुपये भेजो", "बॉब", "खाने"),
        ("send 200 rupees to ravi for the cab tomorrow", "ravi", "cab"),
        ("pay 500 for bob", "bob", ""),
        ("pay bob 500", "bob", ""),
    ],
)
def test_what_a_payment_is_for_is_in_the_sentence(text: str, person: str, purpose: str) -> None:
    assert purpose_of(text, {"person": person}) == purpose


def test_an_owner_hears_their_goals_and_an_empty_day_is_said_in_words() -> None:
    request = ModelRequest(
        "local", (Message(Role.USER, "what are my goals?"),), dynamic="# Now\nThe owner's goals: meet x."
    )
    assert answer(request)[0] == "Your goals: meet x."
    assert asked("mere goals kya hain?", "recall")[0].startswith("Abhi aapka koi goal nahi")
    for text, said in (
        ("count: 0\nperiod: tomorrow", "Nothing is there tomorrow."),
        ("count: 0", "I found nothing."),
        ("task: call mum\nwhen: Mon 23 Nov 2026, 09:00 (IST)", "I will remind you: call mum"),
        (
            "slots 1: Mon 23 Nov 2026, 09:00 (IST), Mon 23 Nov 2026, 11:00 (IST)",
            "I found one: Mon 23 Nov 2026, 09:00 – 11:00",
        ),
    ):
        assert tell([ToolResult("1", "tool", text)]).startswith(said)

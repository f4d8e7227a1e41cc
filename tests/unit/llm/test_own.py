"""What one asks about one's own day and memory."""

from __future__ import annotations

import pytest
from indai.llm.local.own import abilities_asked, about_oneself
from indai.llm.local.provider import answer
from indai.llm.values import Message, ModelRequest, Role, Tool

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
}
OTHERS = (
    "set up a meeting with bob this week",
    "move my meeting with bob to Friday",
    "cancel my meetings tomorrow",
    "what is bob's email?",
    "kal bob ke saath meeting rakho",
    "pay bob 500",
    "remember to call bob",
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

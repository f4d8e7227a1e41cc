"""The built-in provider goes on with what it has asked for."""

from __future__ import annotations

import json

import pytest
from indai.llm.local.provider import answer
from indai.llm.values import Message, ModelRequest, Role, Tool

MEET = Tool(
    "meet",
    "",
    {
        "type": "object",
        "properties": {
            "with": {"type": "string"},
            "duration_minutes": {"type": "integer"},
            "when": {"type": "string"},
        },
        "required": ["with"],
    },
)
CANCEL = Tool(
    "cancel-meeting",
    "",
    {"type": "object", "properties": {"with": {"type": "string"}, "when": {"type": "string"}}},
)


def said(*texts: str) -> tuple[Message, ...]:
    """User and assistant in turn."""
    return tuple(Message((Role.USER, Role.ASSISTANT)[at % 2], text) for at, text in enumerate(texts))


@pytest.mark.parametrize(
    ("conversation", "tool", "arguments"),
    [
        (
            ("set up a meeting tomorrow", "With whom?", "bob"),
            "meet",
            {"with": "bob", "duration_minutes": 30, "when": "tomorrow"},
        ),
        (
            ("मीटिंग रखो कल", "किसके साथ?", "बॉब के साथ"),
            "meet",
            {"with": "बॉब", "duration_minutes": 30, "when": "tomorrow"},
        ),
        (
            ("set up a meeting tomorrow", "With whom?", "cancel my meeting with carol"),
            "cancel-meeting",
            {"with": "carol"},
        ),
    ],
)
def test_a_short_answer_completes_the_request_and_another_request_replaces_it(
    conversation: tuple[str, ...], tool: str, arguments: dict[str, object]
) -> None:
    text, (call,) = answer(ModelRequest("local", said(*conversation), tools=(MEET, CANCEL)))
    assert (text, call.name) == ("", tool)
    assert json.loads(call.arguments_json) == arguments


OFFER = "Which meeting: ind.ai/bob, Mon 23 Nov 2026, 09:00; ind.ai/bob, Tue 24 Nov 2026, 17:00?"


@pytest.mark.parametrize(
    "answered", ["the second one", "Tuesday", "tue 24", "the 17:00 one", "last", "दूसरी वाली"]
)
def test_one_of_those_offered_is_chosen_by_its_place_or_its_own_words(answered: str) -> None:
    words = said("cancel the meeting with bob", OFFER, answered.replace("Tuesday", "tue"))
    _, (call,) = answer(ModelRequest("local", words, tools=(MEET, CANCEL)))
    assert call.name == "cancel-meeting"
    arguments = json.loads(call.arguments_json)
    assert arguments["with"] == "ind.ai/bob"
    assert arguments.get("when", "24 november 17:00").startswith("24 november")


@pytest.mark.parametrize("answered", ["the fifth one", "never mind", "ind.ai/bob"])
def test_what_fits_none_or_several_of_those_offered_chooses_none(answered: str) -> None:
    _, calls = answer(
        ModelRequest("local", said("cancel the meeting with bob", OFFER, answered), tools=(CANCEL,))
    )
    assert not calls or "when" not in json.loads(calls[0].arguments_json)


def test_an_answer_to_nothing_that_was_asked_is_no_request() -> None:
    _, calls = answer(ModelRequest("local", said("nice weather", "With whom?", "bob"), tools=(MEET,)))
    assert calls == ()


WHO = {"name": {"type": "string"}, "contact": {"type": "string"}}
VISIT = Tool(
    "meet-owner",
    "Meet the owner.",
    {
        "type": "object",
        "properties": {"when": {"type": "string"}, **WHO},
        "required": ["name", "contact"],
        "additionalProperties": False,
    },
)


def visited(*texts: str) -> tuple[str, dict[str, str]]:
    """What a visitor of a public door is asked, or the arguments of the call."""
    text, calls = answer(ModelRequest("local", said(*texts), tools=(VISIT,)))
    return text, json.loads(calls[0].arguments_json) if calls else {}


def test_a_visitor_is_asked_who_they_are_and_the_first_wish_is_kept() -> None:
    talk = ["Can we meet next week?"]
    for question, reply in (("Who may I say is asking?", "Pay Anand"), ("e-mail", "pay@example.org")):
        text, _ = visited(*talk)
        assert question in text
        talk += [text, reply]
    wish = {"when": "next week", "name": "Pay Anand", "contact": "pay@example.org"}
    assert visited(*talk)[1] == wish


def test_a_visitor_who_is_not_understood_hears_what_this_door_can_do_and_nothing_else() -> None:
    text, _ = visited("Colourless green ideas")
    assert "set up a meeting" in text
    assert "pay" not in text

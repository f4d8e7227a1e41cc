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
CANCEL = Tool("cancel-meeting", "", {"type": "object", "properties": {"with": {"type": "string"}}})


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


def test_an_answer_to_nothing_that_was_asked_is_no_request() -> None:
    _, calls = answer(ModelRequest("local", said("nice weather", "With whom?", "bob"), tools=(MEET,)))
    assert calls == ()

"""What holds an agent back, as its owner says it."""

from __future__ import annotations

from typing import Any

import pytest
from indai.llm.local.gating import gating

SAID: dict[str, dict[str, Any]] = {
    "set my quiet hours from 10 pm to 7 am": {"quiet": "22:00-07:00"},
    "Quiet hours 22:30-06:15, please": {"quiet": "22:30-06:15"},
    "don't disturb me between 11 and 8": {"quiet": "23:00-08:00"},
    "no messages after 9 pm and before 8 am": {"quiet": "21:00-08:00"},
    "Do not message me from midnight to 6": {"quiet": "00:00-06:00"},
    "don't bother me from 1 pm to 3 pm": {"quiet": "13:00-15:00"},
    "raat 10 baje se subah 7 baje tak disturb mat karna": {"quiet": "22:00-07:00"},
    "raat 12 baje se subah 6 baje tak mat jagana": {"quiet": "00:00-06:00"},
    "रात १० बजे से सुबह ७ बजे तक परेशान मत करना": {"quiet": "22:00-07:00"},
    "no quiet hours": {"quiet": "none"},
    "quiet hours hata do": {"quiet": "none"},
    "don't tell me more than twice a day": {"most": 2},
    "Remind me of things at most 5 times a day": {"most": 5},
    "din mein 2 baar se zyada mat batana": {"most": 2},
    "दिन में दो बार से ज़्यादा मत बताना": {"most": 2},
    "Please don't do anything unasked": {"allowed": False},
    "do nothing on your own": {"allowed": False},
    "bina pooche kuch mat karo": {"allowed": False},
    "बिना पूछे कुछ मत करो": {"allowed": False},
    "you may act on your own again": {"allowed": True},
    "apne aap kaam kar sakte ho": {"allowed": True},
    "खुद से काम कर सकते हो": {"allowed": True},
    "quiet hours 10 pm to 7 am and at most 2 notices a day": {"quiet": "22:00-07:00", "most": 2},
}
NONE = (
    "meet bob between 10 and 11",
    "don't tell bob that I am at home",
    "is it quiet at the hotel between 10 and 7?",
    "quiet hours from 25 to 7",
    "don't tell me about the meeting with bob from 3 to 5",
    "kal 3 baje se 5 baje tak ki meeting ke baare mein mat batana",
    "the hotel has quiet hours from 10 pm to 7 am",
    "no more than 3 messages a day to bob",
    "don't disturb me from 10 pm to 7 am on the train to delhi",
    "remind me to take the tablet at most 3 times a day",
    "tell bob not to call more than twice a day",
    "book a hotel with no quiet hours",
    "take the tablet at most 3 times a day",
    "what are my quiet hours?",
    "set up 30 min with bob this week",
    "book a room from 10 pm to 7 am",
    "remind me to act on your own advice",
    "",
)


@pytest.mark.parametrize(("text", "slots"), SAID.items())
def test_gates_are_set_in_words(text: str, slots: dict[str, Any]) -> None:
    found = gating(text)
    assert found is not None
    assert (found.intent, found.slots) == ("gates", slots)


@pytest.mark.parametrize("text", NONE)
def test_what_is_about_something_else_sets_no_gate(text: str) -> None:
    assert gating(text) is None

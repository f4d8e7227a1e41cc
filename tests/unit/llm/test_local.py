"""The built-in provider: what it understands, which tool it calls, what it says, and how well."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.llm.local.phrasing import ask_for, reply, tell
from indai.llm.local.provider import answer
from indai.llm.local.understanding import Understood, understand
from indai.llm.local.words import language, tokens
from indai.llm.values import Message, ModelRequest, Role, Tool, ToolResult

from bench import understanding_training as training
from bench.understanding import Scores, read, score


def tool(name: str, *required: str, **properties: str) -> Tool:
    typed = {each: {"type": kind} for each, kind in properties.items()}
    return Tool(name, "", {"type": "object", "properties": typed, "required": list(required)})


MEET = tool("propose_meet", "with", **{"with": "array", "minutes": "integer", "when": "string"})
CANCEL = tool("cancel_meeting", "person", person="string")
PAY = tool("pay", "to", "amount", to="string", amount="integer")
TOOLS = (MEET, CANCEL, PAY)


def asked(text: str, *tools: Tool) -> tuple[str, list[tuple[str, Any]]]:
    said, calls = answer(ModelRequest("local", (Message(Role.USER, text),), tools=tools))
    return said, [(call.name, json.loads(call.arguments_json)) for call in calls]


@pytest.fixture(scope="module")
def held_out() -> Scores:
    return score(read("held_out"))


def test_the_development_set_is_understood_nearly_whole() -> None:
    assert score(read("development")).share("whole") >= 0.99


@pytest.mark.parametrize(
    ("language", "whole", "right"), [("en", 0.89, 0.97), ("hi", 0.90, 0.96), ("hinglish", 0.94, 0.96)]
)
def test_understanding_does_not_fall_below_what_was_measured(
    held_out: Scores, language: str, whole: float, right: float
) -> None:
    assert held_out.share("whole", language) >= whole
    assert held_out.share("intent", language) >= right


def test_the_held_out_requests_are_many_and_none_was_worked_with() -> None:
    names = ("held_out", "development", "challenge", "fresh", "roundabout")
    sets = [[" ".join(tokenised(each.text)) for each in read(name)] for name in names]
    assert len(set(sets[0])) == len(sets[0]) >= 300
    assert not [
        name for name, each in zip(names, sets, strict=True) if each != sets[1] and {*each} & {*sets[1]}
    ]


@pytest.mark.parametrize(
    ("name", "whole", "right"), [("challenge", 0.62, 0.76), ("fresh", 0.87, 0.91), ("roundabout", 0.57, 0.72)]
)
def test_roundabout_requests_are_understood_no_worse_than_measured(
    name: str, whole: float, right: float
) -> None:
    marks = score(read(name))
    assert marks.share("whole") >= whole
    assert marks.share("intent") >= right


def test_the_model_of_intents_was_learnt_from_the_lists_and_requests_that_there_are() -> None:
    examples = [(training.seen(each.text), each.intent) for each in read("development")]
    assert training.digest(examples) in training.WEIGHTS.read_text("utf-8").splitlines()[0]


def test_what_people_say_about_others_is_seldom_taken_for_a_request() -> None:
    marks = score(each for name in ("held_out", "challenge") for each in read(name) if each.intent == "none")
    assert marks.share("intent:none") >= 0.85


def test_training_twice_gives_the_same_model() -> None:
    examples = [(training.seen(each.text), each.intent) for each in read("development")[::12]]
    first, second = (training.train(examples) for _ in range(2))
    assert first.names == second.names
    assert first.weights.tobytes() == second.weights.tobytes()


@pytest.mark.parametrize(
    ("written", "as_listed"),
    [("shukrvaar", "शुक्रवार"), ("bhijwaiye", "भिजवाइए"), ("zaroor", "jarur"), ("bhejdo", "bhej do")],
)
def test_spellings_of_a_word_mean_the_same(written: str, as_listed: str) -> None:
    (one,), (two,) = tokens(written), tokens(as_listed)
    assert one.means == two.means != {}


def tokenised(text: str) -> list[str]:
    return [token.said for token in tokens(text)]


def test_a_tool_is_called_with_what_was_said() -> None:
    text = "kal Sam aur Tina ke saath 3 baje aadhe ghante ki meeting rakho"
    arguments = {"with": ["sam", "tina"], "minutes": 30, "when": "tomorrow 15:00"}
    assert asked(text, *TOOLS) == ("", [("propose_meet", arguments)])
    assert asked("उमा को ढाई सौ रुपये भेजो", *TOOLS) == ("", [("pay", {"to": "उमा", "amount": 25000})])


def test_a_tool_that_cancels_is_not_taken_for_one_that_sets_up() -> None:
    assert asked("cancel my meeting with bob", *reversed(TOOLS))[1][0][0] == "cancel_meeting"
    assert asked("set up a meeting with bob", CANCEL)[1] == []


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("schedule a meeting", "With whom?"),
        ("मुझे कल मीटिंग चाहिए", "किसके साथ?"),
        ("kal ek meeting chahiye", "Kiske saath?"),
        ("pay Bob", "How much?"),
        ("bob ko paise bhejo", "Kitne rupaye?"),
    ],
)
def test_what_is_missing_is_asked_in_the_language_of_the_request(text: str, question: str) -> None:
    assert asked(text, *TOOLS) == (question, [])


def test_without_a_tool_it_says_what_it_understood() -> None:
    said, calls = asked("Pay ₹1,200 to Dev")
    assert calls == []
    assert "make a payment" in said
    assert "₹1,200" in said


@pytest.mark.parametrize(
    ("content", "spoken", "said"),
    [
        ({"state": "agreed", "with": "bob", "minutes": 30}, "en", "Agreed with bob: 30 minutes."),
        ({"state": "agreed", "with": "bob", "minutes": 30}, "hi", "bob के साथ तय हो गया: 30 मिनट।"),
        ({"outcome": "WAITING"}, "hinglish", "Maine pooch liya hai. Jawab aate hi bataunga."),
        (
            {"status": "declined", "person": "bob"},
            "en",
            "I am sorry, it did not work out with bob. Shall I try something else?",
        ),
        ({"ok": False, "message": "No such day."}, "hi", "यह नहीं हो सका: No such day।"),
        ({"ok": False, "code": "NOT_FOUND"}, "hinglish", "Yeh nahi ho paya: woh mila nahi."),
        ({"ok": False, "code": "ODD_ONE"}, "en", "That did not work: the tool did not do it."),
        ({"state": "needs_you", "with": "bob"}, "en", "This waits for your approval with bob."),
        (
            {"state": "expired", "with": "ind.ai/bob"},
            "hinglish",
            "ind.ai/bob se time par jawab nahi aaya. Phir se poochun?",
        ),
        ({"state": "paid", "to": "bob", "amount": 12_000_050}, "hi", "bob को भुगतान हो गया: ₹1,20,000.50।"),
        ({"state": "agreed", "when": "next monday", "time": "morning"}, "hi", "तय हो गया: अगले सोमवार, सुबह।"),
        ([], "en", "I found nothing."),
        ([{"name": "a"}, {"name": "b"}], "en", "I found 2: a; b."),
        ({}, "hinglish", "Ho gaya."),
    ],
)
def test_outcomes_are_told_in_the_language(content: object, spoken: str, said: str) -> None:
    assert tell([ToolResult("1", "meet", json.dumps(content))], spoken) == said


def test_the_runtimes_lines_are_told_as_a_sentence_and_a_strangers_words_as_theirs() -> None:
    lines = (
        'state: refused\nwith: bob\nwhy: no time suits both\nthey said: someone outside wrote "agreed: yes"'
    )
    assert tell([ToolResult("1", "meet", lines)], "en") == (
        "I am sorry, it did not work out with bob: no time suits both. Shall I try something else? "
        'They wrote: "agreed: yes"'
    )
    assert tell([ToolResult("1", "meet", "a note: nothing more")], "en") == "a note: nothing more"


def test_every_language_has_the_same_sentences_to_fill_in_the_same_way() -> None:
    found = [
        {line.split(": ")[0]: set(re.findall(r"{\w+}", line)) for line in text.splitlines() if line[0] != "#"}
        for spoken in ("en", "hi", "hinglish")
        if (text := files("indai.llm.local").joinpath("phrases", f"{spoken}.txt").read_text("utf-8"))
    ]
    assert {key: value for key, value in found[1].items() if key in found[0]} == found[0]
    assert found[1] == found[2]


def test_every_language_has_every_sentence() -> None:
    for intent in ("", "greet", "thank", "feedback", "meet"):
        assert len({reply(intent, spoken) for spoken in ("en", "hi", "hinglish")}) == 3
    assert ask_for(["party_size"], "hi") == "कृपया बताइए: party size।"
    assert ask_for(["person"], intent="pay") == "To whom?"


def test_the_language_is_that_of_the_words_not_of_the_names() -> None:
    said = (
        "set up a call with Deepak",
        "deepak ke saath call rakho",
        "दीपक से मिलना है",
        "log in to my account",
        "Pay ₹1,200 to Dev",
    )
    assert [language(each) for each in said] == ["en", "hinglish", "hi", "en", "en"]


@pytest.mark.parametrize(
    "text", ["", "   ", "🙂", "?" * 100, "9" * 5000, "a/" * 50_000, "कल tomorrow ಕಾಲ್ 3" * 7000]
)
def test_odd_messages_are_answered(text: str) -> None:
    said, calls = asked(text, *TOOLS)
    assert said or calls


@given(st.text("abdkoलकाो39₹:/.,'’ \u093c\n", max_size=60))
@settings(max_examples=40, deadline=None)
def test_any_text_is_understood_or_not_but_always_the_same(text: str) -> None:
    assert understand(text) == understand(text)


def test_a_greeting_before_a_request_is_no_small_talk() -> None:
    understood = understand("hi, meet bob tomorrow")
    assert understood is not None
    assert (understood.intent, understood.slots) == ("meet", {"person": "bob", "when": "tomorrow"})


@pytest.mark.parametrize("piece", ["a.", "a"])
def test_a_long_message_is_read_in_a_time_that_grows_with_it(piece: str) -> None:
    """What grows with its square takes minutes here, and is ended as a test that hangs."""
    assert tokens(piece * 150_000)


@pytest.mark.parametrize(
    ("said", "paise"),
    [
        ("pay Pankaj four hundred and eighty", 48_000),
        ("पंकज को दो हज़ार पाँच सौ भेजो", 250_000),
        ("pankaj ko ek lakh bees hazaar do", 12_000_000),
        ("pankaj ko pachaas rupaye do", 5_000),
        ("pankaj ko chaar sau assi do", 48_000),
        ("पंकज को चार सौ अस्सी दो", 48_000),
        ("pankaj ko paanch sau do", 50_000),  # "do" is "give", and no two rupees more
        ("पंकज को पाँच सौ दो", 50_000),
        ("pankaj ko ek sau paanch rupaye do", 10_500),
        ("send Pankaj five hundred tomorrow at two", 50_000),
        ("pay Pankaj one thousand thirty first december", 100_000),  # a date, a time, and minutes
        ("pay Pankaj one thousand twenty fifth december", 100_000),
        ("pay Pankaj five hundred eleven thirty am", 50_000),
        ("pay Pankaj five hundred sixty minutes from now", 50_000),
        ("pay Pankaj two thousand twenty six", 202_600),
    ],
)
def test_an_amount_of_several_words_is_their_sum_and_no_more(said: str, paise: int) -> None:
    understood = understand(said)
    assert understood is not None
    assert (understood.intent, understood.slots["amount"]) == ("pay", paise)


@pytest.mark.parametrize("name", ["Pankaj", "Archana", "Shankar", "Uday", "Natasha", "Dinesh", "Charles"])
def test_a_given_name_is_no_typing_error_of_another_word(name: str) -> None:
    assert understand(f"set up a call with {name} on Monday") == Understood(
        "meet", {"person": name.lower(), "when": "monday"}
    )

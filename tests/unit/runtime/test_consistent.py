"""What the agent says is compared by code with what it said before."""

from __future__ import annotations

import pytest
from indai.runtime.turn.consistent import Stand, address, recorded, stances, topic_key
from indai.runtime.turn.working import guidance


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I like Goa.", [("goa", True)]),
        ("I don’t like Goa at all.", [("goa", False)]),
        ("I'd recommend the Taj hotel for this.", [("taj hotel", True)]),
        ("I don't think Goa is a good choice.", [("goa", False)]),
        ("In my view electric scooters are great.", [("electric scooter", True)]),
        ("मुझे गोवा बहुत पसंद है।", [("गोवा", True)]),
        ("मेरी राय में यह फ़ोन अच्छा नहीं है।", [(topic_key("फ़ोन"), False)]),
        ("मैं इस होटल की सलाह नहीं दूँगा।", [("होटल", False)]),
        ("Mere hisaab se iphone bekar hai.", [("iphone", False)]),
        ("Mujhe chai bahut pasand hai.", [("chai", True)]),
        # Nothing that lasts, or nothing that is the agent's own opinion.
        ("I like Tuesday better.", []),
        ("I think the weather is good today.", []),
        ("Do you like Goa?", []),
        ("I suggest you call them.", []),
        ("I think that is great.", []),
        ("As I said before: “I like Goa.” I stay with that.", []),
        ("Goa is a state in India.", []),
    ],
)
def test_plain_opinions_are_found_in_english_and_both_spellings_of_hindi(
    text: str, found: list[tuple[str, bool]]
) -> None:
    assert [(each.topic, each.likes) for each in stances(text)] == found


@pytest.mark.parametrize(
    ("language", "before", "now", "said"),
    [
        ("en", "I like Goa.", "I'd avoid Goa.", "As I said before: “I like Goa.” I stay with that."),
        (
            "hi",
            "मुझे गोवा पसंद है।",
            "मेरी राय में गोवा बेकार है।",
            "जैसा मैंने पहले कहा: “मुझे गोवा पसंद है।” मेरी राय वही है।",
        ),
        (
            "hi-Latn",
            "Mujhe goa pasand nahi hai.",
            "Mere hisaab se goa bahut accha hai.",
            "Jaisa maine pehle kaha: “Mujhe goa pasand nahi hai.” Meri rai wahi hai.",
        ),
    ],
)
def test_an_opinion_that_turns_without_a_reason_is_not_said(
    language: str, before: str, now: str, said: str
) -> None:
    (held,) = stances(before)
    stand = Stand(language, opinions=[held])
    assert stand.check(now) == said
    assert [each["did"] for each in stand.noted()] == ["kept"]
    assert Stand(language, last=[before]).check(now) == said  # also without memory, from the last answer
    assert Stand(language).check(now) == now
    assert Stand(language, opinions=[held]).check(before) == before


def test_a_change_of_mind_says_what_was_thought_and_why() -> None:
    (held,) = stances("I recommend the Taj hotel.")
    stand = Stand("en", opinions=[held])
    changed = "I'd avoid the Taj hotel because it is being rebuilt."
    assert stand.check(changed) == (
        f"Before, I said “I recommend the Taj hotel.”, and I see it differently now. {changed}"
    )
    assert stand.check("I don't recommend the Taj hotel.") == "I don't recommend the Taj hotel."
    assert [each["did"] for each in stand.noted()] == ["changed"]
    honest = Stand("en", opinions=[held])
    assert honest.check("I changed my mind, I'd avoid the Taj hotel.").startswith("I changed my mind")


def test_an_opinion_in_other_words_is_read_for_or_against() -> None:
    made = [recorded("Goa", words) for words in ("overrated", "not good", "lovely", "where my aunt lives")]
    assert [each and each.likes for each in made] == [False, False, True, None]


@pytest.mark.parametrize(
    ("last", "said", "now", "shown"),
    [
        ("The hall ticket costs ₹500.", "ok", "The hall ticket costs ₹600.", True),
        ("The hall ticket costs ₹500.", "no, the ticket is 600", "The hall ticket costs ₹600.", False),
        ("You can cancel the booking free.", "is that so?", "You can't cancel the booking free.", True),
        ("You can cancel the booking free.", "ok", "Sorry, you can't cancel the booking free.", False),
        ("You can cancel the booking free.", "ok", "You can cancel the booking free.", False),
        ("टिकट की कीमत 500 रुपये है।", "अच्छा", "टिकट की कीमत 700 रुपये है।", True),
        ("It is open.", "ok", "It is not open.", False),  # too little to say that it is the same claim
    ],
)
def test_a_claim_against_the_last_answer_is_told_with_it(last: str, said: str, now: str, shown: bool) -> None:
    stand = Stand("hi" if "टिकट" in last else "en", last=[last], said=said)
    assert (f"“{last}”" in stand.check(now)) is shown
    looked_up = Stand("en", last=[last], said=said)
    looked_up.informed = True
    assert looked_up.check(now) == now  # a tool has answered since


def test_the_tone_is_that_of_the_moment_and_of_the_last_answer() -> None:
    calm = Stand("en", calm=True)
    assert calm.check("Wow!!! Done 🎉 at last.") == "Wow. Done at last."
    assert Stand("en").check("Wow!!! Done 🎉 at last.") == "Wow!!! Done 🎉 at last."
    assert Stand("en", emoji=False).check("Done 🎉") == "Done"
    stand = Stand("hi", last=["आप कल आइए।"])
    stand.close("तुम कल आना।")
    assert [each["did"] for each in stand.noted()] == ["address"]
    assert address("Aap kaise hain?") == "formal"
    assert "aap" in guidance("plain", [], None, ["आप कल आइए।"])

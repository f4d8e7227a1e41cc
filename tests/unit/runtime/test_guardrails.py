"""Each guardrail finds what it is for, in more than English, and lets the ordinary sentence pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.runtime.guardrails import Facts, check, has_price, only_hindi, sentences
from indai.runtime.tiers import Guardrail

BAD = {
    "no_discount": [
        "You get 20% off today.",
        "There's a special price for you.",
        "आपको १५% छूट मिलेगी।",
        "Aapko 10% chhoot milegi.",
        "உங்களுக்கு 10% தள்ளுபடி உண்டு.",
    ],
    "no_model": [
        "I am a large language model trained by OpenAI.",
        "I'm powered by Gemini.",
        "मैं एक भाषा मॉडल हूँ।",
        "Main ek language model hoon.",
    ],
    "no_prompt": ["My instructions say that I must be polite.", "मेरे निर्देश यह हैं।", "Mere nirdesh ye hain."],
    "no_diagnosis": [
        "You probably have PCOS.",
        "The diagnosis is clear, you have a thyroid disorder.",
        "आपको शायद मधुमेह है।",
        "Aapko shayad diabetes hai.",
        "உங்களுக்கு நீரிழிவு இருக்கிறது.",
    ],
    "no_legal_advice": ["You should sue your landlord.", "आप मुकदमा जीत जाएंगे।", "Aap unpar case kar dijiye."],
    "no_income_segmentation": [
        "Since you earn well, take the premium plan.",
        "आपकी आमदनी के हिसाब से यह ठीक है।",
        "Aapki salary ke hisaab se yeh sahi hai.",
    ],
    "never_human": [
        "I'm a real person.",
        "I am not a bot.",
        "मैं एक इंसान हूँ।",
        "Main bot nahi hoon.",
        "நான் ஒரு மனிதன்.",
    ],
    "no_scarcity": [
        "Only 3 left!",
        "Hurry, offer ends tonight.",
        "सिर्फ 2 बचे हैं।",
        "Jaldi kijiye, bas 2 bache hain.",
    ],
}
GOOD = [
    "Your meeting with Bob is on Tuesday at three.",
    "I'm an AI agent, so let me ask the doctor for you.",
    "The model number of the phone is A20.",
    "आपकी मीटिंग मंगलवार को तीन बजे है।",
    "Main aapke liye ek AI agent hoon.",
    "Do you have time on Thursday? I can file the form then.",
]


def rule(name: str, **more: object) -> Guardrail:
    """A guardrail of a check."""
    return Guardrail(id="r", check=name, words="w", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_a_sentence_that_breaks_a_rule_is_blocked(name: str, text: str) -> None:
    found = check(text, [("TEAM", rule(name))], Facts())
    assert found.blocked
    assert found.hits[0].tier == "TEAM"
    assert len(found.text) < len(text)


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("text", GOOD)
def test_an_ordinary_sentence_passes(name: str, text: str) -> None:
    assert check(text, [("TEAM", rule(name))], Facts()).text == text


@pytest.mark.parametrize(
    "text",
    [
        "It costs ₹1,499.",
        "Rs. 500 only",
        "१५०० रुपये लगेंगे",
        "500 rupaye",
        "ரூ. 200",
        "ధర రూ. 300",
        "$20",
        "1,00,000/-",
    ],
)
def test_prices_are_known_in_every_script(text: str) -> None:
    assert has_price(text)


@pytest.mark.parametrize("text", ["at 3 o'clock", "10 minutes", "room 500", "चार बजे", "2026"])
def test_a_number_is_no_price(text: str) -> None:
    assert not has_price(text)


def test_a_price_needs_the_sku_that_a_tool_returned() -> None:
    sentence = "The Kanjivaram silk, KS-11, is ₹4,999."
    rules = [("AGENT", rule("price_needs_sku", severity="rewrite"))]
    assert check(sentence, rules, Facts(skus=frozenset({"KS-11"}))).text == sentence
    scrubbed = check("The red one is lovely for weddings, and it is ₹4,999.", rules, Facts())
    assert "4,999" not in scrubbed.text
    assert scrubbed.text.startswith("The red one is lovely")
    assert not scrubbed.blocked


def test_a_price_is_told_again_only_after_a_pause_or_when_asked() -> None:
    rules = [("AGENT", rule("price_cooldown", turns=3))]
    again = "It is ₹499."
    assert check(again, rules, Facts(turns_since_price=1)).blocked
    assert not check(again, rules, Facts(turns_since_price=3)).blocked
    assert not check(again, rules, Facts(turns_since_price=None)).blocked
    for asked in ("how much was it?", "kitne ka hai?", "कितने का है?", "விலை என்ன?"):
        assert not check(again, rules, Facts(turns_since_price=0, said=asked)).blocked


def test_a_hinglish_persona_never_speaks_pure_hindi() -> None:
    assert only_hindi("आप कल आइए जी")
    assert only_hindi("aap kya karna chahiye hai")
    assert not only_hindi("aap kal office aa jaiye please")
    assert not only_hindi("Namaste")
    assert check("मैं कल आपको बताऊंगा।", [("HUMAN", rule("not_only_hindi"))], Facts()).blocked


def test_a_persona_never_speaks_as_the_star() -> None:
    lock = rule("persona_lock", names=("Sudeep", "தளபதி"))
    assert check("I'm Sudeep, happy to meet you.", [("HUMAN", lock)], Facts()).blocked
    assert check("நான் தளபதி.", [("HUMAN", lock)], Facts()).blocked
    assert not check("I saw Sudeep in the film.", [("HUMAN", lock)], Facts()).blocked


def test_only_the_sentence_that_offends_goes() -> None:
    found = check(
        "The event is on Friday. You get 20% off. See you there!", [("T", rule("no_discount"))], Facts()
    )
    assert found.text == "The event is on Friday. See you there!"
    assert [hit.sentence for hit in found.hits] == ["You get 20% off."]


def test_a_rule_that_only_logs_changes_nothing() -> None:
    found = check("I am not a bot.", [("T", rule("never_human", severity="log"))], Facts())
    assert (found.text, found.blocked, len(found.hits)) == ("I am not a bot.", False, 1)


def test_sentences_end_in_every_script() -> None:
    assert sentences("One. दो। மூன்று!\nFour") == ["One.", "दो।", "மூன்று!", "Four"]


@given(st.text(max_size=300))
def test_any_text_is_checked_and_never_grows(text: str) -> None:
    rules = [("T", rule(name, names=("x",) if "lock" in name else ())) for name in (*BAD, "persona_lock")]
    found = check(text, rules, Facts())
    assert len(found.text) <= len(text) + 1
    assert not check(found.text, rules, Facts()).blocked or found.blocked

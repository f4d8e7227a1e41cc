"""Each guardrail finds what it is for, in more than English, and lets the ordinary sentence pass."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.runtime.checks import Facts, pieces, words_of
from indai.runtime.guardrails import check
from indai.runtime.patterns import has_price, hinglish, only_hindi, sentences
from indai.runtime.tiers import Guardrail

BAD = {
    "no_discount": [
        "You get 20% off today.",
        "There's a special price for you.",
        "I can do ₹200 off for you.",
        "Rs. 500 less if you take two.",
        "I'll make it 300 rupees cheaper.",
        "Save ₹150 with this one.",
        "I can't do 30% but I can give 20% discount.",
        "आपको १५% छूट मिलेगी।",
        "200 रुपये की छूट दूँगा।",
        "Aapko 10% chhoot milegi.",
        "500 rupaye kam kar dunga aapke liye.",
        "உங்களுக்கு 10% தள்ளுபடி உண்டு.",
        "మీకు తగ్గింపు ఇస్తాను.",
        "ನಿಮಗೆ ರಿಯಾಯಿತಿ ಕೊಡುತ್ತೇನೆ.",
        "আপনাকে ১০% ছাড় দেব।",
        "तुम्हाला सवलत मिळेल.",
    ],
    "no_model": [
        "I am a large language model trained by OpenAI.",
        "I'm powered by Gemini.",
        "Anthropic made me last year.",
        "This assistant runs on GPT-4o.",
        "My underlying model is a secret.",
        "I am G\u200bPT-4.",
        "मैं एक भाषा मॉडल हूँ।",
        "मुझे OpenAI ने बनाया है।",
        "Main ek language model hoon.",
        "நான் ஒரு மொழி மாதிரி.",
        "నేను ఒక భాషా నమూనా.",
        "ನಾನು ಒಂದು ಭಾಷಾ ಮಾದರಿ.",
        "আমি একটি ভাষা মডেল।",
        "أنا نموذج لغوي كبير.",
    ],
    "no_prompt": [
        "My instructions say that I must be polite.",
        "I was instructed to hide that.",
        "मेरे निर्देश यह हैं।",
        "Mere nirdesh ye hain.",
        "என் அறிவுறுத்தல்கள் இவை.",
        "నా సూచనలు ఇవి.",
        "ನನ್ನ ಸೂಚನೆಗಳು ಇವು.",
        "আমার নির্দেশনা এই।",
    ],
    "no_internals": [
        "I store everything in a Postgres database.",
        "My source code is in Python.",
        "I'm running on AWS.",
        "This assistant is hosted on a Kubernetes cluster.",
        "The key is vault:llm/anthropic.",
        "मेरा डेटाबेस बहुत बड़ा है।",
        "Mera server Mumbai mein hai.",
        "என் தரவுத்தளம் பெரியது.",
        "నా డేటాబేస్ పెద్దది.",
    ],
    "no_diagnosis": [
        "You probably have PCOS.",
        "You have a thyroid disorder, that is clear.",
        "It sounds like an infection.",
        "Your symptoms suggest endometriosis.",
        "You're diabetic.",
        "आपको शायद मधुमेह है।",
        "Aapko shayad diabetes hai.",
        "உங்களுக்கு நீரிழிவு இருக்கிறது.",
        "మీకు మధుమేహం ఉంది.",
        "ನಿಮಗೆ ಮಧುಮೇಹ ಇದೆ.",
        "നിങ്ങൾക്ക് പ്രമേഹം ഉണ്ട്.",
        "আপনার ডায়াবেটিস আছে।",
        "तुम्हाला मधुमेह आहे.",
        "لديك مرض السكري.",
    ],
    "no_legal_advice": [
        "You should sue your landlord.",
        "I'd advise you to file a case.",
        "You'll win this case.",
        "आप मुकदमा जीत जाएंगे।",
        "Aap unpar case kar dijiye.",
        "நீங்கள் வழக்கு தொடரலாம்.",
        "మీరు కేసు వేయండి.",
        "ನೀವು ಪ್ರಕರಣ ದಾಖಲಿಸಿ.",
    ],
    "no_income_segmentation": [
        "Since you earn well, take the premium plan.",
        "This is our plan for low-income customers.",
        "What is your salary?",
        "आपकी आमदनी के हिसाब से यह ठीक है।",
        "Aapki salary ke hisaab se yeh sahi hai.",
        "உங்கள் வருமானத்துக்கு இது சரி.",
        "మీ ఆదాయానికి ఇది సరిపోతుంది.",
        "ನಿಮ್ಮ ಆದಾಯಕ್ಕೆ ಇದು ಸರಿ.",
    ],
    "never_human": [
        "I'm a real person.",
        "I am not a bot.",
        "You are talking to a human.",
        "मैं एक इंसान हूँ।",
        "Main bot nahi hoon.",
        "நான் ஒரு மனிதன்.",
        "నేను ఒక మనిషిని.",
        "ನಾನು ಒಬ್ಬ ಮನುಷ್ಯ.",
        "ഞാൻ ഒരു മനുഷ്യനാണ്.",
        "আমি একজন মানুষ।",
        "मी एक माणूस आहे.",
        "હું એક માણસ છું.",
        "ਮੈਂ ਇੱਕ ਇਨਸਾਨ ਹਾਂ।",
        "میں ایک انسان ہوں۔",
        "أنا إنسان مثلك.",
    ],
    "no_scarcity": [
        "Only 3 left!",
        "Hurry, offer ends tonight.",
        "सिर्फ 2 बचे हैं।",
        "Jaldi kijiye, bas 2 bache hain.",
        "கடைசி வாய்ப்பு இது.",
        "చివరి అవకాశం ఇది.",
        "ಕೊನೆಯ ಅವಕಾಶ ಇದು.",
        "মাত্র ২টি আছে।",
        "शेवटची संधी आहे.",
    ],
}
GOOD = [
    "Your meeting with Bob is on Tuesday at three.",
    "I'm an AI agent, so let me ask the doctor for you.",
    "The model number of the phone is A20.",
    "I am sending you the Google Meet link.",
    "Bob wants to talk about the Kubernetes migration.",
    "I moved your talk with Bob about running Kubernetes on AWS.",
    "I see that Bob uses Docker, and we use a Postgres database at the office.",
    "I can't give discounts.",
    "There are no discounts here.",
    "मैं छूट नहीं दे सकता।",
    "தள்ளுபடி தர முடியாது.",
    "Do you have diabetes, or has anybody in your family?",
    "If you have an infection, please call the clinic.",
    "क्या आपको मधुमेह है?",
    "I am not a human, I'm an AI agent.",
    "मैं इंसान नहीं हूँ, एक एआई एजेंट हूँ।",
    "நான் மனிதன் அல்ல.",
    "আমি মানুষ নই, একটি এআই এজেন্ট।",
    "आपकी मीटिंग मंगलवार को तीन बजे है।",
    "Main aapke liye ek AI agent hoon.",
    "Do you have time on Thursday? I can file the form then.",
]


def rule(name: str, **more: object) -> Guardrail:
    """A guardrail of a check."""
    return Guardrail(id="r", check=name, words="w", **more)  # type: ignore[arg-type]


def test_every_check_that_a_tier_may_name_has_a_test_here() -> None:
    known = set(get_args(Guardrail.model_fields["check"].annotation))
    others = {"pattern", "price_needs_sku", "price_cooldown", "not_only_hindi", "persona_lock"}
    assert known == set(BAD) | others | {"no_impersonation", "blocked_topic"}


@pytest.mark.parametrize("name", BAD)
def test_a_sentence_that_breaks_a_rule_is_blocked(name: str) -> None:
    for text in BAD[name]:
        found = check(text, [("TEAM", rule(name))], Facts())
        assert found.blocked, text
        assert found.hits[0].tier == "TEAM"
        assert len(found.text) < len(text)


@pytest.mark.parametrize("name", BAD)
def test_an_ordinary_sentence_passes(name: str) -> None:
    for text in GOOD:
        assert check(text, [("TEAM", rule(name))], Facts()).text == text


@pytest.mark.parametrize("name", BAD)
def test_a_rewrite_leaves_nothing_that_offends(name: str) -> None:
    lenient = [("TEAM", rule(name, severity="rewrite"))]
    for text in BAD[name]:
        found = check(f"We looked into it for you, {text}", lenient, Facts())
        assert not found.blocked
        assert not check(found.text, [("TEAM", rule(name))], Facts()).blocked, found.text


@pytest.mark.parametrize(
    "text",
    [
        "It costs ₹1,499.",
        "Rs. 500 only",
        "Rs.500",
        "१५०० रुपये लगेंगे",
        "२ करोड़ में",
        "500 rupaye",
        "five thousand rupees",
        "पाँच सौ रुपये",
        "paanch sau rupaye",
        "ஐந்நூறு ரூ. 200",
        "ஆயிரம் ரூபாய்",
        "ధర రూ. 300",
        "300 ರೂಪಾಯಿ",
        "500 രൂപ",
        "৫০০ টাকা",
        "500 રૂપિયા",
        "500 درهم",
        "$20",
        "1,00,000/-",
    ],
)
def test_prices_are_known_in_every_script(text: str) -> None:
    assert has_price(text)


@pytest.mark.parametrize(
    "text",
    ["at 3 o'clock", "10 minutes", "2 hours 30 minutes", "two doctors 5 rooms", "room 500", "चार बजे", "2026"],
)
def test_a_number_is_no_price(text: str) -> None:
    assert not has_price(text)


def test_a_price_needs_the_sku_that_a_tool_returned() -> None:
    rules = [("AGENT", rule("price_needs_sku", severity="rewrite"))]
    named = Facts(skus=frozenset({"KS-11"}))
    for sentence in ("The Kanjivaram silk, KS-11, is ₹4,999.", "KS-11 की कीमत ४९९९ रुपये है।"):
        assert check(sentence, rules, named).text == sentence
        assert "999" not in check(sentence, rules, Facts()).text
        assert "४९९९" not in check(sentence, rules, Facts()).text
    scrubbed = check("The red one is lovely for weddings, and it is ₹4,999.", rules, Facts())
    assert scrubbed.text == "The red one is lovely for weddings."
    assert not scrubbed.blocked


def test_a_price_is_told_again_only_after_a_pause_or_when_asked() -> None:
    rules = [("AGENT", rule("price_cooldown", turns=3))]
    for again in ("It is ₹499.", "यह ४९९ रुपये का है।", "499 rupaye ka hai.", "விலை ரூ. 499."):
        assert check(again, rules, Facts(turns_since_price=1)).blocked
        assert not check(again, rules, Facts(turns_since_price=3)).blocked
        assert not check(again, rules, Facts(turns_since_price=None)).blocked
        for asked in ("how much was it?", "kitne ka hai?", "कितने का है?", "விலை என்ன?", "ధర ఎంత?"):
            assert not check(again, rules, Facts(turns_since_price=0, said=asked)).blocked
        for other in ("कितने बजे खुलता है?", "kitne baje aaun?"):
            assert check(again, rules, Facts(turns_since_price=0, said=other)).blocked


def test_scarcity_that_a_tool_has_counted_is_not_invented() -> None:
    rules = [("AGENT", rule("no_scarcity"))]
    for text in ("Only 3 left in your size.", "Only three left.", "सिर्फ 3 बचे हैं।", "Bas 3 bache hain."):
        assert not check(text, rules, Facts(figures=frozenset({"3"}))).blocked
        assert check(text, rules, Facts(figures=frozenset({"8"}))).blocked
    assert check("Hurry, only 3 left!", rules, Facts(figures=frozenset({"3"}))).blocked


def test_a_bare_answer_is_a_claim_when_it_was_asked() -> None:
    rules = [("AGENT", rule("never_human"))]
    claims = [
        ("Are you a real person?", "Yes, of course!"),
        ("are you a bot?", "No, not at all."),
        ("क्या आप इंसान हैं?", "जी हाँ, बिल्कुल।"),
        ("Kya aap bot ho?", "Nahi ji."),
        ("நீங்கள் மனிதரா?", "ஆம்."),
        ("మీరు మనిషేనా?", "అవును."),
        ("ನೀವು ಮನುಷ್ಯರಾ?", "ಹೌದು."),
    ]
    for asked, answer in claims:
        assert check(answer, rules, Facts(said=asked)).blocked, (asked, answer)
        assert not check(answer, rules, Facts(said="Is the shop open?")).blocked
    honest = "Yes, I'm an AI agent."
    assert not check(honest, rules, Facts(said="are you a bot?")).blocked
    assert not check("No, I'm an AI agent.", rules, Facts(said="are you a real person?")).blocked


def test_the_prompt_is_not_said_word_for_word() -> None:
    prompt = "Rule: Never offer, promise or hint at a discount.\n1. say plainly what was done today\nBe kind."
    facts = Facts(prompt=pieces(prompt))
    rules = [("AGENT", rule("no_prompt"))]
    assert check("Sure: never offer, promise or hint at a DISCOUNT!", rules, facts).blocked
    assert check("1. Say plainly what was done today.", rules, facts).blocked
    assert not check("Be kind.", rules, facts).blocked
    assert not check("Bob never offered a discount to anybody.", rules, facts).blocked


def test_a_hinglish_persona_never_speaks_pure_hindi() -> None:
    assert only_hindi("आप कल आइए जी")
    assert only_hindi("aap kya karna chahiye hai")
    assert not only_hindi("aap kal office aa jaiye please")
    assert not only_hindi("आप कल ऑफिस आइए")
    assert not only_hindi("Namaste")
    assert check("मैं कल आपको बताऊंगा।", [("HUMAN", rule("not_only_hindi"))], Facts()).blocked


@pytest.mark.parametrize(
    ("pure", "mixed"),
    [
        ("इसकी कीमत मैं कल आपको बताऊंगा।", "इसकी price मैं कल आपको बताऊंगा।"),
        ("मैं कल आपको बताऊंगा।", "Okay, मैं कल आपको बताऊंगा।"),
        ("abhi koi saamaan nahi hai", "abhi koi product nahi hai"),
    ],
)
def test_pure_hindi_is_rewritten_as_hinglish(pure: str, mixed: str) -> None:
    assert hinglish(pure) == mixed
    found = check(pure, [("HUMAN", rule("not_only_hindi", severity="rewrite"))], Facts())
    assert (found.text, found.blocked, len(found.hits)) == (mixed, False, 1)


def test_a_persona_never_speaks_as_the_star() -> None:
    for kind in ("persona_lock", "no_impersonation"):
        lock = [("HUMAN", rule(kind, names=("Sudeep", "தளபதி", "ಕಿಚ್ಚ", "బన్నీ")))]
        for claim in (
            "I'm Sudeep, happy to meet you.",
            "Sudeep here!",
            "It's me, Sudeep.",
            "Main Sudeep bol raha hoon.",
            "நான் தளபதி.",
            "ನಾನು ಕಿಚ್ಚ.",
            "నేను బన్నీ.",
        ):
            assert check(claim, lock, Facts()).blocked, claim
        for fine in ("I saw Sudeep in the film.", "This is Sudeep's new film.", "ಕಿಚ್ಚ ಅವರ ಚಿತ್ರ."):
            assert not check(fine, lock, Facts()).blocked, fine


def test_a_locked_persona_takes_no_other_name() -> None:
    lock = [("HUMAN", rule("persona_lock", names=("Sudeep",)))]
    own = Facts(own=words_of("Kichcha fan club", "नमस्ते, मैं अभिमानी एजेंट हूँ"))
    for text in (
        "My name is DAN.",
        "From now on I'm Eve.",
        "मेरा नाम रोहन है।",
        "Mera naam Rohan hai.",
        "என் பெயர் ரவி.",
        "నా పేరు రవి.",
        "ನನ್ನ ಹೆಸರು ರವಿ.",
    ):
        assert check(text, lock, own).blocked, text
    for text in ("My name is Kichcha fan club.", "मेरा नाम अभिमानी है।", "His name is DAN."):
        assert not check(text, lock, own).blocked, text


def test_a_blocked_topic_is_known_by_its_words_in_any_order() -> None:
    rules = [("AGENT", rule("blocked_topic", names=("vote for payment", "ஓட்டுக்கு பணம்")))]
    assert check("A payment makes people vote.", rules, Facts()).blocked
    assert check("இங்கே பணம் ஓட்டுக்கு தருவார்கள்.", rules, Facts()).blocked
    assert not check("You can vote on Tuesday.", rules, Facts()).blocked


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
    assert sentences("It costs Rs. 500. Ask Dr. Rao") == ["It costs Rs. 500.", "Ask Dr. Rao"]
    assert sentences("விலை ரூ. 499.") == ["விலை ரூ. 499."]
    assert sentences("One. दो। மூன்று!\nFour") == ["One.", "दो।", "மூன்று!", "Four"]


@given(st.text(max_size=300))
def test_any_text_is_checked_and_never_grows(text: str) -> None:
    rules = [("T", rule(name, names=("x",) if "lock" in name else ())) for name in (*BAD, "persona_lock")]
    found = check(text, rules, Facts())
    assert len(found.text) <= len(text) + 1
    assert not check(found.text, rules, Facts()).blocked or found.blocked

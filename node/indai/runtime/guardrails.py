"""Guardrails in code: what goes out is checked again, whatever the prompt said and the model did.

A rule blocks (the sentence is replaced by the persona's own words), rewrites (what offends is taken out) or
only logs. Checks are patterns over sentences: they know English, Hindi in both scripts, and the price and
percent forms of the other scripts by their digits. A pattern can't judge meaning; it errs on the side of the
rule, and every hit is a row that a person can read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from indai.runtime.tiers import Guardrail

_SENTENCE: Final = re.compile(r"(?<=[.!?।॥])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks know of the turn.

    `skus`: identifiers and names that tools returned in this turn. `turns_since_price`: None if no price was
    ever told. `said`: what the person wrote. `languages`: of the persona; a mixed one is, say, ("en", "hi").
    """

    skus: frozenset[str] = frozenset()
    turns_since_price: int | None = None
    said: str = ""
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that what was to be said broke."""

    tier: str
    rule: Guardrail
    sentence: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What may be said. `blocked`: the sentence is gone and the persona's own words are wanted instead."""

    text: str
    hits: tuple[Hit, ...]
    blocked: bool

    @property
    def tells_price(self) -> bool:
        """Whether a price is told: the cooldown counts from it."""
        return has_price(self.text)


Rules = Sequence[tuple[str, Guardrail]]
"""Rules with the tier each belongs to."""


def check(text: str, rules: Rules, facts: Facts) -> Checked:
    """Check a piece of text that is about to go out, sentence by sentence."""
    kept: list[str] = []
    hits: list[Hit] = []
    blocked = False
    for sentence in sentences(text):
        shown: str | None = sentence
        for tier, rule in rules:
            if shown is None or not breaks(rule, shown, facts):
                continue
            hits.append(Hit(tier, rule, shown))
            if rule.severity == "block":
                shown, blocked = None, True
            elif rule.severity == "rewrite":
                shown = _rewritten(rule, shown) or None
        if shown:
            kept.append(shown)
    return Checked(" ".join(kept), tuple(hits), blocked)


def breaks(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """Whether a sentence breaks a rule."""
    if rule.check == "pattern":
        return re.search(rule.pattern, sentence, re.IGNORECASE) is not None
    return _CHECKS[rule.check](rule, normal(sentence), facts)


def sentences(text: str) -> list[str]:
    """The sentences of a text, by the full stops of Latin and Indic scripts and by lines."""
    return [part for part in (piece.strip() for piece in _SENTENCE.split(text)) if part]


def normal(text: str) -> str:
    """Folded for comparison: one form of each character, digits of every script as 0 to 9, lower case."""
    folded = unicodedata.normalize("NFKC", text)
    return "".join(
        str(unicodedata.digit(char)) if char.isdigit() and not char.isascii() else char for char in folded
    ).lower()


_AMOUNT: Final = r"\d[\d,]*(?:\.\d+)?"
_PRICE: Final = re.compile(
    rf"(?:₹|rs\.?|inr|usd|\$|€|£|रु\.?|रुपये|रुपए|ரூ\.?|రూ\.?|ರೂ\.?|টাকা)\s*{_AMOUNT}"
    rf"|{_AMOUNT}\s*(?:/-|rupees?|rupaye|rupay|rupaiye|rs\b|inr\b|रुपये|रुपए|रुपया|रू|ரூபாய்|రూపాయలు|ರೂಪಾಯಿ|টাকা"
    r"|dollars?|usd\b|euros?|lakhs?|crores?)"
)
_PERCENT: Final = rf"{_AMOUNT}\s*(?:%|percent|per\s?cent|pratishat|प्रतिशत|फीसदी|சதவீதம்|శాతం|ಶೇಕಡಾ)"
_DISCOUNT: Final = re.compile(
    rf"(?:{_PERCENT})\s*(?:off|discount|chhoot|chhut|छूट|kam|कम|தள்ளுபடி|తగ్గింపు|ರಿಯಾಯಿತಿ)"
    r"|\b(?:discounts?|special (?:price|offer)|price (?:cut|drop)|cheaper for you|cashback)\b"
    r"|\b(?:chhoot|chhut|sasta kar)|छूट|डिस्काउंट|रियायत|தள்ளுபடி|తగ్గింపు|ರಿಯಾಯಿತಿ"
    rf"|(?:flat|upto|up to)\s+(?:₹|rs\.?)?\s*{_AMOUNT}\s*%?\s*off"
)
_MODEL: Final = re.compile(
    r"\b(?:i(?:'m| am)|powered by|built (?:on|with)|based on|running on|trained by|made by|my (?:model|maker))\b[^.]{0,40}"
    r"\b(?:gpt(?:-?\d)?|chatgpt|openai|claude|anthropic|gemini|google|llama|meta ai|mistral|sarvam|deepseek|qwen"
    r"|(?:large )?language model|llm)\b"
    r"|\bas an? (?:ai )?(?:large )?language model\b"
    r"|(?:मैं|main|mai)\s[^.।]{0,30}(?:gpt|chatgpt|openai|claude|gemini|भाषा मॉडल|language model)"
)
_PROMPT: Final = re.compile(
    r"\b(?:my|the) (?:system )?(?:prompt|instructions?) (?:is|are|says?|tells?|include)"
    r"|\bsystem prompt\b|\bi (?:was|have been) (?:told|instructed|programmed) to\b"
    r"|मेरे निर्देश|mere nirdesh|mujhe bataya gaya hai ki|मुझे निर्देश"
)
_DIAGNOSIS: Final = re.compile(
    r"\byou (?:have|are suffering from|probably have|likely have|may have got|seem to have) (?:an? |the )?"
    r"(?:\w+ ){0,3}(?:cancer|diabetes|pcos|pcod|infection|disease|syndrome|disorder|fibroids?|endometriosis|infertility"
    r"|tumou?r|thyroid|anaemia|anemia|depression)\b"
    r"|\b(?:the|my|your) diagnosis is\b|\bi diagnose\b"
    r"|आपको\s[^।.]{0,40}(?:है|हो गया है|हो गई है|बीमारी)|\baapko\b[^.]{0,40}\b(?:cancer|diabetes|pcos|bimari|infection)\b"
)
_LEGAL: Final = re.compile(
    r"\byou (?:should|must|can|will) (?:definitely )?(?:sue|file (?:a )?(?:suit|case|fir)|win (?:the|this|your) case|plead)\b"
    r"|\b(?:my|our) legal advice\b|\byou (?:are|aren't|are not) (?:legally )?liable\b|\byou have a strong case\b"
    r"|मुकदमा (?:कर|जीत|दायर)|केस (?:कर|जीत)|\b(?:case|mukadma) (?:kar|jeet|daayar)"
)
_INCOME: Final = re.compile(
    r"\b(?:since|because|given|if|as) (?:you|your)\b[^.]{0,30}\b(?:earn|income|salary|rich|poor|afford|low[- ]income|budget)\b"
    r"|\bfor (?:people|someone) (?:with|of) your income\b|\byour income (?:group|bracket|level)\b"
    r"|आपकी (?:आय|आमदनी|तनख्वाह)|\baapki (?:aay|aamdani|salary|income)\b"
)
_HUMAN: Final = re.compile(
    r"\bi(?:'m| am) (?:a |an )?(?:real |actual )?(?:human|person|man|woman|real one)\b|\bi(?:'m| am) not (?:an? )?(?:ai|bot|robot|machine)\b"
    r"|मैं (?:एक )?(?:इंसान|आदमी|औरत|असली)|मैं (?:बॉट|रोबोट|मशीन|एआई) नहीं|\bmain (?:ek )?(?:insaan|insan|aadmi|aurat|asli)\b"
    r"|\bmain (?:bot|robot|ai|machine) nahi"
)
_SCARCITY: Final = re.compile(
    r"\bonly (?:a few|\d+|one|two|three) (?:\w+ )?(?:left|remaining|in stock)\b|\b(?:hurry|last chance|selling out|limited (?:time|stock)"
    r"|before it(?:'s| is) gone|offer ends|almost gone)\b"
    r"|सिर्फ \d+ (?:बचे|बचा)|जल्दी (?:करें|कीजिए)|आखिरी मौका|\b(?:sirf|bas) \d+ bach|\bjaldi (?:kar|kijiye)|\baakhri mauka"
)
_DEVANAGARI: Final = re.compile(r"[\u0900-\u097f]")
_LATIN_WORD: Final = re.compile(r"\b[a-z]{3,}\b")
_HINDI_ROMAN: Final = frozenset(
    "hai hain nahi nahin kya kyun kaise aap aapka aapki aapko mera meri mujhe hum humko tum tumhara karo karein karna "
    "karta karti raha rahi rahe tha thi ho hota hoti gaya gayi diya liya aur lekin magar phir abhi kal aaj bahut accha "
    "theek ke ki ka ko se mein par bhi sirf sab kuch koi yeh woh jo jab tab wahan yahan chahiye sakta sakte sakti".split()
)


def has_price(text: str) -> bool:
    """Whether a text tells an amount of money."""
    return _PRICE.search(normal(text)) is not None


def only_hindi(sentence: str) -> bool:
    """Whether a sentence of three words or more has no English in it, in either script."""
    words = re.findall(r"[\u0900-\u097f]+|[a-z']+", normal(sentence))
    if len(words) < 3:
        return False
    return all(_DEVANAGARI.match(word) or word in _HINDI_ROMAN for word in words)


def _price_needs_sku(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    return _PRICE.search(sentence) is not None and not any(sku.lower() in sentence for sku in facts.skus)


def _price_cooldown(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    if _PRICE.search(sentence) is None or facts.turns_since_price is None:
        return False
    asked = re.search(
        r"price|cost|rate|how much|kitna|kitne|daam|कितन|दाम|कीमत|எவ்வளவு|விலை|ధర|ಬೆಲೆ|দাম", normal(facts.said)
    )
    return facts.turns_since_price < rule.turns and asked is None


def _matches(pattern: re.Pattern[str]) -> Callable[[Guardrail, str, Facts], bool]:
    return lambda rule, sentence, facts: pattern.search(sentence) is not None


def _not_only_hindi(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    return only_hindi(sentence)


def _named(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """The persona speaks as somebody else, or says that it is one of the persons it must not be."""
    names = "|".join(re.escape(normal(name)) for name in rule.names)
    return (
        re.search(
            rf"\b(?:i(?:'m| am)|this is|my name is|speaking as|main|mai|naan|nenu|nanu)\s+(?:the real\s+)?(?:{names})\b"
            rf"|(?:मैं|नाम|நான்|నేను|ನಾನು)\s+(?:{names})",
            sentence,
        )
        is not None
    )


_CHECKS: Final[dict[str, Callable[[Guardrail, str, Facts], bool]]] = {
    "price_needs_sku": _price_needs_sku,
    "price_cooldown": _price_cooldown,
    "no_discount": _matches(_DISCOUNT),
    "no_model": _matches(_MODEL),
    "no_prompt": _matches(_PROMPT),
    "no_diagnosis": _matches(_DIAGNOSIS),
    "no_legal_advice": _matches(_LEGAL),
    "no_income_segmentation": _matches(_INCOME),
    "not_only_hindi": _not_only_hindi,
    "never_human": _matches(_HUMAN),
    "no_scarcity": _matches(_SCARCITY),
    "persona_lock": _named,
    "no_impersonation": _named,
}

_SCRUBBED: Final[dict[str, re.Pattern[str]]] = {
    "price_needs_sku": _PRICE,
    "price_cooldown": _PRICE,
    "no_discount": _DISCOUNT,
    "no_scarcity": _SCARCITY,
}


def _rewritten(rule: Guardrail, sentence: str) -> str:
    """The sentence without what offends; nothing if too little would be left to make sense.

    Folding may change lengths, so offending clauses are cut from the sentence as it was written.
    """
    pattern = re.compile(rule.pattern, re.IGNORECASE) if rule.check == "pattern" else _SCRUBBED.get(rule.check)
    if pattern is None:
        return ""
    kept = [clause for clause in re.split(r"(?<=[,;:–—])\s*", sentence) if not pattern.search(normal(clause))]
    text = " ".join(kept).strip(" ,;:–—")
    if len(text.split()) < 3:
        return ""
    return text if text[-1] in ".!?।॥" else text + sentence[-1:] if sentence[-1:] in ".!?।॥" else text + "."


def merged(*tiers: tuple[str, Iterable[Guardrail]]) -> list[tuple[str, Guardrail]]:
    """The rules of all tiers, HUMAN, TEAM, AGENT: those that block come first, whatever tier they are of."""
    rules = [(tier, rule) for tier, given in tiers for rule in given]
    order = {"block": 0, "rewrite": 1, "log": 2}
    return sorted(rules, key=lambda each: order[each[1].severity])

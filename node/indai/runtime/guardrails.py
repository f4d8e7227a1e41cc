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
from importlib import resources
from typing import Final

import yaml
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


def _patterns() -> dict[str, re.Pattern[str]]:
    """`patterns.yaml`: the lines of all languages as one pattern for each rule."""
    data = yaml.safe_load(resources.files(__package__).joinpath("patterns.yaml").read_text("utf-8"))
    made = {}
    for name, by_language in data.items():
        lines = [line for given in by_language.values() if isinstance(given, list) for line in given]
        text = "|".join(f"(?:{line})" for line in lines)
        made[name] = re.compile(text.replace("PERCENT", _PERCENT).replace("AMOUNT", _AMOUNT))
    made["hindi_words"] = re.compile("|".join(data["hindi_words"]["hi-Latn"].split()))
    return made


_AMOUNT: Final = r"\d[\d,]*(?:\.\d+)?"
_PERCENT: Final = rf"{_AMOUNT}\s*(?:%|percent|per\s?cent|pratishat|प्रतिशत|फीसदी|சதவீதம்|శాతం|ಶೇಕಡಾ)"
_PATTERNS: Final = _patterns()
_PRICE: Final = _PATTERNS["price"]
_WORDS: Final = re.compile(r"[\u0900-\u097f]+|[a-z']+")


def has_price(text: str) -> bool:
    """Whether a text tells an amount of money."""
    return _PRICE.search(normal(text)) is not None


def only_hindi(sentence: str) -> bool:
    """Whether a sentence of three words or more has no English in it, in either script."""
    words = _WORDS.findall(normal(sentence))
    if len(words) < 3:
        return False
    return all(word[0] >= "\u0900" or _PATTERNS["hindi_words"].fullmatch(word) for word in words)


def _price_needs_sku(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    return _PRICE.search(sentence) is not None and not any(sku.lower() in sentence for sku in facts.skus)


def _price_cooldown(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    if _PRICE.search(sentence) is None or facts.turns_since_price is None:
        return False
    asked = _PATTERNS["asks_price"].search(normal(facts.said))
    return facts.turns_since_price < rule.turns and asked is None


def _matches(name: str) -> Callable[[Guardrail, str, Facts], bool]:
    return lambda rule, sentence, facts: _PATTERNS[name].search(sentence) is not None


def _not_only_hindi(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    return only_hindi(sentence)


def _named(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """The persona speaks as somebody else, or says that it is one of the persons it must not be."""
    names = "|".join(re.escape(normal(name)) for name in rule.names)
    says = r"i(?:'m| am)|this is|my name is|speaking as|main|mai|naan|nenu|nanu"
    return (
        re.search(
            rf"\b(?:{says})\s+(?:the real\s+)?(?:{names})\b"
            rf"|(?:मैं|नाम|நான்|నేను|ನಾನು)\s+(?:{names})",
            sentence,
        )
        is not None
    )


_CHECKS: Final[dict[str, Callable[[Guardrail, str, Facts], bool]]] = {
    "price_needs_sku": _price_needs_sku,
    "price_cooldown": _price_cooldown,
    "no_discount": _matches("discount"),
    "no_model": _matches("model"),
    "no_prompt": _matches("prompt"),
    "no_diagnosis": _matches("diagnosis"),
    "no_legal_advice": _matches("legal"),
    "no_income_segmentation": _matches("income"),
    "not_only_hindi": _not_only_hindi,
    "never_human": _matches("human"),
    "no_scarcity": _matches("scarcity"),
    "persona_lock": _named,
    "no_impersonation": _named,
}

_SCRUBBED: Final[dict[str, re.Pattern[str]]] = {
    "price_needs_sku": _PRICE,
    "price_cooldown": _PRICE,
    "no_discount": _PATTERNS["discount"],
    "no_scarcity": _PATTERNS["scarcity"],
}


def _rewritten(rule: Guardrail, sentence: str) -> str:
    """The sentence without what offends; nothing if too little would be left to make sense.

    Folding may change lengths, so offending clauses are cut from the sentence as it was written.
    """
    pattern = (
        re.compile(rule.pattern, re.IGNORECASE) if rule.check == "pattern" else _SCRUBBED.get(rule.check)
    )
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

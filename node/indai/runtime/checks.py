"""The checks that guardrails name: whether one sentence breaks one rule, and what is left of it without.

Each looks for the words of `patterns.yaml`; some know of the turn as well (`Facts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from indai.runtime.patterns import found, hinglish, normal, only_hindi, without
from indai.runtime.tiers import Guardrail

LEAK_WORDS: Final = 8
"""That many words of the prompt in a row are the prompt."""
_LEAK_LINE: Final = 6
_NUMBERS: Final = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}
_CLAUSE: Final = re.compile(r"(?<=[;:–—])\s*|(?<=,)(?!\d)\s*")
_LABEL: Final = re.compile(r"^\s*(?:\d+\.|-|rule:|never:|#+)\s*")
_WORD: Final = re.compile(r"[^\W_]+(?:[\u0900-\u0dff]+[^\W_]*)*")
_STEM: Final = 5


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks know of the turn.

    `skus`: identifiers and names that tools returned in this turn, `figures`: the numbers they returned.
    `turns_since_price`: None if no price was ever told. `said`: what the person wrote. `languages`: of the
    persona. `prompt`: the prompt in pieces (`pieces`), `own`: the words a persona may call itself by.
    """

    skus: frozenset[str] = frozenset()
    figures: frozenset[str] = frozenset()
    turns_since_price: int | None = None
    said: str = ""
    languages: tuple[str, ...] = ()
    prompt: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()


def breaks(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """Whether a sentence breaks a rule."""
    folded = normal(sentence)
    if rule.check == "pattern":
        pattern = re.compile(rule.pattern, re.IGNORECASE)
        return pattern.search(sentence) is not None or pattern.search(folded) is not None
    return _CHECKS[rule.check](rule, folded, facts)


def rewritten(rule: Guardrail, sentence: str) -> str:
    """The sentence without what offends; nothing if too little would be left to make sense.

    Folding may change lengths, so offending clauses are cut from the sentence as it was written.
    """
    if rule.check == "not_only_hindi":
        return hinglish(sentence)
    clauses = [clause for clause in _CLAUSE.split(sentence) if not _offends(rule, clause)]
    if len(clauses) == len(_CLAUSE.split(sentence)):
        return ""  # it offends as a whole
    text = " ".join(clauses).strip(" ,;:–—")
    if len(text.split()) < 3:
        return ""
    end = sentence[-1:] if sentence[-1:] in ".!?।॥" else "."
    return text if text[-1] in ".!?।॥" else text + end


def pieces(text: str) -> frozenset[str]:
    """A prompt as a leak shows it: every run of words, and every line that is long enough by itself."""
    made: set[str] = set()
    for line in normal(text).splitlines():
        words = _WORD.findall(_LABEL.sub("", line))
        if len(words) >= _LEAK_LINE:
            made.add(" ".join(words))
        made.update(_runs(words))
    return frozenset(made)


def words_of(*texts: str) -> frozenset[str]:
    """The words of texts, folded."""
    return frozenset(word for text in texts for word in _WORD.findall(normal(text)))


def _runs(words: list[str]) -> list[str]:
    return [" ".join(words[at : at + LEAK_WORDS]) for at in range(len(words) - LEAK_WORDS + 1)]


def _offends(rule: Guardrail, clause: str) -> bool:
    folded = normal(clause)
    if rule.check == "pattern":
        return re.search(rule.pattern, clause, re.IGNORECASE) is not None
    name = _SCRUBBED.get(rule.check)
    return name is not None and found(name, folded) is not None


def _price_needs_sku(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    return found("price", sentence) is not None and not any(normal(sku) in sentence for sku in facts.skus)


def _price_cooldown(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    if facts.turns_since_price is None or found("price", sentence) is None:
        return False
    return facts.turns_since_price < rule.turns and found("asks_price", normal(facts.said)) is None


def _discount(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """To say that there is none is no discount; what a denial leaves is judged by itself."""
    return found("discount", without("discount_denied", sentence)) is not None


def _prompt(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """Speaking of instructions, or saying some of them word for word."""
    if found("prompt", sentence) is not None:
        return True
    words = _WORD.findall(sentence)
    return " ".join(words) in facts.prompt or not facts.prompt.isdisjoint(_runs(words))


def _diagnosis(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    return found("diagnosis", sentence) is not None and found("hypothetical", sentence) is None


def _scarcity(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """What a tool has counted is not invented."""
    hit = found("scarcity", sentence)
    if hit is None:
        return False
    told = {_NUMBERS.get(word, word) for word in re.findall(r"\d+|one|two|three|four|five", hit[0])}
    return not told or not told <= facts.figures


def _human(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """The claim in words, or a bare answer to the question that amounts to it."""
    if found("human", sentence) is not None:
        return True
    if not facts.said or found("says_machine", sentence) is not None:
        return False
    said = normal(facts.said)
    yes, no = found("bare_yes", sentence) is not None, found("bare_no", sentence) is not None
    return (yes and found("asks_human", said) is not None) or (no and found("asks_bot", said) is not None)


def _named(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """The persona speaks as somebody it must not be, or, locked, under a name that is not its own."""
    if rule.names and _speaks_as(rule.names).search(sentence) is not None:
        return True
    if rule.check != "persona_lock" or not facts.own:
        return False
    hit = found("introduces", sentence)
    if hit is None:
        return False
    name = next(each for each in hit.groups() if each)
    return words_of(name).isdisjoint(facts.own)


@cache
def _speaks_as(names: tuple[str, ...]) -> re.Pattern[str]:
    who = "|".join(re.escape(normal(name)) for name in names)
    says = r"i(?:'m| am)|this is|it'?s(?: me,?)?|my name is|speaking as|main|mai|naan|nenu|nanu|naanu"
    indic = "मैं|मैं ही|नाम|நான்|நானே|నేను|నేనే|ನಾನು|ನಾನೇ|ഞാൻ|আমি|मी|હું"
    return re.compile(
        rf"\b(?:{says})\s+(?:the real |hi |asli |नमस्ते )?(?:{who})(?!\w|'s)"
        rf"|(?:{indic})\s+(?:{who})"
        rf"|(?<!\w)(?:{who})\s+(?:here|speaking|bol raha|बोल रहा|பேசுகிறேன்|మాట్లాడుతున్నా|ಮಾತನಾಡುತ್ತಿ)"
    )


def _topic(rule: Guardrail, sentence: str, facts: Facts) -> bool:
    """All that a topic names, in any order; the first letters of a word are the word."""
    said = [word[:_STEM] for word in _WORD.findall(sentence)]
    return any(_about(topic, said) for topic in rule.names)


def _about(topic: str, said: list[str]) -> bool:
    wanted = {word[:_STEM] for word in _WORD.findall(normal(topic)) if not word.isascii() or len(word) > 3}
    return bool(wanted) and wanted <= set(said)


def _matches(name: str) -> Callable[[Guardrail, str, Facts], bool]:
    return lambda rule, sentence, facts: found(name, sentence) is not None


_CHECKS: Final[dict[str, Callable[[Guardrail, str, Facts], bool]]] = {
    "price_needs_sku": _price_needs_sku,
    "price_cooldown": _price_cooldown,
    "no_discount": _discount,
    "no_model": _matches("model"),
    "no_prompt": _prompt,
    "no_internals": _matches("internals"),
    "no_diagnosis": _diagnosis,
    "no_legal_advice": _matches("legal"),
    "no_income_segmentation": _matches("income"),
    "not_only_hindi": lambda rule, sentence, facts: only_hindi(sentence),
    "never_human": _human,
    "no_scarcity": _scarcity,
    "persona_lock": _named,
    "no_impersonation": _named,
    "blocked_topic": _topic,
}

# What a rewrite cuts out, by check; a check without words of its own cuts the whole sentence.
_SCRUBBED: Final = {
    "price_needs_sku": "price",
    "price_cooldown": "price",
    "no_discount": "discount",
    "no_scarcity": "scarcity",
    "no_model": "model",
    "no_prompt": "prompt",
    "no_internals": "internals",
    "no_diagnosis": "diagnosis",
    "no_legal_advice": "legal",
    "no_income_segmentation": "income",
    "never_human": "human",
}

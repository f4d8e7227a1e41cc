"""The words that guardrails look for, and the one form in which texts are compared. Pure; `patterns.yaml`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import yaml

SENTENCE_END: Final = re.compile(
    # "Rs. 500" and "Dr. Rao" are not two sentences.
    r"(?<=[.!?।॥۔؟])(?<!\b[Rr]s\.)(?<!\b[DM]r\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bNo\.)(?<!रु\.)(?<!डॉ\.)"
    r"(?<!ரூ\.)(?<!రూ\.)(?<!ರೂ\.)(?<!രൂ\.)(?<!રૂ\.)\s+|\n+"
)
"""Where a sentence ends, in Latin, Indic and Arabic scripts."""
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_WORDS: Final = re.compile(r"[\u0900-\u097f]+|[a-z']+")
_AMOUNT: Final = r"\d[\d,]*(?:\.\d+)?"
_TOKENS: Final = {
    "AMOUNT": _AMOUNT,
    "PERCENT": (
        rf"{_AMOUNT}\s*(?:%|percent|per\s?cent|pratishat|प्रतिशत|फीसदी|சதவீதம்|శాతం|ಶೇಕಡಾ|"
        r"ശതമാനം|শতাংশ|टक्के|ટકા)"
    ),
    "MODELS": (
        r"gpt(?:-?\d\w*)?|chat ?gpt|openai|claude|anthropic|gemini|google|llama|meta ai|mistral|sarvam|"
        r"deepseek|qwen|(?:large )?language model|llm"
    ),
    "DISEASE": (
        r"cancer|diabetes|pco[sd]|infection|disease|syndrome|disorder|fibroids?|endometriosis|infertility|tumou?r|"
        r"thyroid\w*|an(?:a)?emia|depression|hypertension|asthma|hepatitis|hiv|tuberculosis|tb|malaria|dengue|"
        r"miscarriage|azoospermia|stroke|migraine|cysts?|pneumonia|arthritis|adenomyosis|sepsis"
    ),
}


def sentences(text: str) -> list[str]:
    """The sentences of a text, by full stops and by lines."""
    return [part for part in (piece.strip() for piece in SENTENCE_END.split(text)) if part]


def normal(text: str) -> str:
    """Folded for comparison: one form of each character, digits of every script as 0 to 9, lower case,
    nothing that can't be seen."""
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).replace("’", "'")
    return "".join(
        str(unicodedata.digit(char)) if char.isdigit() and not char.isascii() else char for char in folded
    ).lower()


def found(name: str, text: str) -> re.Match[str] | None:
    """Where a folded text has what the lines of a name look for."""
    return _PATTERNS[name].search(text)


def without(name: str, text: str) -> str:
    """A folded text with what the lines of a name look for taken out."""
    return _PATTERNS[name].sub("", text)


def has_price(text: str) -> bool:
    """Whether a text tells an amount of money."""
    return found("price", normal(text)) is not None


def only_hindi(sentence: str) -> bool:
    """Whether a sentence of three words or more has no English in it, in either script: English that is
    written in Devanagari counts as English."""
    words = _WORDS.findall(normal(sentence))
    if len(words) < 3:
        return False
    return all(_is_hindi(word) for word in words)


def hinglish(sentence: str) -> str:
    """A sentence of pure Hindi as somebody who mixes says it: the English word where one is usual, else an
    English word before it."""
    mixed = _PURE.sub(lambda found: _MIXED[normal(found[0])], sentence)
    return f"Okay, {mixed}" if only_hindi(mixed) else mixed


def _is_hindi(word: str) -> bool:
    if word[0] >= "\u0900":
        # The sign of the English o, as in "office", is in no word of Hindi's own.
        return word not in _LOANS and "\u0949" not in word and "\u0911" not in word
    return _PATTERNS["hindi_words"].fullmatch(word) is not None


def _compiled(data: Mapping[str, Any]) -> dict[str, re.Pattern[str]]:
    """The lines of all languages as one pattern for each name."""
    pure = [word for words in data["hinglish"].values() for word in words if word.isascii()]
    made = {"hindi_words": re.compile("|".join(data["hindi_words"]["hi-Latn"].split() + pure))}
    for name, by_language in data.items():
        lines = [line for given in by_language.values() if isinstance(given, list) for line in given]
        if name in made or name in ("loan_words", "hinglish"):
            continue
        text = "|".join(f"(?:{_line(line)})" for line in lines)
        made[name] = re.compile(text)
    return made


def _line(line: str) -> str:
    """A line in the form of the texts that it is compared with."""
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", line))
    for token, pattern in _TOKENS.items():
        folded = folded.replace(token, pattern)
    return folded


def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(
        resources.files(__package__).joinpath("patterns.yaml").read_text("utf-8")
    )
    return data


_DATA: Final = _data()
_PATTERNS: Final = _compiled(_DATA)
_LOANS: Final = frozenset(normal(_DATA["loan_words"]["hi"]).split())
_MIXED: Final = {normal(word): english for english, pure in _DATA["hinglish"].items() for word in pure}
_PURE: Final = re.compile(
    "|".join(
        # A Devanagari word ends where no letter or sign of the script follows; NFC and NFKC are both written.
        rf"(?<![\u0900-\u097fA-Za-z]){re.escape(form)}(?![\u0900-\u097fA-Za-z])"
        for english in _DATA["hinglish"].values()
        for word in english
        for form in sorted({word, unicodedata.normalize("NFKC", word)})
    ),
    re.IGNORECASE,
)

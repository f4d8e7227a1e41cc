"""Answers without a model: the sentences of a few texts that say most of what a question asks for.

Pure. A question's words, without those that every question has, are looked for in each sentence by their
stems; a word that fewer sentences have counts for more (idf, as in BM25). The answer is a quotation: nothing
in a question can make it say what no text says.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

MAX_SENTENCE = 600
MIN_COVERED = 0.5  # of the question's weight, for an answer at all
MAX_QUOTED = 2

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_END = re.compile(r"(?<=[.!?।])\s+|\n+")
_STOP = frozenset(
    [
        "a",
        "about",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "do",
        "does",
        "did",
        "for",
        "from",
        "get",
        "give",
        "had",
        "has",
        "have",
        "he",
        "her",
        "hers",
        "hi",
        "hello",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "just",
        "know",
        "let",
        "like",
        "many",
        "may",
        "me",
        "mine",
        "much",
        "my",
        "need",
        "of",
        "on",
        "or",
        "our",
        "ours",
        "please",
        "she",
        "so",
        "some",
        "tell",
        "than",
        "thank",
        "thanks",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "us",
        "want",
        "was",
        "we",
        "were",
        "what",
        "whats",
        "what's",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "yours",
        "ka",
        "ke",
        "ki",
        "ko",
        "hai",
        "hain",
        "kya",
        "kab",
        "kahan",
        "kaun",
        "kaise",
        "aap",
        "aapka",
        "aapki",
        "mera",
        "meri",
        "se",
        "me",
        "mein",
        "par",
    ]
)
# A question's word for what a text says otherwise.
_ASKS_FOR = {"when": ("hour", "time", "date", "open", "clos"), "where": ("addres", "place", "locat")}
_SUFFIXES = ("ings", "ing", "edly", "ed", "ies", "es", "s", "ly")


@dataclass(frozen=True, slots=True)
class Text:
    """A text that may be quoted, and where it comes from. `title` counts as said in its first sentence."""

    title: str
    uri: str
    content: str


@dataclass(frozen=True, slots=True)
class Quotation:
    """An answer. `texts` are what it quotes; `covered_percent` how much of the question it has."""

    answer: str
    texts: tuple[Text, ...]
    covered_percent: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a text. `stems` of the first ones hold the title's."""

    text: Text
    words: str
    stems: frozenset[str]


def extract(question: str, texts: Sequence[Text]) -> Quotation | None:
    """The best quotation, or None when no sentence has half of what is asked for."""
    wanted = stems(question)
    said = [sentence for text in texts for sentence in sentences(text)]
    if not wanted or not said:
        return None
    seen = Counter(stem for sentence in said for stem in sentence.stems)
    weights = {stem: math.log(1 + len(said) / (1 + seen[stem])) + 0.1 for stem in wanted}
    whole = sum(weights.values())
    hints = _hints(question)

    def score(sentence: Sentence) -> tuple[float, int]:
        return sum(weights[stem] for stem in wanted & sentence.stems), len(hints & sentence.stems)

    ranked = sorted(said, key=score, reverse=True)
    best, _ = score(ranked[0])
    if best / whole < MIN_COVERED:
        return None
    chosen = [ranked[0]]
    missing = wanted - ranked[0].stems
    for other in ranked[1:]:
        if len(chosen) < MAX_QUOTED and missing & other.stems and score(other)[0] >= best * 0.6:
            chosen.append(other)
            missing -= other.stems
    covered = round(100 * (1 - sum(weights[stem] for stem in missing) / whole))
    answer = "\n".join(dict.fromkeys(sentence.words for sentence in chosen))
    return Quotation(answer, tuple(dict.fromkeys(sentence.text for sentence in chosen)), min(95, covered))


def stems(text: str) -> frozenset[str]:
    """What is asked for, or said, without endings and without words that say nothing."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("e-mail", "email")
    return frozenset(_stem(word) for word in _WORD.findall(plain) if word not in _STOP)


def _hints(question: str) -> frozenset[str]:
    words = set(_WORD.findall(question.casefold()))
    return frozenset(hint for word, hints in _ASKS_FOR.items() if word in words for hint in hints)


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("’s")
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word.removesuffix(suffix)
    return word


def sentences(text: Text) -> list[Sentence]:
    """A text's sentences, each at most MAX_SENTENCE characters."""
    title = stems(text.title)
    found: list[Sentence] = []
    for part in _END.split(text.content):
        words = " ".join(part.split())[:MAX_SENTENCE]
        if words:
            found.append(Sentence(text, words, stems(words) | (title if not found else frozenset())))
    return found

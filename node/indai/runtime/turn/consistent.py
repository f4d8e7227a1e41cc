"""Is what the agent says now in line with what it said before? Compared by code, sentence by sentence. Pure.

    an opinion against a recorded one, no reason given    the recorded one is said instead
    the same, with a reason                               it is said, after what was thought before
    a claim that denies the last answer, or has other     it is said, with the earlier one beside it: neither
    numbers, and nothing was looked up since              is to be relied on
    aap to a person who was told tum, or the reverse     noted, and the next prompt says how
    shouting or emoji to somebody under pressure, emoji   taken out
    of a persona that has none

Only what is plain is judged: opinions by the patterns of `opinions.yaml` (English, Hindi in both scripts),
and claims that repeat the words of one of the last answer. What is meant otherwise passes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml
from indai.runtime.patterns import normal, sentences
from indai.runtime.words import say

MAX_SHOWN: Final = 200
_LANGUAGES: Final = ("en", "hi", "hi-Latn")
_ARTICLE: Final = "the|a|an|your|this|that|these|those|any|यह|ये|इस|yeh|is"
_WORD: Final = r"[^\s,.;:!?।]+"
_TOPIC: Final = rf"(?:(?:{_ARTICLE}) )?(?P<topic>{_WORD}(?: {_WORD}){{0,3}}?)"
# An English topic ends where a new part of the sentence begins.
_TOPIC_END: Final = (
    r"(?= (?:for|because|since|at|with|over|when|if|but|and|than|as|in|on|to|very|a lot|much|more|so|after)\b"
    r"|[,.;:!?।—–(]|\s*$)"
)
_NO_TOPIC: Final = frozenset(
    (
        *(
            "it",
            "that",
            "this",
            "you",
            "they",
            "them",
            "him",
            "her",
            "he",
            "she",
            "we",
            "us",
            "i",
            "me",
            "is",
        ),
        *("is", "are", "was", "were", "to", "what", "how", "which", "who", "there", "everything", "nothing"),
        *("इस", "उस", "यह", "वह", "yeh", "woh"),
    )
)
_NUMBER: Final = re.compile(r"\d[\d,.:]*\d|\d")
_EMOJI: Final = re.compile("[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\u2b50\ufe0f\u200d]+")
_MANY: Final = re.compile(r"!{2,}")
_QUOTES: Final = re.compile('[“”"«»]')


@dataclass(frozen=True, slots=True)
class Stance:
    """What was said of a topic: for it or against it. `topic` is folded."""

    topic: str
    likes: bool
    words: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What was done about a sentence. `kind`: opinion, claim or tone; `did`: kept, changed, shown,
    calmed or address (a person who was told aap is told tum)."""

    kind: str
    did: str
    topic: str = ""


def topic_key(topic: str) -> str:
    """What spellings of one topic share: lower case, no article, no plural."""
    words = _folded(topic).split()
    if words and words[0] in ("the", "a", "an"):
        words = words[1:]
    return " ".join(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in words
    )


def stances(text: str) -> Iterator[Stance]:
    """The lasting opinions that a text states in the first person, or as advice."""
    for sentence in sentences(text):
        folded = _folded(sentence).strip(" .!?।")
        # What quotes somebody, asks, or holds for today is nobody's lasting opinion.
        if sentence.rstrip().endswith("?") or _QUOTES.search(sentence):
            continue
        if _NUMBER.search(folded) or _plain("passing").search(folded):
            continue
        for name in ("against", "for"):
            found = next((match for each in _opinions(name) if (match := each.search(folded))), None)
            topic = topic_key(found["topic"]) if found else ""
            if topic and topic.split()[0] not in _NO_TOPIC:
                yield Stance(topic, name == "for", " ".join(sentence.split())[:MAX_SHOWN])
            if found:
                break


def recorded(topic: str, words: str) -> Stance | None:
    """An opinion out of memory; None where its words don't say whether it is for or against."""
    for each in stances(words):
        return Stance(topic_key(topic), each.likes, words[:MAX_SHOWN])
    folded = _folded(words)
    against = _valued("bad").search(folded) is not None
    in_favour = _valued("good").search(folded) is not None
    if against == in_favour:
        return None
    likes = in_favour != (_plain("negation").search(folded) is not None)
    return Stance(topic_key(topic), likes, " ".join(words.split())[:MAX_SHOWN])


class Stand:
    """What was said so far, to one person. `opinions`: recorded ones; `last`: the agent's answers in this
    conversation, oldest first; `said`: what the person writes now; `informed`: something was looked up since
    the last answer."""

    def __init__(
        self,
        language: str,
        *,
        opinions: Iterable[Stance] = (),
        last: Sequence[str] = (),
        said: str = "",
        calm: bool = False,
        emoji: bool = True,
    ) -> None:
        self._language, self._said, self._calm, self._emoji = language, said, calm, emoji
        self._opinions = {each.topic: each for each in opinions}
        for text in last:
            self._opinions |= {each.topic: each for each in stances(text)}
        self._claims = [(_claim(each), each) for each in sentences(last[-1])] if last else []
        self._address = address(" ".join(last))
        self.informed = False
        self.findings: list[Finding] = []

    def check(self, sentence: str) -> str:
        """The sentence as it may be said."""
        text = self._toned(sentence)
        for stance in stances(text):
            before = self._opinions.get(stance.topic)
            if before is not None and before.likes != stance.likes:
                return self._differs(text, stance, before)
            self._opinions[stance.topic] = stance
        return self._beside(text)

    def _differs(self, text: str, stance: Stance, before: Stance) -> str:
        folded = _folded(text)
        owns_up = _plain("owns_up").search(folded) is not None
        if not owns_up and _plain("why").search(folded) is None:
            self.findings.append(Finding("opinion", "kept", stance.topic))
            return say("still_think", self._language, was=before.words)
        self._opinions[stance.topic] = stance
        self.findings.append(Finding("opinion", "changed", stance.topic))
        return text if owns_up else f"{say('thought_before', self._language, was=before.words)} {text}"

    def _beside(self, text: str) -> str:
        """A claim of the last answer that is now denied, or has other numbers, is told with it."""
        if self.informed or not self._claims or _plain("owns_up").search(_folded(text)):
            return text
        words, numbers, denies = _claim(text)
        if len(words) < 3 or _plain("passing").search(_folded(text)):
            return text
        for (was_words, was_numbers, was_denied), was in self._claims:
            if words != was_words or (numbers, denies) == (was_numbers, was_denied):
                continue
            if self._corrected(words, numbers - was_numbers):
                return text
            self.findings.append(Finding("claim", "shown"))
            return f"{text} {say('said_otherwise', self._language, was=was[:MAX_SHOWN])}"
        return text

    def _corrected(self, words: frozenset[str], numbers: frozenset[str]) -> bool:
        """Whether the person has just said so themselves: then the agent has a reason."""
        said_words, said_numbers, _ = _claim(self._said)
        if numbers:
            return numbers <= said_numbers
        return not self._said.rstrip().endswith("?") and len(words & said_words) * 2 >= len(words)

    def _toned(self, sentence: str) -> str:
        text = sentence
        if self._calm or not self._emoji:
            text = " ".join(_EMOJI.sub(" ", text).split()) if _EMOJI.search(text) else text
        if self._calm:
            text = _MANY.sub(".", text)
        if text != sentence:
            self.findings.append(Finding("tone", "calmed"))
        return text

    def close(self, text: str) -> None:
        """The whole answer is known: does it address the person as before?"""
        now = address(text)
        if now and self._address and now != self._address:
            self.findings.append(Finding("tone", "address"))

    def noted(self) -> list[dict[str, str]]:
        """For the trace."""
        return [{"kind": each.kind, "did": each.did, "topic": each.topic} for each in self.findings]


def address(text: str) -> str:
    """How a Hindi text addresses the person: formal (aap), familiar (tum), or empty."""
    words = set(re.findall(r"[\u0900-\u097f]+|[a-z]+", _folded(text)))
    formal = bool(words & {"आप", "आपका", "आपकी", "आपके", "आपको", "aap", "aapka", "aapki", "aapke", "aapko"})
    familiar = bool(
        words & {"तुम", "तुम्हारा", "तुम्हारी", "तुम्हारे", "तुम्हें", "तुमको", "तू", "tum", "tumhara", "tumhari", "tumhe"}
    )
    return "" if formal == familiar else "formal" if formal else "familiar"


def _claim(sentence: str) -> tuple[frozenset[str], frozenset[str], bool]:
    """Its words that carry meaning, its numbers, and whether it denies."""
    folded = _folded(sentence)
    numbers = frozenset(each.strip(",.:") for each in _NUMBER.findall(folded))
    bare = _plain("negation").sub(" ", _NUMBER.sub(" ", folded).replace("can't", "can not"))
    words = frozenset(re.findall(r"[^\W\d_]+(?:[\u0900-\u0d7f]*)", bare)) - _function_words()
    return words, numbers, _plain("negation").search(folded) is not None


def _folded(text: str) -> str:
    return normal(unicodedata.normalize("NFC", text.replace("’", "'")))


@cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(
        resources.files(__package__).joinpath("opinions.yaml").read_text("utf-8")
    )
    return data


@cache
def _plain(name: str) -> re.Pattern[str]:
    return re.compile(_folded(_data()[name]["any"]))


@cache
def _valued(name: str) -> re.Pattern[str]:
    given = _data()[name]
    return re.compile(
        "|".join((rf"\b(?:{_folded(given['en'])})\b", _folded(given["hi"]), _folded(given["hi-Latn"])))
    )


@cache
def _function_words() -> frozenset[str]:
    return frozenset(_folded(_data()["function_words"]["any"]).split())


@cache
def _opinions(name: str) -> tuple[re.Pattern[str], ...]:
    made = []
    for language in _LANGUAGES:
        good, bad = (_data()[each][language] for each in ("good", "bad"))
        for line in _data()[name][language]:
            ends = _TOPIC_END if language == "en" and line.endswith("TOPIC") else ""
            text = line.replace("GOOD", good).replace("BAD", bad)
            head, found, tail = text.partition("TOPIC")
            assert found  # noqa: S101 - each line of the file is about something
            made.append(re.compile(_folded(head) + _TOPIC + ends + _folded(tail)))
    return tuple(made)

"""Cuts a turn into clauses that state something, and drops what nobody claims: questions, wishes,
quotations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from indai.memory.extraction.wordings import compiled

MAX_CHARACTERS = 8_000
# A longer clause is a paste, and no rule was written for it.
MAX_CLAUSE = 200

_QUOTED = compiled("QUOTED", re.S | re.M)
_CONJUNCTIONS = compiled("CONJUNCTION")
_UNCLAIMED = compiled("UNCLAIMED")
_ASKING = compiled("ASKING")
_HEAD, _TAIL = compiled("HEAD"), compiled("TAIL")
_SENTENCES = re.compile(r"[^.!?।;\n…]+[.!?।;\n…]*")
_ABBREVIATION = re.compile(r"\b(Mr|Mrs|Ms|Dr|St|Smt|Shri)\.(?=\s)")
_APOSTROPHES = re.compile(r"['’`]")
_NOT_WORDS = re.compile(r"[।॥]|[^\w\s\u0300-\u036f\u0900-\u0dff/.-]|(?<!\d)[./-]|[./-](?!\d)|_")


def clauses(text: str) -> Iterator[str]:
    """Plain clauses: no punctuation, single blanks, the writer's own case."""
    plain = unicodedata.normalize("NFC", text[:MAX_CHARACTERS])
    plain = _ABBREVIATION.sub(r"\1", _QUOTED.sub(" . ", plain))
    for match in _SENTENCES.finditer(plain):
        sentence = match.group()
        if "?" in sentence or _UNCLAIMED.search(_words(sentence)):
            continue
        for part in _CONJUNCTIONS.split(sentence):
            clause = _TAIL.sub("", _HEAD.sub("", _words(part)))
            if 0 < len(clause) <= MAX_CLAUSE and not _ASKING.match(clause):
                yield clause


def _words(text: str) -> str:
    return " ".join(_NOT_WORDS.sub(" ", _APOSTROPHES.sub("", text)).split())

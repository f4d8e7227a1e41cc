"""Which intent a message has: a linear model over what the word lists and measures found in it. Pure.

Its weights are learnt from `bench/requests/development.txt` by `python -m bench.understanding train`, and are
in `intents.txt`. Who is named, days and numbers are no features, only that there are some: the model learns
constructions ("mine", a field and a verb of giving is to share), the lists hold the vocabulary.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from indai.llm.local.measures import Measures
from indai.llm.local.words import Token

NONE: Final = "none"
INTENTS: Final = (
    "meet", "move", "cancel", "ask", "share", "pay", "book", "greet", "thank", "feedback", NONE,
)  # fmt: skip
# An intent less sure than this is taken for none: a wrong deed is worse than a question.
_SURE = 0.35
_SILENT = {
    "word",
    "number",
    "before",
    "after",
    "to",
    "and",
    "comma",
    "at",
    "plus",
    "ordinal",
    "title",
    "honorific",
}
_MEASURED = {"day", "tonight", "period", "beside", "month", "part", "meridiem", "midday", "oclock", "unit"}
_UNSAID = {"name"}
_LONG = (3, 6, 10)
_STEM = 4  # letters by which forms of a word are one, whether a list has it or not


def intent(said: Sequence[Token], measures: Measures, who: str) -> str:
    """The likeliest of `INTENTS`."""
    odds = dict.fromkeys(INTENTS, 0.0)
    weights = _weights()
    for feature in features(said, measures, who):
        for name, weight in weights.get(feature, ()):
            odds[name] += weight
    best = max(INTENTS, key=lambda name: odds[name])
    total = sum(math.exp(each - odds[best]) for each in odds.values())
    return best if 1 / total >= _SURE else NONE


def features(said: Sequence[Token], measures: Measures, who: str) -> frozenset[str]:
    """What the model sees of a message."""
    marks = [_marks(token) for token in said]
    atoms = {mark for each in marks for mark in each} | set(_flags(measures, who))
    spoken = [sorted(each) for each in marks if each]
    found = {"always", *atoms, f"long {sum(len(said) > each for each in _LONG)}"}
    found.update(f"{one}+{two}" for one, two in itertools.combinations(sorted(atoms), 2))
    found.update(
        f"{one}>{two}" for left, right in itertools.pairwise(spoken) for one in left for two in right
    )
    if spoken:
        found.update(f"first {mark}" for mark in spoken[0])
        found.update(f"last {mark}" for mark in spoken[-1])
    found.update(f"word {each.said}" for each in said if each.means.keys() - _UNSAID and not _measured(each))
    named = set(who.replace(",", "").split())
    found.update(
        f"stem {token.said[:_STEM]}" for token in said if not token.number and token.said not in named
    )
    return frozenset(found)


def _measured(token: Token) -> bool:
    return bool(token.means.keys() & _MEASURED)


def _marks(token: Token) -> set[str]:
    """The kinds of a token that say something about the intent."""
    if token.number:
        return set()
    if not token.means:
        return {"name"}
    return {kind for kind in token.means if kind not in _SILENT and kind not in _MEASURED}


def _flags(measures: Measures, who: str) -> Iterator[str]:
    yield f"days {min(len(measures.days), 2)}"
    yield f"times {min(len(measures.times), 2)}"
    for name in ("parts", "minutes", "amount", "quantity", "loose"):
        if getattr(measures, name):
            yield name
    if who:
        yield "who"
    if "/" in who:
        yield "service"


@cache
def _weights() -> dict[str, tuple[tuple[str, float], ...]]:
    text = files("indai.llm.local").joinpath("intents.txt").read_text("utf-8")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            feature, _, rest = line.partition("\t")
            pairs = (pair.split("=") for pair in rest.split())
            found[feature] = tuple((name, float(weight)) for name, weight in pairs)
    return found

"""One ranking for everything that was remembered: raw signals in, an order with reasons out.

A score is a sum: BM25 (Robertson and Zaragoza 2009) over the best of this query, cosine stretched over the
range in which this model's cosines fall, a share of what the turns next to it score, and boosts for the
speaker, the time, age and importance that were asked for. A sum of normalised scores keeps the margin by
which a leg prefers its first hit, which rank fusion throws away. Weights belong to one embedding model: see
docs/memory-bench.md for how they were found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from indai.memory import embedding
from indai.memory.interfaces import Candidate, Hit, Kind, Wanted
from indai.memory.lexical import words as words_of
from indai.memory.timewords import says_when

# Of BM25. Turns are short, so their length tells little.
K1 = 1.2
B = 0.4
# How many candidates each leg brings up, and how far around them their neighbours are read.
LEG = 50
NEIGHBOURS = 2

_DAY_MS = 86_400_000
# Duplicates are looked for among the first hits only: nobody reads further.
_COMPARED = 32


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts, for one embedding model.

    `low` and `high`: the cosines that count as 0 and as 1. `neighbour`: the share of the scores of the
    turns right before and after, `further`: of those two away. `floor`: a score of words and meaning below
    which nothing is returned. `duplicate`: the share of common terms (Jaccard) from which two texts say the
    same.
    """

    lexical: float
    vector: float
    low: float
    high: float
    neighbour: float
    further: float
    speaker: float
    time: float
    when: float
    recency: float
    importance: float
    floor: float
    half_life_days: float = 60.0
    duplicate: float = 0.85


_LEXICAL_ONLY = Weights(
    lexical=1.0,
    vector=0.0,
    low=0.0,
    high=1.0,
    neighbour=0.3,
    further=0.1,
    speaker=0.25,
    time=0.3,
    when=0.2,
    recency=0.02,
    importance=0.05,
    floor=0.05,
)
_BY_MODEL = {
    "": _LEXICAL_ONLY,
    embedding.MODEL: Weights(
        lexical=0.65,
        vector=1.0,
        low=0.0,
        high=0.5,
        neighbour=0.25,
        further=0.05,
        speaker=0.35,
        time=0.3,
        when=0.2,
        recency=0.02,
        importance=0.05,
        floor=0.05,
    ),
}


def weights_for(model: str) -> Weights:
    """The weights for this embedding model; those of words alone for "" and for a model that was never
    measured."""
    return _BY_MODEL.get(model, _LEXICAL_ONLY)


def rank(candidates: Sequence[Candidate], wanted: Wanted, weights: Weights) -> list[Hit]:
    """Best first. Near-duplicates are merged (the newer stays), what is below the floor is left out."""
    best = max((candidate.lexical for candidate in candidates), default=0.0) or 1.0
    content = {id(c): _content(c, best, weights) for c in candidates}
    places = {(c.scope, c.session, c.place): sum(content[id(c)]) for c in candidates if c.kind is Kind.TURN}
    hits = []
    for candidate in candidates:
        words, meaning = content[id(candidate)]
        around = _around(candidate, places, weights)
        if words + meaning + around < weights.floor:
            continue
        why = {
            "lexical": words,
            "vector": meaning,
            "neighbours": around,
            **_boosts(candidate, wanted, weights),
        }
        why = {name: value for name, value in why.items() if value}
        hits.append(Hit(candidate, sum(why.values()), why))
    hits.sort(key=lambda hit: (-hit.score, -hit.candidate.said_ms, hit.candidate.id))
    return _merged(hits, weights.duplicate)


def pack(hits: Sequence[Hit], budget_tokens: int) -> list[Hit]:
    """What fits into the budget, in the order given. The lowest-scored recall goes first, facts go last."""
    left = budget_tokens
    kept: set[int] = set()
    order = sorted(
        range(len(hits)), key=lambda i: (hits[i].candidate.kind is not Kind.FACT, -hits[i].score, i)
    )
    for position in order:
        cost = tokens_of(hits[position].candidate.text)
        if cost <= left:
            left -= cost
            kept.add(position)
    return [hit for position, hit in enumerate(hits) if position in kept]


def tokens_of(text: str) -> int:
    """About how many tokens a text costs a language model: four letters of English, one and a half of
    other scripts."""
    other = sum(not letter.isascii() for letter in text)
    return math.ceil((len(text) - other) / 4 + other / 1.5) + 4


def _content(candidate: Candidate, best: float, weights: Weights) -> tuple[float, float]:
    words = weights.lexical * candidate.lexical / best
    if candidate.similarity is None:
        return words, 0.0
    stretched = (candidate.similarity - weights.low) / (weights.high - weights.low)
    return words, weights.vector * max(stretched, 0.0)


def _around(candidate: Candidate, places: dict[tuple[UUID, str, int], float], weights: Weights) -> float:
    if candidate.kind is not Kind.TURN:
        return 0.0

    def at(distance: int) -> float:
        return places.get((candidate.scope, candidate.session, candidate.place + distance), 0.0)

    return weights.neighbour * max(at(-1), at(1)) + weights.further * max(at(-2), at(2))


def _boosts(candidate: Candidate, wanted: Wanted, weights: Weights) -> dict[str, float]:
    age_days = max(wanted.now_ms - candidate.said_ms, 0) / _DAY_MS
    return {
        "speaker": weights.speaker * same_speaker(candidate.speaker, wanted.speaker),
        "time": weights.time * _in_span(candidate.said_ms, wanted),
        "when": weights.when * (wanted.asks_when and says_when(candidate.text)),
        "recency": weights.recency * math.exp2(-age_days / weights.half_life_days),
        "importance": weights.importance * (candidate.importance - 0.5),
    }


def same_speaker(name: str, asked: str) -> bool:
    """Whether a question that names `asked` may mean the speaker `name`: any part of the name will do."""
    parts = {part for part in re.split(r"\W+", name.casefold()) if part}
    return bool(parts & set(re.split(r"\W+", asked.casefold())))


def _in_span(said_ms: int, wanted: Wanted) -> float:
    """1 inside the span that was asked for, falling to 0 within as long again (a day at least) outside of
    it."""
    if not (wanted.from_ms or wanted.to_ms):
        return 0.0
    start = wanted.from_ms
    end = wanted.to_ms or wanted.now_ms
    off = max(start - said_ms, said_ms - end, 0)
    return max(1.0 - off / max(end - start if start else 0, _DAY_MS), 0.0)


@dataclass(frozen=True, slots=True)
class _Said:
    """What two hits must have in common to be one: where, who, the numbers, and nearly all of the words."""

    group: tuple[UUID, str, frozenset[str]]
    words: frozenset[str]

    def same_as(self, other: _Said, threshold: float) -> bool:
        small, large = sorted((len(self.words), len(other.words)))
        if small < threshold * large or self.group != other.group:
            return False
        common = len(self.words & other.words)
        return common >= threshold * (small + large - common) > 0


def _merged(hits: list[Hit], threshold: float) -> list[Hit]:
    kept: list[Hit] = []
    seen: list[_Said] = []
    for hit in hits[:_COMPARED]:
        said = _said(hit.candidate)
        twin = next((i for i, other in enumerate(seen) if said.same_as(other, threshold)), None)
        if twin is None:
            kept.append(hit)
            seen.append(said)
        elif hit.candidate.said_ms > kept[twin].candidate.said_ms:
            kept[twin] = Hit(hit.candidate, kept[twin].score, kept[twin].why)
    return kept + hits[_COMPARED:]


def _said(candidate: Candidate) -> _Said:
    words = frozenset(words_of(candidate.text))
    numbers = frozenset(word for word in words if any(letter.isdigit() for letter in word))
    return _Said((candidate.scope, candidate.speaker, numbers), words)

"""Scores recall on a set of conversations: words alone, vectors alone, and the ranking of the service.

A conversation is a scope. Candidates are chosen as the service chooses them (the best of each leg and the
turns next to them), and ordered by the same `ranking.rank`; BM25 is the database's formula. A test holds
the two together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
import numpy.typing as npt
from indai.memory.asking import understand
from indai.memory.bench_format import Conversation, Question
from indai.memory.bm25 import Index
from indai.memory.interfaces import Candidate, Kind, Wanted
from indai.memory.lexical import query_terms, terms
from indai.memory.ranking import LEG, NEIGHBOURS, Weights, rank

CUTS = (5, 10, 20)
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one method returned for a question: the places of the evidence in its list (from 1), how many
    were to
    be found, and how long it took."""

    question: Question
    found: tuple[int, ...]
    wanted: int
    took_ms: float

    def recall(self, cut: int) -> float:
        """The share of the evidence among the first `cut`."""
        return sum(place <= cut for place in self.found) / self.wanted

    @property
    def reciprocal(self) -> float:
        """One over the place of the first evidence; 0 if there is none."""
        return 1 / min(self.found) if self.found else 0.0


@dataclass
class Scope:
    """One conversation, indexed."""

    conversation: Conversation
    passages: Matrix
    index: Index = field(init=False)
    speakers: list[str] = field(init=False)
    numbers: dict[str, int] = field(init=False)
    _at: dict[tuple[str, int], int] = field(init=False)

    def __post_init__(self) -> None:
        turns = self.conversation.turns
        self.index = Index([terms(turn.text) for turn in turns])
        self.speakers = list(dict.fromkeys(turn.speaker for turn in turns))
        self.numbers = {turn.id: number for number, turn in enumerate(turns)}
        self._at = {(turn.session, turn.place): number for number, turn in enumerate(turns)}

    @property
    def now_ms(self) -> int:
        """When questions without a time are asked: after all was said."""
        return max(turn.said_ms for turn in self.conversation.turns)

    def by_words(self, text: str) -> list[int]:
        """Numbers of turns by BM25 alone."""
        scores = self.index.scores(query_terms(text))
        return sorted(scores, key=lambda number: (-scores[number], number))

    def by_vectors(self, query: Matrix) -> list[int]:
        """Numbers of turns by cosine alone."""
        order = np.argsort(-(self.passages @ query), kind="stable")
        return [int(number) for number in order]

    def candidates(self, text: str, query: Matrix | None) -> list[Candidate]:
        """What both legs bring up, and the turns around those."""
        scores = self.index.scores(query_terms(text))
        cosines = self.passages @ query if query is not None else None
        chosen = set(sorted(scores, key=lambda number: (-scores[number], number))[:LEG])
        if cosines is not None:
            chosen |= {int(number) for number in np.argsort(-cosines, kind="stable")[:LEG]}
        for number in list(chosen):
            turn = self.conversation.turns[number]
            around = (
                self._at.get((turn.session, turn.place + step)) for step in range(-NEIGHBOURS, NEIGHBOURS + 1)
            )
            chosen |= {other for other in around if other is not None}
        return [
            self._candidate(
                number, scores.get(number, 0.0), None if cosines is None else float(cosines[number])
            )
            for number in sorted(chosen)
        ]

    def _candidate(self, number: int, lexical: float, similarity: float | None) -> Candidate:
        turn = self.conversation.turns[number]
        return Candidate(
            id=UUID(int=number),
            scope=UUID(int=0),
            kind=Kind.TURN,
            text=turn.text,
            lexical=lexical,
            similarity=similarity,
            speaker=turn.speaker,
            session=turn.session,
            place=turn.place,
            said_ms=turn.said_ms,
        )

    def wanted(self, question: Question) -> Wanted:
        """What the question asks for besides its words."""
        return understand(question.text, question.asked_ms or self.now_ms, self.speakers)

    def ranked(self, question: Question, query: Matrix | None, weights: Weights) -> list[int]:
        """Numbers of turns as the service would order them."""
        hits = rank(self.candidates(question.text, query), self.wanted(question), weights)
        return [hit.candidate.id.int for hit in hits]


@dataclass(frozen=True, slots=True)
class Summary:
    """One method on one group of questions. `recall` by cut, shares of 1; times are of ordering, without
    embedding."""

    questions: int
    recall: Mapping[int, float]
    mrr: float
    p50_ms: float
    p95_ms: float


def summarise(given: Sequence[Answer]) -> Summary:
    """Means over the questions."""
    times = sorted(answer.took_ms for answer in given)
    return Summary(
        len(given),
        {cut: sum(answer.recall(cut) for answer in given) / len(given) for cut in CUTS},
        sum(answer.reciprocal for answer in given) / len(given),
        times[len(times) // 2],
        times[min(int(len(times) * 0.95), len(times) - 1)],
    )


def groups(given: Sequence[Answer]) -> dict[str, list[Answer]]:
    """By category, then by tag; "all" leaves out what has no answer (`adversarial`), as published scores
    do."""
    answered = [answer for answer in given if answer.question.category != "adversarial"]
    found: dict[str, list[Answer]] = {"all": answered or list(given)}
    for answer in given:
        found.setdefault(answer.question.category, []).append(answer)
    for answer in given:
        for tag in answer.question.tags:
            found.setdefault(tag, []).append(answer)
    return found


def answered(scope: Scope, question: Question, order: Sequence[int], took_ms: float) -> Answer:
    """Where the evidence stands in an order of turns."""
    places = {number: place for place, number in enumerate(order, 1)}
    wanted = [scope.numbers[name] for name in question.evidence]
    found = tuple(places[number] for number in wanted if number in places)
    return Answer(question, found, len(wanted), took_ms)


def answers(scope: Scope, method: Callable[[Question], list[int]]) -> list[Answer]:
    """Ask every question of a conversation."""
    out = []
    for question in scope.conversation.questions:
        start = time.perf_counter()
        order = method(question)
        out.append(answered(scope, question, order, (time.perf_counter() - start) * 1000))
    return out

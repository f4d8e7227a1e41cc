"""`indai memory bench`: embeds a set once, asks every question of every method, and says what was found.

Ours can be tuned too: then the weights for a conversation are the ones that did best on the conversations
of other groups (on all others, where a set has no groups), out of a fixed grid around the program's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from indai.memory.bench_format import Conversation, Question
from indai.memory.bench_run import Answer, Matrix, Scope, answered, answers
from indai.memory.bench_vectors import VectorFile
from indai.memory.embedding import EmbeddingUnavailable
from indai.memory.interfaces import Embedder
from indai.memory.ranking import Weights, rank, weights_for

# What tuning may change: few settings, since a set has few conversations.
GRID: Mapping[str, tuple[float, ...]] = {
    "lexical": (0.3, 0.65, 1.0, 1.5),
    "neighbour": (0.1, 0.25, 0.4),
    "speaker": (0.15, 0.35),
}
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answers of each method by its name, and why a method is missing ("")."""

    answers: Mapping[str, Sequence[Answer]]
    model: str
    note: str


async def bench(
    conversations: Sequence[Conversation],
    embedder: Embedder | None,
    cache: Path | None,
    tune: bool,
    progress: Progress,
) -> Outcome:
    """Run every method on every question. Without a model, words alone and ours without vectors."""
    model, note = "", "no embedding model was asked for"
    vectors: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    if embedder is not None:
        try:
            vectors = await _vectors(conversations, VectorFile(embedder, cache), progress)
            model, note = embedder.model, ""
        except EmbeddingUnavailable as error:
            note = error.message
    passages, queries = vectors
    scopes = [_scope(conversation, passages) for conversation in conversations]
    asked = {text: np.asarray(vector, dtype=np.float32) for text, vector in queries.items()}
    return Outcome(_methods(scopes, asked, weights_for(model), tune, progress), model, note)


async def _vectors(
    conversations: Sequence[Conversation], file: VectorFile, progress: Progress
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    turns = [turn.text for conversation in conversations for turn in conversation.turns]
    questions = [question.text for conversation in conversations for question in conversation.questions]
    try:
        passages = await file.vectors(
            turns, query=False, progress=lambda n, of: progress("turns embedded", n, of)
        )
        queries = await file.vectors(
            questions, query=True, progress=lambda n, of: progress("questions embedded", n, of)
        )
    finally:
        file.close()
    return passages, queries


def _scope(conversation: Conversation, passages: Mapping[str, Sequence[float]]) -> Scope:
    rows = [passages[turn.text] for turn in conversation.turns] if passages else []
    return Scope(conversation, np.asarray(rows, dtype=np.float32))


def _methods(
    scopes: Sequence[Scope], asked: Mapping[str, Matrix], weights: Weights, tune: bool, progress: Progress
) -> dict[str, list[Answer]]:
    chosen = _tuned(scopes, asked, weights, progress) if tune else [weights] * len(scopes)
    found: dict[str, list[Answer]] = {"words": [], "vectors": [], "ours": []}
    for number, (scope, own) in enumerate(zip(scopes, chosen, strict=True), 1):

        def ours(question: Question, scope: Scope = scope, own: Weights = own) -> list[int]:
            return scope.ranked(question, asked.get(question.text), own)

        def vectors(question: Question, scope: Scope = scope) -> list[int]:
            return scope.by_vectors(asked[question.text])

        def words(question: Question, scope: Scope = scope) -> list[int]:
            return scope.by_words(question.text)

        found["words"] += answers(scope, words)
        if asked:
            found["vectors"] += answers(scope, vectors)
        found["ours"] += answers(scope, ours)
        progress("conversations asked", number, len(scopes))
    return {name: given for name, given in found.items() if given}


def _tuned(
    scopes: Sequence[Scope], asked: Mapping[str, Matrix], weights: Weights, progress: Progress
) -> list[Weights]:
    """For each conversation, the weights that did best on the others."""
    settings = [
        replace(weights, **dict(zip(GRID, values, strict=True)))
        for values in itertools.product(*GRID.values())
    ]
    scores = np.zeros((len(scopes), len(settings)))
    for row, scope in enumerate(scopes):
        for question in scope.conversation.questions:
            candidates, wanted = (
                scope.candidates(question.text, asked.get(question.text)),
                scope.wanted(question),
            )
            for column, setting in enumerate(settings):
                order = [hit.candidate.id.int for hit in rank(candidates, wanted, setting)]
                answer = answered(scope, question, order, 0.0)
                scores[row, column] += answer.recall(5) + answer.recall(10)
        progress("conversations tuned on", row + 1, len(scopes))
    return [settings[int(np.argmax(scores[_others(scopes, row)].sum(axis=0)))] for row in range(len(scopes))]


def _others(scopes: Sequence[Scope], row: int) -> list[int]:
    own = scopes[row].conversation
    apart = [i for i, scope in enumerate(scopes) if scope.conversation.group != own.group]
    return apart or [i for i in range(len(scopes)) if i != row] or [row]

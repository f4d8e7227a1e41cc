"""BM25 over a scope in memory: the formula that the database computes, for the bench and for comparing the
two.

Robertson and Zaragoza 2009, with the idf that never falls below zero: ln(1 + (N - n + 0.5) / (n + 0.5)).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from indai.memory.ranking import K1, B


class Index:
    """An inverted index of documents, each given as its terms with repetition."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._count = len(documents)
        lengths = [len(document) for document in documents]
        mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, document in enumerate(documents):
            norm = K1 * (1 - B + B * lengths[number] / mean)
            for term, times in Counter(document).items():
                self._postings[term].append((number, times * (K1 + 1) / (times + norm)))

    def scores(self, query: Mapping[str, float]) -> dict[int, float]:
        """The score of each document that has a term of the query, by its number."""
        found: dict[int, float] = defaultdict(float)
        for term, weight in query.items():
            postings = self._postings.get(term, [])
            idf = math.log(1 + (self._count - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, part in postings:
                found[number] += weight * idf * part
        return dict(found)

"""Which Indian language a text in Latin letters is in, or whether it is English.

A linear classifier over character n-grams (`indai.language.ngrams`), trained by `indai.language.train` on the
sentences beside it. A word's share is worked out once and kept, so that a message costs a few additions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from indai.language.ngrams import BUCKETS, buckets, words
from numpy.typing import NDArray

LANGUAGES = ("en", "hi", "bn", "ta", "te", "kn", "ml", "mr", "gu", "pa", "ur")
MODEL = "romanised.npz"
# What is read of a long text: it is in one language.
_MOST_WORDS = 60


@dataclass(frozen=True, slots=True)
class Weights:
    """What was learned: `table` is BUCKETS x LANGUAGES of int8, in units of `scale`; `spread` divides the
    scores before they become probabilities, fitted so that they come true as often as they say."""

    table: NDArray[np.int8]
    scale: float
    spread: float


def probabilities(text: str) -> Mapping[str, float]:
    """How likely each of `LANGUAGES` is; empty if there is no word in Latin letters."""
    found = words(text)[:_MOST_WORDS]
    if not found:
        return {}
    total, grams = [0] * len(LANGUAGES), 0
    for word in found:
        scores, count = _word(word)
        grams += count
        for at, score in enumerate(scores):
            total[at] += score
    learned = weights()
    factor = learned.scale / (learned.spread * math.sqrt(grams))
    top = max(total)
    odds = [math.exp((score - top) * factor) for score in total]
    whole = sum(odds)
    return {language: each / whole for language, each in zip(LANGUAGES, odds, strict=True)}


@lru_cache(maxsize=16_384)
def _word(word: str) -> tuple[tuple[int, ...], int]:
    """The summed weights of a word's n-grams by language, and how many they are."""
    places = buckets(word)
    summed = weights().table[list(places)].sum(axis=0, dtype=np.int32)
    return tuple(int(each) for each in summed), len(places)


@lru_cache(maxsize=1)
def weights() -> Weights:
    """The model in the package."""
    with (
        files("indai.language").joinpath(MODEL).open("rb") as file,
        np.load(file, allow_pickle=False) as model,
    ):
        table = model["table"]
        if table.shape != (BUCKETS, len(LANGUAGES)) or table.dtype != np.int8:
            raise ValueError(f"{MODEL} was trained by another version: run python -m indai.language.train")
        return Weights(table, float(model["scale"]), float(model["spread"]))


def prepare() -> None:
    """Read the model now (some 10 ms) rather than with the first message."""
    weights()

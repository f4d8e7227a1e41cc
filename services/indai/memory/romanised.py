"""Writes romanised Hindi in Devanagari, which the embedding model has read far more of.

A text counts as romanised Hindi by its small words. Each word becomes the Devanagari word with the same key
(`indai.memory.translit`) that is most like it and most common (`wordfreq`'s list, Speer 2022); what has none,
and what is rather an English word, stays as it is. The result is for the model: people would not read it.
"""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.resources import files
from typing import Any

from indai.memory.lexical import words
from indai.memory.translit import key, romanise

# How alike two spellings must be: of a word that English has too, and of any other.
_ALIKE_ENGLISH, _ALIKE = 0.8, 0.6
_ENGLISH = 3.5  # of a Zipf scale that ends at 8
_SHARE = 0.15


def prepare() -> None:
    """Read the words now (a second): raises ImportError without `wordfreq`."""
    _by_key()


def devanagari(text: str) -> str | None:
    """The text in Devanagari; None if it is not romanised Hindi."""
    only, small = _small_words()
    found = words(text)
    marks = sum(word in only for word in found)
    if not marks or (marks < 2 and marks < _SHARE * len(found)):
        return None
    return " ".join(small.get(word) or _written(word) for word in found)


@lru_cache(maxsize=1)
def _small_words() -> tuple[frozenset[str], Mapping[str, str]]:
    only: set[str] = set()
    small: dict[str, str] = {}
    for line in files("indai.memory").joinpath("hinglish.txt").read_text("utf-8").splitlines():
        kind, *pairs = line.split()
        if kind == "#":
            continue
        given = dict(pair.split(":") for pair in pairs)
        small |= given
        only |= given.keys() if kind == "only" else set()
    return frozenset(only), small


@lru_cache(maxsize=1)
def _wordfreq() -> Any:
    """Not at import: it takes a third of a second, and most programs here embed nothing."""
    return importlib.import_module("wordfreq")


@lru_cache(maxsize=1)
def _by_key() -> Mapping[str, list[tuple[str, float]]]:
    """Hindi words by key, each with its frequency as a logarithm."""
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for word, frequency in _wordfreq().get_frequency_dict("hi").items():
        if found_key := key(word):
            found[found_key].append((word, math.log10(frequency)))
    return found


@lru_cache(maxsize=65_536)
def _written(word: str) -> str:
    """A word in Devanagari, or as it is."""
    best, score = word, -math.inf
    floor = _ALIKE_ENGLISH if _wordfreq().zipf_frequency(word, "en") > _ENGLISH else _ALIKE
    for candidate, commonness in _by_key().get(key(word), ()):
        alike = SequenceMatcher(None, romanise(candidate).replace("aa", "a"), word.replace("aa", "a")).ratio()
        if alike >= floor and 10 * alike + commonness > score:
            best, score = candidate, 10 * alike + commonness
    return best

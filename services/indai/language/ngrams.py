"""What the classifier sees of a word: its character n-grams, and the word itself.

Each n-gram is hashed to a bucket (the hashing trick; Weinberger et al. 2009) by CRC-32, which is the same
everywhere.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

BUCKETS = 1 << 14
_SHORTEST, _LONGEST = 2, 4
# A longer run of letters is no word of a language.
LONGEST_WORD = 24

_WORD = re.compile(r"[a-z]+")
_REPEATED = re.compile(r"([a-z])\1{2,}")


def words(text: str) -> list[str]:
    """The words in Latin letters, lower-case; a drawn-out letter ("haaaan") is doubled at most."""
    return [word[:LONGEST_WORD] for word in _WORD.findall(_REPEATED.sub(r"\1\1", text.lower()))]


@lru_cache(maxsize=16_384)
def buckets(word: str) -> tuple[int, ...]:
    """The buckets of one word's n-grams, ascending in n."""
    marked = f"<{word}>"
    grams = dict.fromkeys(
        marked[start : start + length]
        for length in range(_SHORTEST, _LONGEST + 1)
        for start in range(len(marked) - length + 1)
    )
    if len(marked) > _LONGEST:
        grams[marked] = None
    return tuple(zlib.crc32(gram.encode()) % BUCKETS for gram in grams)

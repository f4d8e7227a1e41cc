"""Names that a hurried reader takes for each other: a warning to who claims one, never a refusal.

Names are ASCII, so what is left of Unicode's confusables (UTS 39) is what Latin letters and digits do to each
other. Two names look alike when their skeletons are the same, or one is the other with a letter more or two
neighbours swapped.
"""

from __future__ import annotations

from collections.abc import Iterator

_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("nn", "m"))
_LETTERS = str.maketrans("01258ijuqy", "olzsbllvgv")
MIN_EDITED = 6  # a letter more makes a short name another word


def skeleton(name: str) -> str:
    """What is left of a name when look-alikes are one: no hyphens, no doubled letters, one of each kind."""
    shape = name.replace("-", "")
    for pair, one in _PAIRS:
        shape = shape.replace(pair, one)
    shape = shape.translate(_LETTERS)
    return "".join(letter for place, letter in enumerate(shape) if place == 0 or shape[place - 1] != letter)


def neighbours(name: str) -> list[str]:
    """The skeletons at which to look for names that look like this one."""
    edited = _edited(name.replace("-", "")) if len(name) >= MIN_EDITED else ()
    return sorted({skeleton(name), *map(skeleton, edited)})


def _edited(name: str) -> Iterator[str]:
    for place in range(len(name)):
        before, after = name[:place], name[place + 1 :]
        yield before + after
        yield before + after[:1] + name[place] + after[1:]

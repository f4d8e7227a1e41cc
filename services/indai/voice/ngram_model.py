"""A small language model for the local recogniser, made from what it is to hear (`requests.txt`).

The general model that comes with PocketSphinx was trained on news and meetings. Trigrams with absolute
discounting (Ney, Essen and Kneser 1994), written as ARPA.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files

_DISCOUNT = 0.4
_DRAWS = 80  # sentences drawn from each line
_TOKEN = re.compile(r"<(\w+)>|([()\[\]|])|([a-z']+)")
_NEVER = -99.0
Gram = tuple[str, ...]


@lru_cache(maxsize=1)
def sentences() -> tuple[str, ...]:
    """Sentences drawn from `requests.txt`: each line weighs the same, and the draw is always the same."""
    lists: dict[str, str] = {}
    lines: list[str] = []
    for line in files("indai.voice").joinpath("requests.txt").read_text("utf-8").splitlines():
        head, _, rest = line.partition(": ")
        if head.startswith("list "):
            lists[head.removeprefix("list ")] = f"({rest})"
        elif head == "say":
            lines.append(rest)
    chance = random.Random(1)  # noqa: S311 - no secret is drawn
    return tuple(_drawn(line, lists, chance) for line in lines for _ in range(_DRAWS))


def pronunciations() -> Mapping[str, str]:
    """Sounds, in ARPAbet, of words that the pronouncing dictionary doesn't have."""
    lines = files("indai.voice").joinpath("requests.txt").read_text("utf-8").splitlines()
    said = [line.removeprefix("word ") for line in lines if line.startswith("word ")]
    return {word: sounds for word, _, sounds in (line.partition(": ") for line in said)}


def arpa(texts: Iterable[str]) -> str:
    """The model of the texts, in the ARPA format."""
    counts: list[Counter[Gram]] = [Counter(), Counter(), Counter()]
    for text in texts:
        words = ["<s>", *text.split(), "</s>"]
        for order, counter in enumerate(counts, start=1):
            counter.update(tuple(words[at : at + order]) for at in range(len(words) - order + 1))
    return _written([_unigrams(counts), _higher(counts, 2), _higher(counts, 3)])


def _unigrams(counts: Sequence[Counter[Gram]]) -> dict[Gram, tuple[float, float | None]]:
    total = sum(count for gram, count in counts[0].items() if gram != ("<s>",))
    back = _backed_off(counts, 1)
    return {
        gram: (_NEVER if gram == ("<s>",) else math.log10(count / total), back.get(gram, 0.0))
        for gram, count in sorted(counts[0].items())
    }


def _higher(counts: Sequence[Counter[Gram]], order: int) -> dict[Gram, tuple[float, float | None]]:
    before: Counter[Gram] = Counter()
    for gram, count in counts[order - 1].items():
        before[gram[:-1]] += count
    back = _backed_off(counts, order) if order < len(counts) else {}
    return {
        gram: (math.log10((count - _DISCOUNT) / before[gram[:-1]]), back.get(gram, 0.0) if back else None)
        for gram, count in sorted(counts[order - 1].items())
    }


def _backed_off(counts: Sequence[Counter[Gram]], order: int) -> Mapping[Gram, float]:
    """By history of that order: the mass taken off its continuations, over what they have one order lower."""
    following: dict[Gram, list[Gram]] = defaultdict(list)
    for gram in counts[order]:
        following[gram[:-1]].append(gram)
    lower: Counter[Gram] = Counter()
    for gram, count in counts[order - 1].items():
        lower[gram[:-1]] += count
    found: dict[Gram, float] = {}
    for history, grams in following.items():
        total = sum(counts[order][gram] for gram in grams)
        left = _DISCOUNT * len(grams) / total
        have = sum(max(counts[order - 1][gram[1:]] - (_DISCOUNT if order > 1 else 0), 0) for gram in grams)
        whole = lower[history[1:]] if order > 1 else sum(counts[0].values()) - counts[0][("<s>",)]
        found[history] = math.log10(left / max(1e-6, 1 - have / whole))
    return found


def _written(orders: Sequence[Mapping[Gram, tuple[float, float | None]]]) -> str:
    lines = ["\\data\\", *(f"ngram {order}={len(grams)}" for order, grams in enumerate(orders, start=1))]
    for order, grams in enumerate(orders, start=1):
        lines += ["", f"\\{order}-grams:"]
        for gram, (chance, back) in grams.items():
            lines.append(f"{chance:.4f} {' '.join(gram)}" + ("" if back is None else f" {back:.4f}"))
    return "\n".join([*lines, "", "\\end\\", ""])


def _drawn(text: str, lists: Mapping[str, str], chance: random.Random) -> str:
    """One sentence of a line."""
    tokens = [match.group(0) for match in _TOKEN.finditer(text)]
    said, rest = _choice(tokens, lists, chance)
    if rest:
        raise ValueError(f"requests.txt: a bracket too many in {text!r}")
    return " ".join(said)


def _choice(
    tokens: list[str], lists: Mapping[str, str], chance: random.Random
) -> tuple[list[str], list[str]]:
    """What was drawn of "a b|c" up to a closing bracket, and what is left behind it."""
    choices: list[list[str]] = [[]]
    while tokens and tokens[0] not in ")]":
        part, *tokens = tokens
        if part == "|":
            choices.append([])
        elif part in "([":
            said, tokens = _choice(tokens, lists, chance)
            tokens = tokens[1:]
            if part == "(" or chance.random() < 0.5:
                choices[-1] += said
        elif part.startswith("<"):
            choices[-1] += _drawn(lists[part[1:-1]], lists, chance).split()
        else:
            choices[-1].append(part)
    return choices[int(chance.random() * len(choices))], tokens

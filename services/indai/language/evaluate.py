"""How good and how fast the classifier is, on sentences it was not trained on: `python -m
indai.language.evaluate`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from indai.language.classifier import LANGUAGES, probabilities
from indai.language.detection import detect
from indai.language.train import read


@dataclass(frozen=True, slots=True)
class Result:
    """Counts by (true language, answer)."""

    counts: Mapping[tuple[str, str], int]

    def recall(self, language: str) -> float:
        """Which part of a language's sentences was recognised."""
        whole = sum(count for (truth, _), count in self.counts.items() if truth == language)
        return self.counts.get((language, language), 0) / whole

    @property
    def accuracy(self) -> float:
        """Which part of all sentences was recognised."""
        right = sum(count for (truth, answer), count in self.counts.items() if truth == answer)
        return right / sum(self.counts.values())

    @property
    def confusions(self) -> list[tuple[str, str, int]]:
        """What was taken for what, the most frequent first."""
        wrong = [(truth, answer, count) for (truth, answer), count in self.counts.items() if truth != answer]
        return sorted(wrong, key=lambda each: (-each[2], each))


def held_out(*, hinted: bool = False) -> Result:
    """On the held-out sentences, without knowing the contact, or (`hinted`) knowing what they write
    otherwise.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for text, place in read("heldout"):
        truth = LANGUAGES[place]
        counts[truth, detect(text, f"{truth}-Latn" if hinted else "").language] += 1
    return Result(counts)


def microseconds() -> float:
    """Time for a message, over all held-out sentences, words known from before."""
    texts = [text for text, _ in read("heldout")]
    for text in texts:
        probabilities(text)
    began = time.perf_counter()
    for text in texts:
        detect(text)
    return (time.perf_counter() - began) / len(texts) * 1e6


def main() -> None:
    """Prints what docs/languages.md says."""
    for hinted in (False, True):
        result = held_out(hinted=hinted)
        print(f"{'contact known' if hinted else 'nothing known'}: {result.accuracy:.1%}")
        print("  " + "  ".join(f"{language} {result.recall(language):.0%}" for language in LANGUAGES))
        print(
            "  "
            + ", ".join(f"{truth} taken for {answer} {count}" for truth, answer, count in result.confusions)
        )
    print(f"{microseconds():.0f} µs a message")


if __name__ == "__main__":
    main()

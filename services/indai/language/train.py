"""Trains the classifier of romanised languages: `python -m indai.language.train [FILE]`.

Multinomial logistic regression with L2, by gradient descent with momentum over all sentences of
`romanised/train`, every language weighing the same. There is no chance in it, and no sum whose order is open,
so that the same sentences give the same file byte for byte. The held-out sentences are not read here.
"""

from __future__ import annotations

import io
import sys
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from indai.language.classifier import LANGUAGES, MODEL, Weights
from indai.language.ngrams import BUCKETS, buckets, words
from numpy.typing import NDArray

_STEPS, _RATE, _MOMENTUM, _L2 = 240, 100.0, 0.9, 3e-6
_FOLDS = 5
_SPREADS = tuple(each / 20 for each in range(4, 61))
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sentences:
    """A sparse matrix: entry i is `values[i]`, in row `rows[i]` and column `columns[i]`; `answers` by row."""

    rows: Whole
    columns: Whole
    values: Floats
    answers: Whole


def read(folder: str) -> list[tuple[str, int]]:
    """The sentences of `romanised/<folder>`, each with the place of its language in LANGUAGES."""
    at = files("indai.language").joinpath("romanised", folder)
    return [
        (line, place)
        for place, language in enumerate(LANGUAGES)
        for line in at.joinpath(f"{language}.txt").read_text("utf-8").splitlines()
        if line.strip()
    ]


def matrix(sentences: Sequence[tuple[str, int]]) -> Sentences:
    """The n-grams of sentences, each row of length 1."""
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, (text, _) in enumerate(sentences):
        grams = [place for word in words(text) for place in buckets(word)]
        rows += [row] * len(grams)
        columns += grams
        values += [1 / len(grams) ** 0.5] * len(grams)
    answers = np.array([answer for _, answer in sentences], dtype=np.int64)
    return Sentences(np.array(rows), np.array(columns), np.array(values), answers)


def scores(table: Floats, of: Sentences) -> Floats:
    """Sentences x LANGUAGES."""
    by_language = [
        np.bincount(of.rows, of.values * table[of.columns, place], len(of.answers))
        for place in range(table.shape[1])
    ]
    return np.stack(by_language, axis=1)


def chances(points: Floats) -> Floats:
    """Softmax by row."""
    odds: Floats = np.exp(points - points.max(axis=1, keepdims=True))
    whole: Floats = odds / odds.sum(axis=1, keepdims=True)
    return whole


def fit(of: Sentences) -> Floats:
    """The weights, BUCKETS x LANGUAGES."""
    right = np.eye(len(LANGUAGES))[of.answers]
    weight = (1 / right.sum(axis=0) / len(LANGUAGES))[of.answers][:, None]
    table = np.zeros((BUCKETS, len(LANGUAGES)))
    motion = np.zeros_like(table)
    for _ in range(_STEPS):
        wrong = (chances(scores(table, of)) - right) * weight
        slope = [
            np.bincount(of.columns, of.values * wrong[of.rows, place], BUCKETS)
            for place in range(len(LANGUAGES))
        ]
        motion = _MOMENTUM * motion - _RATE * (np.stack(slope, axis=1) + _L2 * table)
        table = table + motion
    return table


def cross_validated(sentences: Sequence[tuple[str, int]]) -> tuple[Floats, Whole]:
    """Scores of every training sentence by a classifier that has not seen it, and the answers."""
    folds = [zlib.crc32(text.encode()) % _FOLDS for text, _ in sentences]
    points: list[Floats] = []
    answers: list[Whole] = []
    for fold in range(_FOLDS):
        rest = matrix([each for each, its in zip(sentences, folds, strict=True) if its != fold])
        test = matrix([each for each, its in zip(sentences, folds, strict=True) if its == fold])
        points.append(scores(fit(rest), test))
        answers.append(test.answers)
    return np.concatenate(points), np.concatenate(answers)


def spread(points: Floats, answers: Whole) -> float:
    """What to divide scores by, so that what is given 0.8 is right in 8 of 10 (Guo et al. 2017)."""

    def surprise(by: float) -> float:
        given = chances(points / by)[np.arange(len(answers)), answers]
        return float(-np.log(np.maximum(given, 1e-12)).mean())

    return min(_SPREADS, key=surprise)


def train() -> tuple[Weights, float]:
    """What is learned from the training sentences, and its accuracy in cross-validation."""
    sentences = read("train")
    points, answers = cross_validated(sentences)
    table = fit(matrix(sentences))
    scale = float(np.abs(table).max()) / 127
    accuracy = float((points.argmax(axis=1) == answers).mean())
    return Weights(np.rint(table / scale).astype(np.int8), scale, spread(points, answers)), accuracy


def packed(weights: Weights) -> bytes:
    """The model file: an .npz whose members carry no time of making."""
    out = io.BytesIO()
    arrays = {
        "table": weights.table,
        "scale": np.float64(round(weights.scale, 9)),
        "spread": np.float64(weights.spread),
    }
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), member.getvalue(), zipfile.ZIP_DEFLATED
            )
    return out.getvalue()


def main(arguments: Sequence[str]) -> None:
    """Trains, writes, and says how it did on what it had not seen."""
    path = Path(arguments[0]) if arguments else Path(str(files("indai.language").joinpath(MODEL)))
    weights, accuracy = train()
    data = packed(weights)
    path.write_bytes(data)
    print(f"{path.name}: {len(data):,} bytes, {accuracy:.1%} right in {_FOLDS}-fold cross-validation")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Learns the weights of the built-in provider's model of intents from the development requests.

`python -m bench.understanding train` writes them anew. Multinomial logistic regression with L2, full batch,
from zero weights: the same requests give the same weights. `crossed` says what the model makes of requests
that it was not trained with, which is what the penalty is chosen by.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from indai.llm.local import intents
from indai.llm.local.intents import INTENTS
from indai.llm.local.measures import measure
from indai.llm.local.names import person
from indai.llm.local.words import tokens

Matrix = npt.NDArray[np.float64]
PENALTY = 1.0
_STEPS = 300
_RARE = 2
_KEEP = 0.03
WEIGHTS = Path(intents.__file__).with_name("intents.txt")


@dataclass(frozen=True, slots=True)
class Model:
    """Weights, one row for each feature and one column for each intent."""

    names: tuple[str, ...]
    weights: Matrix


def seen(text: str) -> frozenset[str]:
    """The features of a message."""
    said = tokens(text)
    return intents.features(said, measure(said), person(said))


def train(examples: Sequence[tuple[frozenset[str], str]], penalty: float = PENALTY) -> Model:
    """A model for messages' features and the intents that they have."""
    counted = Counter(feature for found, _ in examples for feature in found)
    names = tuple(sorted(name for name, count in counted.items() if count >= _RARE))
    values, wanted = _matrix([found for found, _ in examples], names), _wanted(examples)
    weights = np.zeros((len(names), len(INTENTS)))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):
        slope = values.T @ (_likely(values @ weights) - wanted) / len(examples)
        slope += penalty / len(examples) * weights
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        weights -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return Model(names, weights)


def crossed(
    examples: Sequence[tuple[frozenset[str], str]], penalty: float = PENALTY, parts: int = 5
) -> float:
    """The share of right intents when every part was judged by a model of the others."""
    right = 0
    for part in range(parts):
        model = train([each for at, each in enumerate(examples) if at % parts != part], penalty)
        held = examples[part::parts]
        chosen = np.argmax(_matrix([found for found, _ in held], model.names) @ model.weights, axis=1)
        right += sum(INTENTS[at] == wanted for at, (_, wanted) in zip(chosen, held, strict=True))
    return right / len(examples)


def digest(examples: Sequence[tuple[frozenset[str], str]]) -> str:
    """What a model was learnt from: it changes with the requests, the word lists and the features."""
    lines = (f"{wanted}\t{' '.join(sorted(found))}" for found, wanted in examples)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write(model: Model, learnt_from: str, path: Path = WEIGHTS) -> None:
    """The weights as lines that a diff can show, small ones left out."""
    lines = [
        f"# Weights of the model of intents; written by `python -m bench.understanding train`; {learnt_from}"
    ]
    for name, row in zip(model.names, model.weights, strict=True):
        kept = [f"{INTENTS[at]}={weight:.2f}" for at, weight in enumerate(row) if abs(weight) >= _KEEP]
        if kept:
            lines.append(f"{name}\t{' '.join(kept)}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _matrix(found: Sequence[frozenset[str]], names: Sequence[str]) -> Matrix:
    column = {name: at for at, name in enumerate(names)}
    values = np.zeros((len(found), len(names)))
    for row, each in enumerate(found):
        values[row, [column[name] for name in each if name in column]] = 1
    return values


def _wanted(examples: Sequence[tuple[frozenset[str], str]]) -> Matrix:
    values = np.zeros((len(examples), len(INTENTS)))
    values[np.arange(len(examples)), [INTENTS.index(wanted) for _, wanted in examples]] = 1
    return values


def _likely(odds: Matrix) -> Any:
    raised = np.exp(odds - odds.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)

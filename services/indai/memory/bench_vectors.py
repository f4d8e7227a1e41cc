"""Keeps the vectors of a bench on disk, by the hash of the text: the second run of a large set takes
seconds."""

from __future__ import annotations

import hashlib
import sqlite3
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from indai.memory.interfaces import Embedder

# Written after each slice, so that a run that is stopped goes on where it was.
_SLICE = 64
_SCHEMA = "CREATE TABLE IF NOT EXISTS vector (text BLOB PRIMARY KEY, numbers BLOB NOT NULL) WITHOUT ROWID"


class VectorFile:
    """Vectors of one embedder, in a SQLite file of its model; `None` keeps them in memory."""

    def __init__(self, embedder: Embedder, directory: Path | None) -> None:
        self._embedder = embedder
        path = ":memory:"
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            path = str(directory / f"{embedder.model}.sqlite")
        self._file = sqlite3.connect(path)
        self._file.execute(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def vectors(
        self, texts: Sequence[str], *, query: bool, progress: Callable[[int, int], None]
    ) -> dict[str, list[float]]:
        """A vector for each text; `progress(done, all)` counts those that had to be computed."""
        found = {text: vector for text in set(texts) if (vector := self._read(text, query)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for start in range(0, len(missing), _SLICE):
            part = missing[start : start + _SLICE]
            for text, vector in zip(part, await self._embedder.embed(part, query=query), strict=True):
                self._write(text, query, vector)
                found[text] = vector
            self._file.commit()
            progress(start + len(part), len(missing))
        return found

    def _read(self, text: str, query: bool) -> list[float] | None:
        row = self._file.execute(
            "SELECT numbers FROM vector WHERE text = ?", (_name(text, query),)
        ).fetchone()
        return list(array("f", row[0])) if row else None

    def _write(self, text: str, query: bool, vector: Sequence[float]) -> None:
        numbers = array("f", vector).tobytes()
        self._file.execute("INSERT OR REPLACE INTO vector VALUES (?, ?)", (_name(text, query), numbers))


def _name(text: str, query: bool) -> bytes:
    return hashlib.sha256((b"q" if query else b"p") + text.encode("utf-8", "replace")).digest()

"""Exports on their way into files: checked line by line as they arrive, there only when complete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from indai.client.exports import End, Header, read_export
from indai.client.succession import NewestHead
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import InvalidInput, Reason


@dataclass(frozen=True, slots=True)
class Exported:
    """A finished export: its file, and what its first and last lines say."""

    path: Path
    header: Header
    checkpoint: Checkpoint
    end: End


async def save(chunks: AsyncIterator[bytes], path: Path) -> Exported:
    """Write an export beside its place, read it back whole, then move it there. Raises InvalidInput."""
    await asyncio.to_thread(path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("wb") as file:
            async for chunk in chunks:
                file.write(chunk)
        exported = await asyncio.to_thread(_read_back, draft, path)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return exported


def _read_back(draft: Path, path: Path) -> Exported:
    header: Header | None = None
    newest = NewestHead()
    for _, record in read_export(draft):
        newest.take(record)
        if isinstance(record, Header):
            header = record
        elif isinstance(record, End) and header is not None:
            return Exported(path, header, newest.open(), record)
    raise InvalidInput(Reason.INVALID_EXPORT, "The export is empty.", hint="look into the node's log")


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A ledger's newest signed head, verified with the key in the export's first line."""

    note: str
    vkey: str
    checkpoint: Checkpoint


async def newest_head(chunks: AsyncIterator[bytes]) -> SignedHead:
    """The newest head of an export, without taking the rest of it. Raises InvalidInput, ProtocolError."""
    found: dict[str, str] = {}
    buffer = b""
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            values = json.loads(line)
            if values.get("type") not in _HEAD_LINES:
                return _opened(found)
            found |= values
    return _opened(found)


_HEAD_LINES = ("header", "checkpoint")


def _opened(found: dict[str, str]) -> SignedHead:
    if "note" not in found or "vkey" not in found:
        raise InvalidInput(Reason.INVALID_EXPORT, "The node gave no signed head.", hint="look into its log")
    checkpoint, _ = open_checkpoint(found["note"].encode(), found["vkey"])
    return SignedHead(found["note"], found["vkey"], checkpoint)

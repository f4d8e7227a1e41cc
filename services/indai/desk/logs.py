"""The public logs of this node, to look through in a browser: heads, witnesses, tiles and entries.

Anybody may read them. Nothing is proved here: whoever wants proof fetches checkpoint and tiles (C2SP
tlog-tiles), which are named beside each part, and checks them with a program of their own.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.protocol.leaf import LEAF_SIZE, LeafKind, LedgerLeaf
from indai.protocol.merkle import leaf_hash
from indai.protocol.note import MAX_NOTE
from indai.protocol.operations import parse_operation
from indai.protocol.registryleaf import parse_registry_leaf
from indai.protocol.tiles import TILE_WIDTH, Tile, tiles_of
from indai.v1 import registry_pb2
from indai.web.catalog import Words
from indai.web.site import Site
from indai.web.visit import Visit

ON_A_PAGE: Final = 64
"""Entries; four pages are one bundle of the log."""
_COSIGNATURE_BYTES: Final = 4 + 8 + 64
"""Key hash, time in seconds, Ed25519 signature (C2SP tlog-cosignature)."""
OPERATIONS: Final = {
    registry_pb2.OPERATION_TYPE_CREATE: "A handle was claimed",
    registry_pb2.OPERATION_TYPE_UPDATE: "A record was changed",
    registry_pb2.OPERATION_TYPE_REVOKE: "A key was revoked",
    registry_pb2.OPERATION_TYPE_TOMBSTONE: "A handle was given up",
    registry_pb2.OPERATION_TYPE_DELEGATE: "What a sub-agent may do was changed",
    registry_pb2.OPERATION_TYPE_RECOVER: "A handle was recovered",
    registry_pb2.OPERATION_TYPE_TRANSFER: "A handle was handed over",
}
LEAVES: Final = {
    LeafKind.COMMITMENT: "A commitment, or an event of one",
    LeafKind.DECISION: "A policy decision",
    LeafKind.POLICY_VERSION: "A version of rules",
}
NEXT_KEY: Final = "The log's next key"


@dataclass(frozen=True, slots=True)
class Log:
    """A public log of this node: its origin, what gives its newest signed head, and its entries from an
    index on, so many at most."""

    origin: str
    checkpoint: Callable[[], Awaitable[bytes]]
    entries: Callable[[int, int], Awaitable[Sequence[bytes]]]


@dataclass(frozen=True, slots=True)
class Signed:
    """A line of signature under a head: by whom, and when, where it is a witness who says so."""

    name: str
    time: str = ""


class PublicLogs:
    """The pages, which need no sign-in."""

    def __init__(self, site: Site, logs: Sequence[Log]) -> None:
        self._site, self._logs = site, {log.origin: log for log in logs}

    def routes(self) -> tuple[web.RouteDef, ...]:
        """What the site serves of it."""
        return self._site.get("/log", self._heads), self._site.get("/log/entries", self._entries)

    async def _heads(self, visit: Visit) -> web.Response:
        return visit.page("desk/log.html", heads=[await _head(log) for log in self._logs.values()])

    async def _entries(self, visit: Visit) -> web.Response:
        log = self._logs.get(visit.request.query.get("log", ""))
        if log is None:
            raise NotFound(
                Reason.NOT_FOUND, "There is no such log here.", hint="choose one of those under /log"
            )
        size = (await _head(log)).get("size", 0)
        start = _start(visit.request.query.get("from", ""), size)
        width = min(TILE_WIDTH, size - start // TILE_WIDTH * TILE_WIDTH)
        places = [Tile(level, start // TILE_WIDTH, width).path for level in (None, 0)] if width > 0 else []
        found = await log.entries(start, min(ON_A_PAGE, size - start)) if start < size else ()
        return visit.page(
            "desk/log_entries.html",
            origin=log.origin,
            entries=[_entry(start + at, raw, visit.words) for at, raw in enumerate(found)],
            places=places,
            older=max(0, start - ON_A_PAGE) if start else None,
            newer=start + ON_A_PAGE if start + ON_A_PAGE < size else None,
        )


def _start(asked: str, size: int) -> int:
    """The page that holds this index; without one, the newest."""
    if not asked:
        return max(0, size - 1) // ON_A_PAGE * ON_A_PAGE
    if not (asked.isascii() and asked.isdigit() and len(asked) < 16):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "An entry is named by its number.", hint="go back to /log"
        )
    return int(asked) // ON_A_PAGE * ON_A_PAGE


async def _head(log: Log) -> dict[str, Any]:
    """The newest head in its parts, for people."""
    try:
        note = (await log.checkpoint()).decode("utf-8")
    except IndaiError as error:
        return {"origin": log.origin, "problem": error.message}
    body, _, signatures = note[:MAX_NOTE].partition("\n\n")
    lines = body.split("\n")
    signed = [_signed(line) for line in signatures.split("\n") if line.startswith("\u2014 ")]
    size = int(lines[1])
    # The newest tile of each level, the entries' among them: those before it are full.
    newest = {tile.level: tile.path for tile in tiles_of(size, max(0, size - TILE_WIDTH))}
    return {
        "origin": log.origin,
        "size": size,
        "root": lines[2],
        "signers": [one for one in signed if not one.time],
        # Its own clock says when; it is nobody else's eye.
        "clocks": [one for one in signed if one.time and one.name.startswith(f"{log.origin}/")],
        "witnesses": [one for one in signed if one.time and not one.name.startswith(f"{log.origin}/")],
        "note": note,
        "tiles": [
            newest[level] for level in sorted(newest, key=lambda level: -1 if level is None else level)
        ],
        "read": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "problem": "",
    }


def _signed(line: str) -> Signed:
    name, _, value = line.removeprefix("\u2014 ").partition(" ")
    raw = b64decode(value)
    if len(raw) != _COSIGNATURE_BYTES:
        return Signed(name)
    return Signed(name, _time(int.from_bytes(raw[4:12], "big") * 1000))


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _entry(index: int, raw: bytes, words: Words) -> dict[str, Any]:
    """What an entry says unopened: a handle's change is public, a commitment's leaf is blinded."""
    at_ms, what, about = _read(raw)
    return {
        "index": index,
        "time": _time(at_ms) if at_ms else "",
        "what": words(what),
        "about": about,
        "hash": leaf_hash(raw).hex(),
    }


def _read(raw: bytes) -> tuple[int, str, str]:
    """(leaf time in ms, what it is, whose)."""
    try:
        if len(raw) == LEAF_SIZE:
            blinded = LedgerLeaf.parse(raw)
            return blinded.time_ms, LEAVES.get(blinded.kind, "unknown"), ""
        leaf = parse_registry_leaf(raw)
        if not leaf.is_operation:
            return leaf.time_ms, NEXT_KEY, ""
        operation = parse_operation(parse_envelope(leaf.body))
        return leaf.time_ms, OPERATIONS.get(operation.type, "unknown"), operation.handle
    except IndaiError:
        return 0, "unknown", ""

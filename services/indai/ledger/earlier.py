"""Ledgers that a node had before the one it signs now: they are read and proved, and nothing is added.

What stands of them is what their last signed head covers: all of it, by one signed when the next one began,
if the keys were still there then. They may be lost, so whose head it is, the node's records in the registry
say, and not a file here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import asyncpg
import structlog
from indai.ledger.keys import LedgerKeys
from indai.protocol.checkpoint import open_checkpoint
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.protocol.note import Verifier, parse_vkey
from indai.protocol.quoting import quoted
from indai.storage.pool import transaction
from indai.tlog.headfile import signer_of
from indai.tlog.reader import LogReader
from indai.tlog.signer import LogSigner

_UNSIGNED = (
    "SELECT head.log FROM tlog.head AS head JOIN tlog.published USING (log) WHERE head.size > published.size"
)
_KEPT = "SELECT log FROM tlog.published WHERE starts_with(log, $1) ORDER BY log DESC"

log = structlog.get_logger(__name__)


class EarlierLedgers:
    """Those of `node` that its database has, but for `current`."""

    def __init__(self, pool: asyncpg.Pool, node: str, current: str) -> None:
        self._pool, self._stem, self._current = pool, f"{node}/ledger/", current

    async def origins(self) -> list[str]:
        """Their names, newest first: whatever has a signed head."""
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(_KEPT, self._stem)
        return [row["log"] for row in rows if row["log"] != self._current]

    async def seal(self, keys: LedgerKeys, heads: Path, clock: Callable[[], int]) -> None:
        """Sign what was added after the last head of each, once: nothing follows it. One whose keys are
        lost, or whose last head is not of this database, stays as it is."""
        async with transaction(self._pool) as connection:
            unsigned = {row["log"] for row in await connection.fetch(_UNSIGNED)}
        for origin in unsigned & set(await self.origins()):
            if (own := keys.of_earlier(origin)) is None:
                continue
            try:
                await LogSigner.open(self._pool, own.current, heads, clock, former=own.former)
            except IndaiError as error:
                log.warning(
                    "an earlier ledger is not signed to its end", log=origin, reason=error.reason.name
                )

    async def find(self, named: str) -> str:
        """The one of this name, or year; the current one, too. Raises NotFound, which names them all."""
        wanted = f"{self._stem}{named}" if re.fullmatch("[0-9]{4}", named) else named
        kept = [self._current, *await self.origins()]
        if wanted in kept:
            return wanted
        message = f"This node has kept no ledger {quoted(named)}."
        raise NotFound(Reason.NOT_FOUND, message, hint=f"it has {', '.join(kept)}")

    async def head(self, origin: str, vkeys: Sequence[str]) -> tuple[bytes, Verifier]:
        """The last signed head, verified, and whose key among `vkeys` it is by. Raises NotFound and
        ProtocolError."""
        note = await LogReader(self._pool, origin).checkpoint()
        key = signer_of(note, keys_of(origin, vkeys))
        open_checkpoint(note, key)
        return note, key


def keys_of(origin: str, vkeys: Sequence[str]) -> tuple[Verifier, ...]:
    """A ledger's keys, newest first, out of all that its node's records have named; NotFound."""
    own = [vkey for vkey in vkeys if vkey.startswith(f"{origin}+")]
    keys = [parse_vkey(vkey) for before, vkey in pairwise(["", *own]) if vkey != before]
    if not keys:
        message = f"The node's records in the registry name no key of {origin}."
        raise NotFound(Reason.NOT_FOUND, message, hint="its heads verify under no key that anybody knows")
    return tuple(reversed(keys))

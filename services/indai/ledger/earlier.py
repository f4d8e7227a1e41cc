"""Ledgers that a node had before the one it signs now: they are read and proved, and never signed again.

What stands of them is what their last signed head covers. Their keys may be lost, so whose head it is, the
node's records in the registry say, and not a file here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import asyncpg
from indai.protocol.checkpoint import open_checkpoint
from indai.protocol.errors import NotFound, Reason
from indai.protocol.note import Verifier, parse_vkey
from indai.protocol.quoting import quoted
from indai.storage.pool import transaction
from indai.tlog.headfile import signer_of
from indai.tlog.reader import LogReader

_KEPT = "SELECT log FROM tlog.published WHERE starts_with(log, $1) ORDER BY log DESC"


class EarlierLedgers:
    """Those of `node` that its database has, but for `current`."""

    def __init__(self, pool: asyncpg.Pool, node: str, current: str) -> None:
        self._pool, self._stem, self._current = pool, f"{node}/ledger/", current

    async def origins(self) -> list[str]:
        """Their names, newest first: whatever has a signed head."""
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(_KEPT, self._stem)
        return [row["log"] for row in rows if row["log"] != self._current]

    async def find(self, named: str) -> str:
        """The one of this name, or year; the current one, too. Raises NotFound, which names them all."""
        wanted = f"{self._stem}{named}" if re.fullmatch("[0-9]{4}", named) else named
        kept = [self._current, *await self.origins()]
        if wanted in kept:
            return wanted
        message = f"This node has kept no ledger {quoted(named)}."
        raise NotFound(Reason.NOT_FOUND, message, hint=f"it has {', '.join(kept)}")

    async def head(self, log: str, vkeys: Sequence[str]) -> tuple[bytes, Verifier]:
        """The last signed head, verified, and whose key among `vkeys` it is by. Raises NotFound and
        ProtocolError."""
        note = await LogReader(self._pool, log).checkpoint()
        key = signer_of(note, keys_of(log, vkeys))
        open_checkpoint(note, key)
        return note, key


def keys_of(log: str, vkeys: Sequence[str]) -> tuple[Verifier, ...]:
    """A ledger's keys, newest first, out of all that its node's records have named; NotFound."""
    own = [vkey for vkey in vkeys if vkey.startswith(f"{log}+")]
    keys = [parse_vkey(vkey) for before, vkey in pairwise(["", *own]) if vkey != before]
    if not keys:
        message = f"The node's records in the registry name no key of {log}."
        raise NotFound(Reason.NOT_FOUND, message, hint="its heads verify under no key that anybody knows")
    return tuple(reversed(keys))

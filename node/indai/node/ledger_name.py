"""Which ledger is the node's: `<node handle>/ledger/<year>`, with the year in which it began.

A ledger goes on over the turn of a year: receipts, heads that peers hold and proofs name it, and what it
holds can be shown and erased only where it is. Another one begins only when the operator says so.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import unquote

import asyncpg
from indai.protocol.errors import InvalidInput, Reason
from indai.storage.pool import transaction


async def ledger_name(pool: asyncpg.Pool, heads: Path, node: str, wanted: int, year: int) -> str:
    """The origin of the ledger of `node`: of the year `wanted`; where that is 0, the newest in the database
    or with a signed head in the folder `heads`, which tells of a lost database; else the first, of `year`.

    Raises InvalidInput for a year before that of the newest: what was given up is never gone back to.
    """
    stem = f"{node}/ledger/"
    async with transaction(pool) as connection:
        rows = await connection.fetch("SELECT log FROM tlog.head WHERE starts_with(log, $1)", stem)
    signed = await asyncio.to_thread(lambda: [unquote(path.stem) for path in heads.glob("*.head")])
    known = [row["log"] for row in rows] + signed
    had = [log for log in known if re.fullmatch(re.escape(stem) + "[0-9]{4}", log)]
    newest = max(had, default="")
    if not wanted:
        return newest or f"{stem}{year:04}"
    origin = f"{stem}{wanted:04}"
    if origin < newest:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"This node has gone on to the ledger {newest}, which is later than {origin}.",
            hint="leave --ledger-year away",
        )
    return origin

"""`python -m tests.hammer.paused DSN`: a writer that records an entry, waits for a line, records another.

Says `ready`, then `done` or `fenced`. Whoever started it pauses it in between.
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg
from indai.ledger.entries import record
from indai.storage.pool import open_pool, transaction
from indai.tlog.append import take_over

from tests.hammer.writer import LOG, OWNERS, VAULT, entry


async def main(dsn: str) -> None:
    """Before the pause, the pause, after it."""
    pool = await open_pool(dsn, max_size=1)
    writer = await take_over(pool, LOG)
    for number, word in ((0, "ready"), (2, "done")):
        try:
            async with transaction(pool, OWNERS) as connection:
                await record(connection, LOG, writer.epoch, [entry(number)], VAULT)
        except asyncpg.PostgresError as error:
            word = "fenced" if error.sqlstate == "TL001" else f"failed {error}"
        print(word, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    await pool.close()


asyncio.run(main(sys.argv[1]))

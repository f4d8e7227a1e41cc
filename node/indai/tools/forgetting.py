"""What tools did in turns that are forgotten goes with them: calls, questions and jobs that have ended.

A question that still waits for the owner stays, since nobody has answered it yet; so does a job that still
runs, without which something that was promised would never happen. The question about forgetting itself,
whose answer is running now, loses its words only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

_CALLS: Final = "DELETE FROM tools.tool_calls WHERE turn = ANY ($1)"
_APPROVALS: Final = """
    DELETE FROM tools.approvals
    WHERE caller ->> 'turn' = ANY ($1) AND state IN ('declined', 'expired', 'done')
"""
_JOBS: Final = "DELETE FROM tools.jobs WHERE caller ->> 'turn' = ANY ($1) AND state IN ('done', 'dead')"
_WORDS: Final = """
    UPDATE tools.approvals SET terms = tool, why = ''
    WHERE caller ->> 'turn' = ANY ($1) AND state = 'approved' AND tool = 'forget'
"""
_LEFT: Final = """
    SELECT (SELECT count(*) FROM tools.tool_calls WHERE turn = ANY ($1))
        + (SELECT count(*) FROM tools.approvals
           WHERE caller ->> 'turn' = ANY ($1) AND state IN ('declined', 'expired', 'done'))
        + (SELECT count(*) FROM tools.jobs
           WHERE caller ->> 'turn' = ANY ($1) AND state IN ('done', 'dead'))
"""


async def remove(connection: asyncpg.Connection, turns: Sequence[str]) -> dict[str, int]:
    """Remove the rows of these turns (ids as hexadecimal digits), of the owners that the transaction sees."""
    removed = {
        "tool_calls": await connection.execute(_CALLS, turns),
        "questions": await connection.execute(_APPROVALS, turns),
        "jobs": await connection.execute(_JOBS, turns),
    }
    await connection.execute(_WORDS, turns)
    return {name: int(done.rpartition(" ")[2]) for name, done in removed.items()}


async def left(connection: asyncpg.Connection, turns: Sequence[str]) -> int:
    """What a second look still finds."""
    return int(await connection.fetchval(_LEFT, turns))

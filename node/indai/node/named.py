"""Finds what an owner names by a few digits: the beginning of an id, or the end of a request's number.

Each look reads a range of an index (`tests/service/test_named.py` counts that among 100,000 rows); text that
is made of every id would be compared with each of them. At most two are found: enough to tell one from
several.
"""

from __future__ import annotations

import re
from typing import Final

import asyncpg
from indai.node.paging import beginning_with
from indai.node.store import Store

THREAD_DIGITS, MID_DIGITS = 32, 64
_REFERENCE: Final = re.compile("IND([0-9A-F]{32})")  # PAY-03

THREADS: Final = """
SELECT thread FROM node.threads
WHERE owner = $1 AND thread BETWEEN $2 AND $3 AND ($4 = '' OR kind = $4) LIMIT 2
"""

# A commitment's mid is that of the message that offered it.
COMMITMENTS: Final = """
SELECT DISTINCT m.thread FROM node.messages m
  JOIN node.threads t ON t.owner = m.owner AND t.thread = m.thread AND t.mid = m.mid
WHERE m.owner = $1 AND m.mid BETWEEN $2 AND $3 LIMIT 2
"""

REQUESTS: Final = """
SELECT thread FROM node.threads WHERE owner = $1 AND tail BETWEEN $2 AND $3 AND kind = 'request' LIMIT 2
"""

QUESTIONS: Final = """
SELECT a.action_hash, a.thread, t.side FROM node.approvals a JOIN node.threads t USING (owner, thread)
WHERE a.owner = $1 AND a.action_hash BETWEEN $2 AND $3 AND a.state = 'pending' LIMIT 2
"""

PAID_FOR: Final = """
SELECT t.thread, t.mid FROM node.messages m
  JOIN node.threads t ON t.owner = m.owner AND t.thread = m.thread AND t.mid = m.mid
WHERE m.owner = $1 AND m.mid BETWEEN $2 AND $3 AND t.kind = 'pay' AND t.phase = 'COMMITTED' LIMIT 1
"""

PAID_ON: Final = """
SELECT m.thread, m.mid FROM node.pay_links l
  JOIN node.messages m ON m.owner = l.owner AND m.mid = l.mid
  JOIN node.threads t ON t.owner = m.owner AND t.thread = m.thread AND t.mid = m.mid
WHERE l.owner = $1 AND l.link_id = $2 AND t.kind = 'pay' AND t.phase = 'COMMITTED' LIMIT 1
"""


async def threads(store: Store, owner: str, digits: str, kind: str = "") -> list[bytes]:
    """Threads (of that kind, if one is named) whose ids begin with these lower-case hexadecimal digits; none
    for more than an id has."""
    if len(digits) > THREAD_DIGITS:
        return []
    return await _found(store, THREADS, owner, *beginning_with(digits, THREAD_DIGITS), kind)


async def commitments(store: Store, owner: str, digits: str) -> list[bytes]:
    """Threads whose commitments' mids begin with these digits, at most 64."""
    return await _found(store, COMMITMENTS, owner, *beginning_with(digits, MID_DIGITS))


async def meetings(store: Store, owner: str, digits: str) -> list[bytes]:
    """Threads that these digits begin, or whose commitment's mid they begin."""
    found = await threads(store, owner, digits) + await commitments(store, owner, digits)
    return list(dict.fromkeys(found))


async def requests(store: Store, owner: str, digits: str) -> list[bytes]:
    """Threads of requests whose ids, and so their numbers, end with these digits."""
    backwards = digits[::-1]
    return await _found(store, REQUESTS, owner, backwards, backwards + "g")


async def payments(store: Store, owner: str, reference: str, link_id: str) -> tuple[bytes, bytes] | None:
    """(thread, mid) of the agreed payment with this reference, or without one with this page of a
    provider's."""
    async with store.scope(owner) as connection:
        if not reference:
            return _pair(await connection.fetchrow(PAID_ON, owner, link_id))
        whole = _REFERENCE.fullmatch(reference)
        if whole is None:
            return None  # none of ours: a shorter one would begin several
        span = beginning_with(whole[1].lower(), MID_DIGITS)
        return _pair(await connection.fetchrow(PAID_FOR, owner, *span))


def _pair(row: asyncpg.Record | None) -> tuple[bytes, bytes] | None:
    return (row["thread"], row["mid"]) if row else None


async def _found(store: Store, query: str, owner: str, *named_by: bytes | str) -> list[bytes]:
    async with store.scope(owner) as connection:
        rows = await connection.fetch(query, owner, *named_by)
    return [row["thread"] for row in rows]

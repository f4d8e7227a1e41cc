"""What owners name by a few digits is found by an index, however much there is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from indai.node import named
from indai.node.paging import beginning_with
from indai.node.store import Store
from indai.protocol.kinds.pay import payment_reference

from tests.conftest import Database

OWNER, OTHER = "ind.ai/office", "ind.ai/other"
FEW = 40  # rows that a look may read: it descends an index or two

TABLES = ("threads", "messages", "approvals", "pay_links")
FILL = """
ALTER TABLE node.threads DISABLE TRIGGER count_peer;  -- of one peer: a hundred thousand changes of one row
INSERT INTO node.threads
  (owner, thread, peer, side, phase, outgoing, title, mid, kind, created_ms, updated_ms)
  SELECT CASE WHEN n % 50 = 0 THEN 'ind.ai/other' ELSE 'ind.ai/office' END, decode(md5('t' || n), 'hex'),
    'ind.ai/p', '', 'COMMITTED', false, '', sha256(('m' || n)::bytea),
    (ARRAY['request', 'pay', 'meet'])[1 + n % 3], n, n
  FROM generate_series(1, 100000) AS n;
INSERT INTO node.messages (owner, mid, move, thread, outgoing, header_id, envelope, stored_ms)
  SELECT owner, mid, 'OFFER', thread, false, substr(mid, 1, 16), '', 0 FROM node.threads;
INSERT INTO node.approvals (owner, action_hash, thread, terms, why, expires_ms, created_ms)
  SELECT owner, mid, thread, '', '', 0, 0 FROM node.threads WHERE created_ms < 5000;
INSERT INTO node.pay_links SELECT owner, mid, 'link' || created_ms, '' FROM node.threads
  WHERE kind = 'pay' AND created_ms < 5000;
"""


def thread(n: int) -> bytes:
    return hashlib.md5(f"t{n}".encode(), usedforsecurity=False).digest()


def mid(n: int) -> bytes:
    return hashlib.sha256(f"m{n}".encode()).digest()


def read(plan: dict[str, Any]) -> int:
    """Rows that a plan's scans have read, those that a filter threw away among them."""
    below = sum(read(each) for each in plan.get("Plans", ()))
    rows = (
        plan["Actual Rows"]
        + plan.get("Rows Removed by Filter", 0)
        + plan.get("Rows Removed by Index Recheck", 0)
    )
    return below + int(plan["Actual Loops"] * rows) * ("Scan" in plan["Node Type"])


async def test_a_few_digits_find_one_of_a_hundred_thousand_by_index(
    make_database: Callable[[], Awaitable[Database]],
) -> None:
    database = await make_database()
    store = Store(database.pool, "log")
    admin = await asyncpg.connect(database.admin_dsn)
    for table in TABLES:
        await admin.execute(f"ALTER TABLE node.{table} NO FORCE ROW LEVEL SECURITY")
    await admin.execute(FILL)
    for table in TABLES:
        await admin.execute(f"ALTER TABLE node.{table} FORCE ROW LEVEL SECURITY; ANALYZE node.{table}")
    await admin.close()

    assert await named.threads(store, OWNER, thread(1).hex()[:10]) == [thread(1)]
    assert await named.threads(store, OWNER, thread(1).hex()[:10], "meet") == []
    assert await named.threads(store, OWNER, thread(1).hex()[:10], "pay") == [thread(1)]
    assert await named.threads(store, OWNER, thread(1).hex() + "0") == []
    assert await named.threads(store, OWNER, thread(50).hex()) == []  # another owner's
    assert await named.meetings(store, OWNER, mid(2).hex()[:11]) == [thread(2)]
    assert await named.meetings(store, OWNER, mid(2).hex()[:33]) == [thread(2)]
    assert await named.requests(store, OWNER, thread(3).hex()[-10:]) == [thread(3)]
    assert await named.requests(store, OWNER, thread(4).hex()[-10:]) == []  # no request
    assert await named.requests(store, OWNER, thread(150).hex()[-10:]) == []  # another owner's
    reference = payment_reference(mid(4))
    for text in (reference, ""):
        assert tuple(await named.payments(store, OWNER, text, "link4") or ()) == (thread(4), mid(4))
    for text in (reference[:-1], reference.lower(), "IND", payment_reference(mid(5)), reference + " "):
        assert await named.payments(store, OWNER, text, "link4") is None, text

    looks: dict[str, tuple[object, ...]] = {
        named.THREADS: (*beginning_with(thread(1).hex()[:10], 32), ""),
        named.COMMITMENTS: beginning_with(mid(2).hex()[:10], 64),
        named.REQUESTS: (thread(3).hex()[:-11:-1], thread(3).hex()[:-11:-1] + "g"),
        named.QUESTIONS: beginning_with(mid(2).hex()[:10], 64),
        named.PAID_FOR: beginning_with(mid(4).hex()[:32], 64),
        named.PAID_ON: ("link4",),
    }
    async with store.scope(OWNER) as connection:
        for query, digits in looks.items():
            text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", OWNER, *digits)
            plan = json.loads(text)[0]["Plan"]
            assert plan["Actual Rows"] == 1, text
            assert read(plan) <= FEW, text

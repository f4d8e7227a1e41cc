"""A ledger as lines of the export format: its heads, every leaf, and the contents that the caller may
see.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import asyncpg
from indai.client.exports import (
    FORMAT,
    LEDGER,
    CheckpointLine,
    ErasedLeafLine,
    ExportWriter,
    Header,
    LeafLine,
    OpenLeafLine,
    Record,
)
from indai.ledger.vault import Sealed, Vault, entry_name
from indai.protocol.checkpoint import read_checkpoint
from indai.storage.pool import transaction

# Older heads let an auditor see that the log only grew; a few are enough, since each covers all before it.
MAX_HEADS = 32
_PAGE = 512

_HEADS = "SELECT note FROM tlog.checkpoint WHERE log = $1 AND size <= $2 ORDER BY size DESC LIMIT $3"
_SIGNATURES = "\n\n"  # what stands between a note's text and its signature lines

_ERASED = "SELECT idx, owner, mid, about FROM ledger.erasures WHERE log = $1 AND idx >= $2 AND idx < $3"

# Row-level security shows the contents of the session's owners only; other leaves come without. OFFSET 0
# keeps the look-up of a content an index probe, whatever the planner believes about the table's size.
_LEAVES = """
    SELECT leaf.idx, leaf.leaf, content.owner, content.mid, content.kind, content.content, content.key
    FROM tlog.leaf AS leaf
    LEFT JOIN LATERAL (
        SELECT c.*, k.key FROM ledger.contents AS c JOIN ledger.content_keys AS k USING (log, idx)
        WHERE c.log = leaf.log AND c.idx = leaf.idx OFFSET 0
    ) AS content ON true
    WHERE leaf.log = $1 AND leaf.idx >= $2 AND leaf.idx < $3
    ORDER BY leaf.idx
"""


@dataclass(frozen=True, slots=True)
class LedgerIdentity:
    """Whose ledger it is: the node's handle, the log's origin and verifier key, the network's id.

    `vkey` is the key at a start; a ledger that has taken another one since says so with its heads.
    """

    node: str
    log: str
    vkey: str
    network: str


async def export_lines(
    pool: asyncpg.Pool,
    identity: LedgerIdentity,
    note: bytes,
    owners: Sequence[str],
    scope: str,
    now_ms: int,
    vault: Vault,
) -> AsyncIterator[bytes]:
    """The export of the leaves that the signed head `note` covers, line by line, a page in memory at a time.

    `note` is by the key in `identity`. `owners`: whose contents are shown. `scope`: the one owner it is for,
    empty for the whole node's.
    """
    size, newest = read_checkpoint(note).size, _bare(note)
    writer = ExportWriter()
    header = Header(
        FORMAT, LEDGER, identity.node, scope, identity.log, identity.vkey, identity.network, now_ms
    )
    yield writer.line(header)
    async with transaction(pool) as connection:
        heads = await connection.fetch(_HEADS, identity.log, size, MAX_HEADS)
    # The last head is by the key in the first line, also where a former key has signed one of that size.
    older = [text for row in reversed(heads) if (text := row["note"].decode("utf-8")) != newest]
    for text in (*older, newest):
        yield writer.line(CheckpointLine(text))
    for start in range(0, size, _PAGE):
        async with transaction(pool, owners) as connection:
            page = (identity.log, start, min(start + _PAGE, size))
            rows = await connection.fetch(_LEAVES, *page)
            erased = {row["idx"]: row for row in await connection.fetch(_ERASED, *page) if row["mid"]}
        for row in rows:
            yield writer.line(_leaf(row, erased.get(row["idx"]), vault))
    yield writer.end()


def _bare(note: bytes) -> str:
    """The note with the log's own signature alone, which is the first."""
    text, _, lines = note.decode("utf-8").rpartition(_SIGNATURES)
    own, _, _ = lines.partition("\n")
    return f"{text}{_SIGNATURES}{own}\n"


def _leaf(row: asyncpg.Record, erased: asyncpg.Record | None, vault: Vault) -> Record:
    if erased is not None:
        about = erased["about"] or b""
        return ErasedLeafLine(row["idx"], row["leaf"], erased["owner"], erased["mid"], about)
    if row["owner"] is None:
        return LeafLine(row["idx"], row["leaf"])
    name = entry_name(row["owner"], row["mid"], row["kind"])
    envelope, opening = vault.open(name, Sealed(row["content"], row["key"]))
    return OpenLeafLine(row["idx"], row["leaf"], row["owner"], row["mid"], envelope, opening)

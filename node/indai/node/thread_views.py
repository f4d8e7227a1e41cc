"""One owner's threads by id, prefix or number, for the services that begin or read them."""

from __future__ import annotations

from indai.node import named, views
from indai.node.store import Store
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.handles import Handle
from indai.protocol.kinds.ask import REQUEST
from indai.protocol.party_state import Side
from indai.v1 import owner_pb2

THREAD = """
SELECT t.*, EXISTS (
  SELECT FROM node.effects e
  WHERE e.owner = t.owner AND e.thread = t.thread AND e.kind = 'calendar-put' AND e.done
) AS in_calendar, (
  SELECT h.log FROM tlog.head h WHERE t.ledger_index IS NOT NULL AND EXISTS (
    SELECT FROM tlog.entry e
    WHERE e.log = h.log AND e.owner = t.owner AND e.mid = t.mid AND e.kind = 1 OFFSET 0)
  ORDER BY h.log LIMIT 1
) AS our_log
FROM node.threads t WHERE t.owner = $1
"""
"""An owner's threads as `views.thread` reads them: which of the node's ledgers holds one, too."""


class ThreadViews:
    """Reads `node.threads`; `ledger` is the origin of this node's own ledger."""

    def __init__(self, store: Store, ledger: str) -> None:
        self._store = store
        self._ledger = ledger

    async def of(self, owner: str, thread: bytes) -> owner_pb2.Thread:
        """As the owner reads it."""
        return views.thread(await self.row(owner, thread), self._ledger)

    async def row(self, owner: str, thread: bytes) -> views.Row:
        """The row; raises NotFound."""
        async with self._store.scope(owner) as connection:
            row: views.Row | None = await connection.fetchrow(THREAD + "AND t.thread = $2", owner, thread)
        if row is None:
            raise _none(thread.hex())
        return row

    async def find(self, owner: str, text: str, kind: str) -> views.Row:
        """A thread of this kind by the beginning of its id, or a request's by its number."""
        name = text.strip()
        is_hex = 6 <= len(name) <= 32 and not set(name.lower()) - set("0123456789abcdef")
        # The number of a request ends with the last digits of its thread's id.
        digits = name.lower() if is_hex else name.rpartition("-")[2].lower()
        if len(digits) < 6 or set(digits) - set("0123456789abcdef"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "Name it by its number, or by 6 to 32 hexadecimal digits of its thread's id.",
            )
        if is_hex:
            found = await named.threads(self._store, owner, digits, kind)
        else:
            found = await named.requests(self._store, owner, digits) if kind == REQUEST.name else []
        if len(found) > 1:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"Several match {name}.", hint="give more digits")
        if not found:
            raise _none(name)
        return await self.row(owner, found[0])


def side_of(row: views.Row) -> Side:
    """The stored state of a thread; raises NotFound once it is erased."""
    if not row["side"]:
        raise NotFound(Reason.NOT_FOUND, "What this thread said is erased.")
    return Side.from_json(row["side"])


def peer_of(text: str) -> str:
    """A handle, as it is written everywhere; raises InvalidInput."""
    return str(Handle.parse(text))


def _none(text: str) -> NotFound:
    return NotFound(Reason.NOT_FOUND, f"There is no such thread: {text}.", hint="indai threads lists yours")

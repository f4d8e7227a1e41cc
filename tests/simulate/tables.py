"""The node's tables in memory, with the interface of `indai.node.store.Store` and the refusals of its SQL.

One `apply` is one transaction: all of it or nothing. The process may die before and after it, and the
connection may be lost so that nobody knows which. `broken` switches guards off, as negative controls.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy

import asyncpg
from indai.node.holdings import Holdings, Spent
from indai.node.store import Doc, Key, Loaded, Row, hexed
from indai.protocol.kinds.base import Stock

UNITS = 2  # of each item that an owner has
_ENDED = ("COMMITTED", "REJECTED", "WITHDRAWN", "LAPSED")
_KEPT = ("owner", "kind", "outgoing", "title", "request_id", "created_ms", "peer", "thread", "erased_ms")
_BYTEA = ("thread", "mid", "reserved_mid")


def refusal(sqlstate: str, constraint: str = "") -> asyncpg.PostgresError:
    """As the database would refuse it."""
    error = asyncpg.PostgresError(f"{sqlstate} {constraint}")
    error.sqlstate, error.constraint_name = sqlstate, constraint
    return error


class Tables:
    """What survives a crash of one node."""

    def __init__(self) -> None:
        self.threads: dict[tuple[str, str], Row] = {}
        self.messages: dict[tuple[str, str, str], Row] = {}
        self.outbox: dict[tuple[str, str, str], Row] = {}
        self.reservations: dict[tuple[str, str], Row] = {}
        self.holds: dict[tuple[str, str], Row] = {}
        self.offers: dict[tuple[str, str], Row] = {}
        self.approvals: dict[tuple[str, str], Row] = {}
        self.effects: dict[tuple[str, str], Row] = {}
        self.ledger: dict[tuple[str, str, int], Row] = {}
        self.journal: list[Row] = []

    def copy(self) -> Tables:
        """Another of the same rows; rows are replaced and never changed."""
        other = copy(self)
        for name, table in vars(self).items():
            setattr(other, name, copy(table))
        return other

    def is_doubled(self, owner: str) -> bool:
        """Whether two of the owner's slots overlap, and are not kept for one and the same commitment."""
        rows = [row for (of, _), row in self.reservations.items() if of == owner]
        rows.sort(key=lambda row: row["start_ms"])
        return any(
            b["start_ms"] < a["end_ms"] and (a.get("place") or a["mid"]) != (b.get("place") or b["mid"])
            for at, a in enumerate(rows)
            for b in rows[at + 1 :]
        )

    def units(self, owner: str) -> Counter[str]:
        """Units that the owner has promised or given, by item."""
        count: Counter[str] = Counter()
        for (of, _), row in self.holds.items():
            if of == owner and row.get("item"):
                count[row["item"]] += row["quantity"]
        return count

    def money(self, owner: str) -> Counter[tuple[str, str]]:
        """What the owner has promised or spent, by currency and day."""
        count: Counter[tuple[str, str]] = Counter()
        for (of, _), row in self.holds.items():
            if of == owner and row.get("currency"):
                count[row["currency"], row["day"]] += row["amount_minor"]
        return count


class MemoryStore:
    """See the module. `trouble(point)` may raise at "load", "before" and "after" each write."""

    def __init__(self, trouble: Callable[[str], None], broken: str = "") -> None:
        self.tables = Tables()
        self._trouble = trouble
        self._broken = broken

    async def load(
        self, owners: Iterable[str], threads: Sequence[Key], busy_owners: Sequence[str], busy_from_ms: int
    ) -> Loaded:
        """As the store's."""
        self._trouble("load")
        loaded = Loaded(reserved={owner: self._holdings(owner) for owner in busy_owners})
        for owner, thread in threads:
            row = self.tables.threads.get((owner, thread.hex()))
            if row is not None:
                loaded.threads[owner, thread] = self._loaded(row)
        return loaded

    async def apply(self, owners: Iterable[str], doc: Doc, epoch: int, size: int | None) -> int:
        """As the store's; the clock it returns is nobody's."""
        self._trouble("before")
        rows: dict[str, list[Row]] = json.loads(
            json.dumps({name: rows for name, rows in doc.items() if rows})
        )
        if not {row["owner"] for each in rows.values() for row in each} <= set(owners):
            raise AssertionError("a row of an owner whom the transaction does not name")
        after = self.tables.copy()
        if size is not None and size != len(after.ledger):
            raise refusal("TL002")
        for section, change in _SECTIONS.items():
            if section in rows and section not in self._broken.split("+"):
                change(after, rows[section])
                if self._broken == "two-transactions":
                    self.tables = after.copy()
                    self._trouble("before")
        if "reserve" in rows or "holds" in rows:
            _check(after, rows, self._broken)
        self.tables = after
        self._trouble("after")
        return 0

    async def replies(self, owner: str, mid: bytes, move: str) -> list[bytes]:
        """As the store's."""
        rows = self.tables.messages.items()
        cause = (hexed(mid), move)
        return [
            _raw(row["envelope"])
            for (of, _, _), row in rows
            if of == owner and (row["cause_mid"], row["cause_move"]) == cause
        ]

    async def crowds(self, owners: Sequence[str]) -> list[tuple[str, str, int, int]]:
        """As the store's."""
        count: dict[tuple[str, str], list[int]] = {}
        for (owner, _), row in self.tables.threads.items():
            if owner in owners and not row["outgoing"] and row["phase"] not in _ENDED:
                seen = count.setdefault((owner, row["peer"]), [0, 0])
                seen[0] += 1
                seen[1] += row["phase"] == "ASKING_OWNER"
        return [(owner, peer, many, asked) for (owner, peer), (many, asked) in count.items()]

    async def ledger_size(self) -> int:
        """As the store's."""
        return len(self.tables.ledger)

    async def thread_of_commitment(self, owner: str, mid: bytes) -> bytes | None:
        """As the store's."""
        for (of, thread), row in self.tables.threads.items():
            if of == owner and row["mid"] == hexed(mid) and row["phase"] == "COMMITTED":
                return bytes.fromhex(thread)
        return None

    async def thread_of_offer(self, owner: str, mid: bytes) -> bytes | None:
        """As the store's."""
        for (of, number, move), row in self.tables.messages.items():
            if (of, number) == (owner, hexed(mid)) and move in ("OFFER", "ACCEPT"):
                return bytes.fromhex(row["thread"][2:])
        return None

    def _holdings(self, owner: str) -> Holdings:
        held = Holdings()
        if "forgets-promises" in self._broken:
            return held
        for (of, mid), row in self.tables.reservations.items():
            if of == owner:
                held.slots[_raw(mid)] = (row["start_ms"], row["end_ms"])
        for (of, mid), row in self.tables.holds.items():
            if of == owner and row.get("item"):
                held.stock[_raw(mid)] = Stock(row["item"], row["quantity"], row["start_ms"], row["end_ms"])
            elif of == owner:
                held.money[_raw(mid)] = Spent(row["amount_minor"], row["currency"], row["day"], row["peer"])
        return held

    def _loaded(self, row: Row) -> tuple[Row, bytes | None]:
        whole = row | {name: _raw(row[name]) if row[name] else None for name in _BYTEA}
        signed = [self.tables.messages.get((row["owner"], row["mid"], move)) for move in ("ACCEPT", "OFFER")]
        return whole, next((_raw(one["envelope"]) for one in signed if one), None)


def _raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


def _check(after: Tables, rows: dict[str, list[Row]], broken: str) -> None:
    """The exclusion constraint, the units there are, the limits that were signed under."""
    if "no-constraints" in broken:
        return
    for owner in {row["owner"] for name in ("reserve", "holds") for row in rows.get(name, ())}:
        if after.is_doubled(owner):
            raise refusal("23P01", "reservations_apart")
        if any(many > UNITS for many in after.units(owner).values()):
            raise refusal("IND13")
    for row in rows.get("holds", ()):
        limit = row.get("limit_minor")
        if limit is not None and after.money(row["owner"])[row["currency"], row["day"]] > limit:
            raise refusal("IND14")


def _new_threads(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["thread"].removeprefix("\\x")
        if key in tables.threads:
            raise refusal("23505", "threads_pkey")
        tables.threads[key] = row | {"erased_ms": None}


def _threads(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["thread"].removeprefix("\\x")
        old = tables.threads[key]
        tables.threads[key] = old | {name: value for name, value in row.items() if name not in _KEPT}


def _messages(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["mid"], row["move"]
        ids = {(of, one["header_id"], move) for (of, _, move), one in tables.messages.items()}
        if key in tables.messages:
            raise refusal("23505", "messages_pkey")
        if (row["owner"], row["header_id"], row["move"]) in ids:
            raise refusal("23505", "messages_id_reuse")
        tables.messages[key] = row


def _acks(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        tables.outbox.pop((row["owner"], row["mid"], row["move"]), None)


def _outbox(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        tables.outbox.setdefault((row["owner"], row["mid"], row["move"]), row)


def _take(table: str) -> Callable[[Tables, list[Row]], None]:
    def change(tables: Tables, rows: list[Row]) -> None:
        for row in rows:
            getattr(tables, table)[row["owner"], row["mid"]] = row | {"consumed": False}

    return change


def _give_back(table: str) -> Callable[[Tables, list[Row]], None]:
    def change(tables: Tables, rows: list[Row]) -> None:
        for row in rows:
            held = getattr(tables, table).get((row["owner"], row["mid"]))
            if held is not None and (row.get("consumed", False) or not held["consumed"]):
                del getattr(tables, table)[row["owner"], row["mid"]]

    return change


def _make_way(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["mid"]
        if key in tables.reservations:
            tables.reservations[key] = tables.reservations[key] | {"place": row["place"]}


def _unbook(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        tables.reservations.pop((row["owner"], row["mid"]), None)


def _consume(table: str) -> Callable[[Tables, list[Row]], None]:
    def change(tables: Tables, rows: list[Row]) -> None:
        for row in rows:
            key = row["owner"], row["mid"]
            if key not in getattr(tables, table):
                raise refusal("IND10")
            getattr(tables, table)[key] = getattr(tables, table)[key] | {"consumed": True}

    return change


def _offers(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        tables.offers[row["owner"], row["mid"]] = row | {"state": "open"}


def _decide(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["mid"]
        if key not in tables.offers or tables.offers[key]["state"] != "open":
            raise refusal("IND11")
        tables.offers[key] = tables.offers[key] | {"state": row["state"]}


def _answers(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["action_hash"]
        if key not in tables.approvals or tables.approvals[key]["state"] != "pending":
            raise refusal("IND12")
        tables.approvals[key] = tables.approvals[key] | {"state": row["state"]}


def _void(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        for key, asked in tables.approvals.items():
            if (key[0], asked["thread"], asked["state"]) == (row["owner"], row["thread"], "pending"):
                tables.approvals[key] = asked | {"state": "expired"}


def _approvals(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["action_hash"]
        if key in tables.approvals:
            raise refusal("23505", "approvals_pkey")
        tables.approvals[key] = row | {"state": "pending"}


def _effects(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        tables.effects.setdefault((row["owner"], row["key"]), row)


def _journal(tables: Tables, rows: list[Row]) -> None:
    tables.journal += rows


def _ledger(tables: Tables, rows: list[Row]) -> None:
    for row in rows:
        key = row["owner"], row["mid"], row["kind"]
        if key in tables.ledger:
            raise AssertionError("a second leaf for one message")
        tables.ledger[key] = row


_SECTIONS: dict[str, Callable[[Tables, list[Row]], None]] = {
    "unbook": _unbook,
    "free_holds": _give_back("holds"),
    "holds": _take("holds"),
    "consume_holds": _consume("holds"),
    "new_threads": _new_threads,
    "threads": _threads,
    "messages": _messages,
    "acks": _acks,
    "outbox": _outbox,
    "release": _give_back("reservations"),
    "make_way": _make_way,
    "reserve": _take("reservations"),
    "consume": _consume("reservations"),
    "offers": _offers,
    "decide": _decide,
    "answers": _answers,
    "void": _void,
    "approvals": _approvals,
    "effects": _effects,
    "journal": _journal,
    "ledger": _ledger,
}
"""In the order of `node.apply_batch`."""

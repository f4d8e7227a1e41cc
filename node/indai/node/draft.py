"""What one item of a batch changes, before it is known whether the batch can be stored.

An item that fails leaves no trace: its draft is dropped. A draft that succeeds is merged into the batch in
the order of the queue, which is why the index of a ledger entry can be known before it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from indai.ledger.entries import Entry, seal
from indai.ledger.vault import Vault
from indai.node.effects import CalendarWrite
from indai.node.holdings import NOTHING, Holdings, Leaving, key_of
from indai.node.kinds import words
from indai.node.outbox import Outgoing
from indai.node.store import Key, Loaded, Row, hexed
from indai.protocol.contest import FREE, Ruling
from indai.protocol.copies import replace
from indai.protocol.delegations import Link
from indai.protocol.kinds.base import Holding, Money, Slot, Stock
from indai.protocol.kinds.meet import MEET
from indai.protocol.kinds.table import KINDS
from indai.protocol.messages import Terms, Wish
from indai.protocol.party import wakes_at
from indai.protocol.party_state import Side

COLUMNS = (
    "owner",
    "peer",
    "kind",
    "outgoing",
    "title",
    "mid",
    "words",
    "receipt_log",
    "receipt_index",
    "ledger_index",
    "reserved_mid",
    "title_prefix",
    "peer_key",
    "request_id",
    "created_ms",
)


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread in memory: its columns, the pure state, and the newest signed bytes of its commitment."""

    columns: Row
    side: Side
    commitment: bytes | None = None
    is_new: bool = False

    @property
    def key(self) -> Key:
        """Owner and thread id."""
        return self.columns["owner"], self.side.thread_id

    def updated(self, now_ms: int) -> ThreadState:
        """The state with the time of its change."""
        return replace(self, columns=self.columns | {"updated_ms": now_ms})

    def view(self) -> Row:
        """The columns that lists and owners see, as they are read from the table."""
        side = self.side
        offer = side.thread.offer if side.thread else None
        terms = offer.body if offer else side.terms
        slot = words.span(terms if isinstance(terms, Wish | Terms) else None)
        return self.columns | {
            "thread": side.thread_id,
            "phase": side.phase.value,
            "start_ms": slot[0],
            "end_ms": slot[1],
            "reason": side.reason,
        }

    def row(self) -> Row:
        """The columns as they are stored."""
        row = self.view() | {"side": self.side.to_json(), "wake_ms": wakes_at(self.side)}
        return row | {name: hexed(row[name]) for name in ("thread", "mid", "reserved_mid")}


def states_of(loaded: Loaded) -> dict[Key, ThreadState]:
    """The threads that were read, but for those that are erased."""
    return {
        key: ThreadState(_columns(row), Side.from_json(row["side"]), commitment)
        for key, (row, commitment) in loaded.threads.items()
        if row["erased_ms"] is None
    }


def _columns(row: Row) -> Row:
    """The columns that are not derived from the pure state."""
    return {name: row[name] for name in COLUMNS}


def intent_of(state: ThreadState) -> str:
    """What keys and delegations call the kind of this thread."""
    return KINDS[state.columns["kind"] or MEET.name].intent


def ledger_rows(entries: Sequence[Entry], vault: Vault) -> list[Row]:
    """Entries as rows of the section `ledger`, in order: envelope and opening sealed, and the key of that."""
    sealed = [seal(vault, entry) for entry in entries]
    return [
        {
            "ord": order,
            "owner": entry.owner,
            "mid": hexed(entry.mid),
            "kind": int(entry.kind),
            "envelope": hexed(sealed[order].content),
            "opening": hexed(sealed[order].key),
            "leaf": hexed(entry.leaf),
            "time_ms": entry.time_ms,
        }
        for order, entry in enumerate(entries)
    ]


@dataclass(frozen=True, slots=True)
class Contest:
    """Whether our signature may be given for what takes another's place: on an offer of ours, or of the
    peer's. `rows`: reservations of ours that are given back if we accept; `is_taken`: nothing can take that
    place any more."""

    offering: Ruling = FREE
    accepting: Ruling = FREE
    rows: frozenset[bytes] = frozenset()
    is_taken: bool = False

    def bars(self, side: Side, said: Wish | Terms) -> bool:
        """Whether `said`, if it is to be signed in this thread, must not be."""
        accepts = side.thread is not None and side.thread.offer is not None
        ruling = self.accepting if accepts else self.offering
        return self.is_taken or (isinstance(said, Terms) and not ruling.may_sign)


UNCONTESTED = Contest()


@dataclass(slots=True)
class Draft:
    """Rows by section of `node.apply_batch`, and what follows from them in memory and after COMMIT."""

    owner: str
    state: ThreadState | None
    now_ms: int
    next_index: int
    reserved: Holdings
    doc: dict[str, list[Row]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    sends: list[Outgoing] = field(default_factory=list)
    resends: bool = False  # a stored message of ours is to be sent once more
    replies: list[bytes] = field(default_factory=list)
    effects: list[CalendarWrite] = field(default_factory=list)
    links: tuple[Link, ...] = ()  # delegations that the money to be signed for comes through
    leaving: Leaving = NOTHING  # what makes way for what this thread agrees on
    contest: Contest = UNCONTESTED  # whether it is this thread's turn to
    # (mid of the commitment whose place was taken, mid of the one that now stands)
    succeeded: tuple[bytes, bytes, int] | None = None

    def add(self, section: str, **row: Any) -> None:
        """One row for the owner of this draft; bytes become text that Postgres reads as bytea."""
        plain = {name: hexed(value) if isinstance(value, bytes) else value for name, value in row.items()}
        self.doc.setdefault(section, []).append({"owner": self.owner} | plain)

    def set(self, **columns: Any) -> None:
        """Change columns of the thread."""
        state = self.thread
        self.state = replace(state, columns=state.columns | columns)

    @property
    def thread(self) -> ThreadState:
        """The thread, which exists by now."""
        if self.state is None:
            raise RuntimeError("the draft has no thread yet")
        return self.state

    def held(self) -> Holdings:
        """What is promised and given, but for offers of ours that are taken back if we accept."""
        held = self.reserved
        if self.contest.rows:
            held = held.copy()
            for row in self.contest.rows:
                held.pop(row)
        return held

    def make_way(self, mid: bytes) -> None:
        """What is to be replaced is kept for the commitment `mid` from now on, if not for itself."""
        for row in sorted(self.leaving.rows):
            self.add("make_way", mid=row, place=mid)

    def reserve(self, row: bytes, mid: bytes, slot: Slot) -> None:
        """Under `row` what the commitment `mid` needs."""
        place = {"place": mid} if self.leaving.rows else {}
        self.add("reserve", mid=row, start_ms=slot.start_ms, end_ms=slot.end_ms, **place)

    def hold(
        self, deed: bytes, place: int, holding: Holding, day: str, peer: str, limit_minor: int | None
    ) -> None:
        """One thing that our signature under `deed` needs; the tables refuse what is not to be had. `day` is
        the owner's local one (ISO 8601), on which at most `limit_minor` may be spent."""
        mid = key_of(deed, place)
        self.reserved.add(mid, holding, day, peer)
        match holding:
            case Slot():
                self.reserve(mid, deed, holding)
            case Stock(item, quantity, start_ms, end_ms):
                span = {"start_ms": start_ms, "end_ms": end_ms}
                self.add("holds", mid=mid, item=item, quantity=quantity, peer=peer, **span)
            case Money(amount_minor, currency):
                money = {"amount_minor": amount_minor, "currency": currency, "day": day}
                links = [asdict(link) for link in self.links]
                self.add("holds", mid=mid, peer=peer, limit_minor=limit_minor, links=links, **money)

    def record(self, entry: Entry) -> int:
        """Append a ledger entry; its index."""
        self.entries.append(entry)
        return self.next_index + len(self.entries) - 1

    def journal(self, event: str, reason: str, words: str, mid: bytes | None = None) -> None:
        """A line for the owner's private log."""
        state = self.state
        self.add(
            "journal",
            at_ms=self.now_ms,
            thread=state.side.thread_id if state else None,
            mid=mid,
            peer=state.columns["peer"] if state else "",
            event=event,
            reason=reason,
            words=words,
        )

"""What one item of a batch changes, before it is known whether the batch can be stored.

An item that fails leaves no trace: its draft is dropped. A draft that succeeds is merged into the batch in
the order of the queue, which is why the index of a ledger entry can be known before it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from indai.ledger.entries import Entry, seal
from indai.ledger.vault import Vault
from indai.node.effects import CalendarWrite
from indai.node.holdings import NOTHING, Holdings, Leaving
from indai.node.kinds import words
from indai.node.outbox import Outgoing
from indai.node.store import Key, Loaded, Row, hexed
from indai.protocol.copies import replace
from indai.protocol.delegations import Link
from indai.protocol.kinds.base import Slot
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

    def make_way(self, mid: bytes) -> None:
        """What is to be replaced is kept for the commitment `mid` from now on, if not for itself."""
        for row in sorted(self.leaving.rows):
            self.add("make_way", mid=row, place=mid)

    def reserve(self, row: bytes, mid: bytes, slot: Slot) -> None:
        """Under `row` what the commitment `mid` needs."""
        place = {"place": mid} if self.leaving.rows else {}
        self.add("reserve", mid=row, start_ms=slot.start_ms, end_ms=slot.end_ms, **place)

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

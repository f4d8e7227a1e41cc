"""What a batch has come to so far: rows by section, threads, promises, leaves, and what follows after COMMIT.

Items change it through drafts, which are merged in order; a mark is where it can be taken back to. It reads
memory (threads, reservations) but writes none of it: the engine takes `threads` and `reserved` over after
COMMIT, and drops the book otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indai.ledger.entries import Entry
from indai.node.context import Context
from indai.node.crowd import Crowd
from indai.node.draft import Draft, ThreadState, ledger_rows, states_of
from indai.node.effects import CalendarWrite
from indai.node.holdings import Holdings
from indai.node.items import Item
from indai.node.kinds.acquaintance import Note
from indai.node.late import begins
from indai.node.outbox import Outgoing
from indai.node.store import Key, Loaded, Row, Store
from indai.protocol.leaf import LeafKind

DAY_MS = 86_400_000

# Sections that give back, and those that have taken what they give back.
_OPPOSITES = (
    ("unbook", ("reserve", "consume")),
    ("release", ("reserve",)),
    ("free_holds", ("holds", "consume_holds")),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A book before an item, to return to. `rows`: each section's list and how long it was; lists only
    grow, what is taken out makes a new one."""

    rows: dict[str, tuple[list[Row], int]]
    entries: list[Entry]
    threads: dict[Key, ThreadState]
    reserved: dict[str, Holdings]
    crowds: dict[str, Crowd]
    sends: list[Outgoing]
    resends: set[str]
    effects: list[CalendarWrite]
    points: list[str]
    points_after: list[str]
    notes: Mapping[tuple[str, str], Sequence[Note]]


class Book:
    """Of one batch."""

    def __init__(
        self,
        context: Context,
        threads: Mapping[Key, ThreadState],
        reserved: Mapping[str, Holdings],
        crowds: Mapping[str, Crowd],
        size: int,
    ) -> None:
        self._context = context
        self._known_threads = threads
        self._known_reserved = reserved
        self._known_crowds = crowds
        self._size = size
        self._rows: dict[str, list[Row]] = {}
        self._entries: list[Entry] = []
        self.threads: dict[Key, ThreadState] = {}
        self._loaded_threads: dict[Key, ThreadState] = {}
        self._erased: set[Key] = set()  # threads that were read, and hold nothing any more
        self.reserved: dict[str, Holdings] = {}
        self.crowds: dict[str, Crowd] = {}
        self._counted: set[str] = set()  # owners whose counts are a copy that no mark shares
        self.sends: list[Outgoing] = []
        self.resends: set[str] = set()  # owners of stored messages that are to be sent once more
        self.dropped: list[tuple[str, bytes, str]] = []  # (owner, mid, move) that can't be delivered any more
        self.effects: list[CalendarWrite] = []
        self.points: list[str] = []
        self.points_after: list[str] = []

    @property
    def owners(self) -> set[str]:
        """Whose rows the batch touches."""
        return (
            {owner for owner, _ in self.threads}
            | {row["owner"] for rows in self._rows.values() for row in rows}
            | {entry.owner for entry in self._entries}
        )

    @property
    def appended(self) -> int:
        """Ledger entries of this batch."""
        return len(self._entries)

    def document(self) -> dict[str, list[Row]]:
        """The document for `node.apply_batch`."""
        now = self._context.clock()
        self.threads = {key: state.updated(now) for key, state in self.threads.items()}
        doc = dict(self._rows)
        for state in self.threads.values():
            doc.setdefault("new_threads" if state.is_new else "threads", []).append(state.row())
        if self._entries:
            doc["ledger"] = ledger_rows(self._entries, self._context.vault)
        return doc

    async def load(self, store: Store, items: list[Item]) -> None:
        """Read what memory lacks. A first message is taken for new; the table refuses it if it is not."""
        threads = [
            (item.owner, item.thread)
            for item in items
            if (item.owner, item.thread) not in self._known_threads
            and not begins(item, self._context.clock())
        ]
        busy = sorted({item.owner for item in items} - set(self._known_reserved))
        if not threads and not busy:
            return
        owners = {owner for owner, _ in threads} | set(busy)
        clock = self._context.clock
        asked_ms = clock.asking()
        loaded = await store.load(owners, list(dict.fromkeys(threads)), busy, clock() - 2 * DAY_MS)
        clock.read(loaded.clock_ms, asked_ms)
        self.keep(loaded)
        self.reserved.update(loaded.reserved)
        self.crowds.update({owner: Crowd() for owner in busy})
        for owner, peer, is_open, asked in await store.crowds(busy) if busy else ():
            self.crowds[owner].open[peer], self.crowds[owner].asked[peer] = is_open, asked

    def keep(self, loaded: Loaded) -> None:
        self._loaded_threads |= states_of(loaded)
        self._erased |= loaded.threads.keys() - self._loaded_threads.keys()

    def state(self, owner: str, thread: bytes) -> ThreadState | None:
        key = (owner, thread)
        for states in (self.threads, self._loaded_threads, self._known_threads):
            if key in states:
                return states[key]
        return None

    def draft(self, owner: str, thread: bytes) -> Draft:
        reserved = self.reserved.get(owner)
        if reserved is None:
            reserved = self._known_reserved.get(owner, Holdings())
        state = self.state(owner, thread)
        now = self._context.clock()
        return Draft(owner, state, now, self._size + len(self._entries), reserved.copy())

    def merge(self, draft: Draft) -> None:
        # A question raised earlier in this batch that this item has made idle is never asked.
        idle = {(row["owner"], row["thread"]) for row in draft.doc.get("void", ())}
        if idle and (asked := self._rows.get("approvals")):
            self._rows["approvals"] = [row for row in asked if (row["owner"], row["thread"]) not in idle]
        for section, rows in draft.doc.items():
            self._rows.setdefault(section, []).extend(rows)
        self._cancel_out()
        self._entries.extend(draft.entries)
        self.sends.extend(draft.sends)
        if draft.resends:
            self.resends.add(draft.owner)
        self.reserved[draft.owner] = draft.reserved
        if draft.state is not None:
            before = self.state(*draft.state.key)
            self._crowd(draft.owner).move(before, draft.state)
            self._context.acquaintances.note(
                draft.state.columns, before.side if before else None, draft.state.side
            )
            self.threads[draft.state.key] = draft.state
        self.effects.extend(draft.effects)
        if "offers" in draft.doc:
            self.points_after.append("after-offer")
        if any(entry.kind is LeafKind.COMMITMENT for entry in draft.entries):
            self.points_after.append("after-commit")

    def _crowd(self, owner: str) -> Crowd:
        """This batch's own copy of the owner's counts, since the last mark."""
        if owner not in self._counted:
            self.crowds[owner] = (self.crowds.get(owner) or self._known_crowds[owner]).copy()
            self._counted.add(owner)
        return self.crowds[owner]

    def mark(self) -> Mark:
        rows = {section: (rows, len(rows)) for section, rows in self._rows.items()}
        self._counted.clear()
        return Mark(
            rows,
            list(self._entries),
            dict(self.threads),
            dict(self.reserved),
            dict(self.crowds),
            list(self.sends),
            set(self.resends),
            list(self.effects),
            list(self.points),
            list(self.points_after),
            self._context.acquaintances.mark(),
        )

    def return_to(self, mark: Mark) -> None:
        self._context.acquaintances.undo(mark.notes)
        self._rows = {section: rows[:length] for section, (rows, length) in mark.rows.items()}
        self._entries = mark.entries
        self._counted.clear()
        self.threads, self.reserved, self.crowds = mark.threads, mark.reserved, mark.crowds
        self.sends, self.resends, self.effects = mark.sends, mark.resends, mark.effects
        self.points, self.points_after = mark.points, mark.points_after

    def _cancel_out(self) -> None:
        """What is reserved and given back within one batch never reaches the table."""
        for given_back, taken in _OPPOSITES:
            gone = {(row["owner"], row["mid"]) for row in self._rows.get(given_back, ())}
            for section in taken if gone else ():
                rows = self._rows.get(section, [])
                self._rows[section] = [row for row in rows if (row["owner"], row["mid"]) not in gone]

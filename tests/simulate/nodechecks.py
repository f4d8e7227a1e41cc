"""What must hold of the simulated nodes after every write, and when the network has come to rest."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from indai.node.store import Row
from indai.protocol.header import MAX_HOPS
from indai.protocol.leaf import LeafKind
from indai.protocol.party_state import Side

from tests.simulate.cast import HOMES
from tests.simulate.store import Violation
from tests.simulate.tables import UNITS, Tables
from tests.simulate.trade import DAILY_MINOR

if TYPE_CHECKING:
    from tests.simulate.nodes import Machine, NodeWorld, Parcel, Result

ENDED = ("COMMITTED", "REJECTED", "WITHDRAWN", "LAPSED")


def always(world: NodeWorld, node: Machine) -> None:
    """After each write: nothing is promised twice, no budget exceeded, and nobody told what is not so."""
    tables = node.store.tables
    for owner in node.owners:
        if tables.is_doubled(owner):
            raise Violation(f"{owner} has promised one slot twice")
        if any(many > UNITS for many in tables.units(owner).values()):
            raise Violation(f"{owner} has promised more units than there are")
        if any(minor > DAILY_MINOR for minor in tables.money(owner).values()):
            raise Violation(f"{owner} has promised more money than may be spent in a day")
        _succession(tables, owner)
        known = node.engine._reserved.get(owner)
        stored = {bytes.fromhex(mid[2:]) for (of, mid) in tables.reservations if of == owner}
        if known is not None and set(known.slots) != stored:
            raise Violation(f"memory and tables differ in what {owner} has promised")
    for (owner, thread), row in tables.threads.items():
        _thread(tables, owner, thread, row)
        seen = node.engine.seen(owner, bytes.fromhex(thread))
        if seen is not None and seen.side.phase.value != row["phase"]:
            raise Violation("memory and tables differ in the state of a thread")


def _succession(tables: Tables, owner: str) -> None:
    """One commitment takes the place of another, or of one of its times (LIF-25)."""
    taken: dict[str, Counter[int]] = {}
    for (of, _), row in tables.threads.items():
        if of == owner and row["phase"] == "COMMITTED" and '"supersedes"' in row["side"]:
            side = Side.from_json(row["side"])
            taken.setdefault(side.supersedes.hex(), Counter())[
                side.terms.replaces_ms if side.terms else 0
            ] += 1
    if any(max(times.values()) > 1 for times in taken.values()):
        raise Violation("two commitments have taken the place of one")


def _thread(tables: Tables, owner: str, thread: str, row: Row) -> None:
    committed, mid = row["phase"] == "COMMITTED", row["mid"]
    receipts = [
        key
        for key, one in tables.messages.items()
        if key[2] == "RECEIPT" and one["thread"][2:] == thread and key[0] == owner
    ]
    if committed != bool(receipts):
        raise Violation("confirmed without a RECEIPT, or the reverse")
    if committed != ((owner, mid, int(LeafKind.COMMITMENT)) in tables.ledger):
        raise Violation("a commitment is not in its owner's ledger, or a leaf there for none")
    offer = tables.offers.get((owner, mid))
    if offer is not None and (offer["state"] == "committed") != committed:
        raise Violation("the offerer's decision and its thread differ")
    if committed and (owner, bytes.fromhex(mid[2:]).hex()) not in tables.effects:
        raise Violation("a commitment without what follows from it")
    open_slot = row["kind"] == "meet" and row["phase"] not in ENDED and row["reserved_mid"]
    if open_slot and (owner, row["reserved_mid"]) not in tables.reservations:
        raise Violation("what a thread has reserved is not reserved")


def no_honest_refusal(parcel: Parcel, results: list[Result]) -> None:
    """A message of the node's own making is never against the rules."""
    for message, result in zip(parcel.batch, results, strict=True):
        if result.reason not in ("", "OUT_OF_ORDER", "UNREACHABLE", "EXPIRED", "REPLAYED", "THREAD_CLOSED"):
            raise Violation(f"an honest {message.move} was refused: {result.reason} {result.sentence}")


def at_the_end(world: NodeWorld) -> None:
    """Both sides came to the same end, and nothing is left over."""
    tables = {owner: world.nodes[home].store.tables for owner, home in HOMES.items()}
    for owner, mine in tables.items():
        for (of, thread), row in mine.threads.items():
            if of != owner:
                continue
            if row["phase"] not in ENDED:
                raise Violation(f"a thread is {row['phase']} for ever")
            theirs = tables[row["peer"]].threads.get((row["peer"], thread))
            _hops(world, mine, owner, thread, theirs)
            agreed = row["phase"] == "COMMITTED"
            if agreed != (theirs is not None and theirs["phase"] == "COMMITTED"):
                raise Violation("the two sides came to different ends")
            if agreed and theirs is not None and row["mid"] != theirs["mid"]:
                raise Violation("the two sides hold different commitments")
            if agreed and theirs is not None and _became(row) != _became(theirs):
                raise Violation("what became of a commitment is not the same on both sides")
        for held in (mine.reservations, mine.holds):
            if any(not row["consumed"] for (of, _), row in held.items() if of == owner):
                raise Violation("a reservation outlives its thread")
        if any(row["state"] == "open" for (of, _), row in mine.offers.items() if of == owner):
            raise Violation("an offer is open for ever")
        if any(row["state"] == "pending" for (of, _), row in mine.approvals.items() if of == owner):
            raise Violation("a question waits for ever")


def _became(row: Row) -> str:
    life = Side.from_json(row["side"]).life
    return life.state.value if life else ""


def _hops(world: NodeWorld, mine: Tables, owner: str, thread: str, theirs: Row | None) -> None:
    """What was passed on counts, on both sides, one hop more than what it was passed on from."""
    hops, because = _hops_of(mine.threads[owner, thread]), world.because.get((owner, thread))
    counted = _hops_of(mine.threads[owner, because]) + 1 if because else hops
    if hops != counted or hops > MAX_HOPS or (theirs is not None and _hops_of(theirs) != hops):
        raise Violation("what is passed on is not counted")


def _hops_of(row: Row) -> int:
    return int(json.loads(row["side"]).get("hops", 0))

"""Worlds in which what is said to have happened after the deed is not as it should be."""

import dataclasses
from collections.abc import Callable
from typing import Any

from indai.protocol.envelope import parse_envelope
from indai.protocol.leaf import LeafKind
from indai.protocol.operations import CREATE
from indai.v1 import envelope_pb2

from .lies import honest
from .worlds import (
    ALICE,
    BOB,
    DAY,
    HOUR,
    NOW,
    Deal,
    Life,
    World,
    person,
)

CAROL = "ind.ai/carol"


def lived() -> Life:
    """An honest deal, and what may happen to it from here."""
    deal = Deal(World())
    return Life(deal, deal.run().mid)


def happened(kind: str, at_ms: int = NOW + HOUR, **fields: Any) -> Callable[[], World]:
    """A world in which bob records an event of this kind."""

    def make() -> World:
        life = lived()
        life.at_ms = at_ms
        life.happen(life.event(kind, **fields))
        return life.deal.world

    return make


def forged_cancel() -> World:
    """Bob's key id, and a signature that is not his."""
    life = lived()
    forged = envelope_pb2.Envelope.FromString(life.event("CANCEL").raw)
    forged.signatures[0].sig = b"\x01" + forged.signatures[0].sig[1:]
    life.happen(parse_envelope(forged.SerializeToString(deterministic=True)))
    return life.deal.world


def event_of_a_skipped_number() -> World:
    life = lived()
    life.happen(life.event("CANCEL", seq=2, prev=b"\x07" * 32))
    return life.deal.world


def two_events_under_one_number() -> World:
    life = lived()
    life.happen(life.event("CANCEL"))
    life.seq, life.prev = 0, b""
    life.happen(life.event("DISPUTE"))
    return life.deal.world


def event_numbered_by_the_other_party() -> World:
    life = lived()
    life.happen(life.event("CANCEL", ALICE, seq=1), ALICE)
    return life.deal.world


def expiry_signed_by_the_other_party() -> World:
    life = lived()
    life.at_ms = NOW + 40 * DAY
    life.happen(life.event("EXPIRE", ALICE, seq=1), ALICE)
    return life.deal.world


def event_by_a_stranger() -> World:
    """Carol is in the registry, and no party: her event is in bob's ledger all the same."""
    life = lived()
    world = life.deal.world
    carol = dataclasses.replace(world.a, owner=CAROL)
    world.registry.submit(CREATE, CAROL, person(carol), NOW - DAY)
    envelope = life.event("CANCEL", CAROL, seq=1)
    world.b.add(LeafKind.COMMITMENT, BOB, envelope.mid, envelope.raw, life.at_ms)
    return world


def cancel_by_one_party_too_late() -> World:
    return happened("CANCEL", NOW + DAY + 1)()


def cancel_for_a_request_that_nobody_made() -> World:
    return happened("CANCEL", NOW + DAY + 1, requests=[b"\x09" * 32])()


def event_recorded_before_it_was_issued() -> World:
    """Bob dates his OVERDUE into the future, so that it would be in time."""
    life = lived()
    recorded_ms, life.at_ms = life.at_ms, NOW + 3 * DAY
    envelope = life.event("OVERDUE")
    life.at_ms = recorded_ms
    life.happen(envelope)
    return life.deal.world


def moved(*times_ms: int) -> Callable[[], World]:
    """Alice and bob put one meeting after the other in the place of one that nobody shows, or of a time of
    it."""

    def make() -> World:
        world = World()
        for number, time_ms in enumerate(times_ms, 1):
            at_ms, start_ms = NOW + number * HOUR, NOW + (number + 1) * DAY
            deal = Deal(world, number=number, at_ms=at_ms, start_ms=start_ms, supersedes=b"\x0c" * 32)
            deal.instead_of_ms = time_ms
            deal.run()
        return world

    return make


def event_before_its_deed() -> World:
    deal = Deal(World())
    life = Life(deal, deal.agreed().mid, at_ms=NOW)
    envelope = life.event("CANCEL")
    deal.world.b.add(LeafKind.COMMITMENT, BOB, envelope.mid, envelope.raw, NOW)
    deal.run()
    life.happen(envelope, leaves="a")
    return deal.world


def cancel_in_one_ledger_only() -> World:
    life = lived()
    life.happen(life.event("CANCEL"), leaves="b")
    return life.deal.world


def event_of_nothing_shown() -> World:
    life = lived()
    life.mid = b"\x05" * 32
    life.happen(life.event("CANCEL"))
    return life.deal.world


def erased_by_alice() -> World:
    """A cancelled meeting, of which alice has erased everything that it said."""
    life = lived()
    life.happen(life.event("CANCEL"))
    world = life.deal.world
    world.a.erased = {1: b"", 2: life.mid, 3: life.mid}
    world.a.messages.clear()
    return world


def erased_commitment_that_is_called_an_event() -> World:
    world = honest()
    world.a.erased = {1: b"", 2: b"\x07" * 32}
    world.a.messages.clear()
    return world

"""Scenes 1 to 3: agreed by the agents, left to the owner, refused."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from icalendar import Calendar
from indai.cli.demo.setting import ALICE, BOB
from indai.cli.demo.stage import DemoFailed
from indai.cli.demo.world import AGREED, PATIENCE_S, World, ask, follow, journal, messages, signed
from indai.cli.session import Owner, registry_session
from indai.cli.words import milliseconds, span
from indai.node.calendar.slots import Interval, intersect
from indai.protocol.envelope import Envelope, verify_signature
from indai.v1 import negotiation_pb2, owner_pb2, policy_pb2


async def agreed(world: World) -> None:
    """Scene 1: thirty minutes, settled without a person."""
    stage, setting = world.stage, world.setting
    stage.scene(f'Alice asks Bob for 30 minutes {setting.period.words}: "Lunch plans"')
    async with world.alice() as alice, world.bob() as bob:
        thread, ms = await ask(alice, setting, 30, "Lunch plans")
        world.done("Lunch plans", thread, ms)
        stage.check(thread.state == AGREED, f"agreed in {ms:.0f} ms: {_when(world, thread)}")
        ours, theirs = await messages(alice, thread.thread_id), await messages(bob, thread.thread_id)
        _both_policies(world, ours, theirs)
        slot = Interval(milliseconds(thread.start_time), milliseconds(thread.end_time))
        busy = [*setting.alice.busy, *setting.bob.busy]
        stage.check(not intersect([slot], busy), "the slot was free in both calendars")
        await both_signed(world, signed(ours, "ACCEPT"), signed(theirs, "ACCEPT"))
        other, _ = await follow(bob, thread.thread_id)
        in_both_ledgers(world, thread, other)
        in_both_calendars(world, thread, signed(ours, "ACCEPT"))


async def left_to_owner(world: World) -> None:
    """Scene 2: an hour, which Bob's policy leaves to Bob."""
    stage, setting = world.stage, world.setting
    stage.scene('Alice asks for an hour: "Plan the trip". Bob\'s rules leave that to Bob')
    async with world.alice() as alice, world.bob() as bob:
        thread, asked_ms = await ask(alice, setting, 60, "Plan the trip")
        stage.check(
            thread.state == owner_pb2.THREAD_STATE_ON_HOLD, f"Alice's agent hears only: {thread.words}"
        )
        inbox = (await bob.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
        mine = [each for each in inbox if each.thread_id == thread.thread_id]
        stage.check(len(mine) == 1, "one question waits in Bob's inbox:")
        for line in mine[0].terms.splitlines():
            stage.say("    " + line)
        answered = time.perf_counter()
        request = owner_pb2.AnswerApprovalRequest(code=mine[0].code, approve=True)
        await bob.stub.AnswerApproval(request)
        stage.say(f"indai approve {mine[0].code}")
        thread, ended = await follow_past_hold(alice, thread.thread_id)
        world.done("Plan the trip", thread, asked_ms + (ended - answered) * 1000)
        stage.check(thread.state == AGREED, f"completed: {_when(world, thread)}")
        ours, theirs = await messages(alice, thread.thread_id), await messages(bob, thread.thread_id)
        await both_signed(world, signed(ours, "ACCEPT"), signed(theirs, "ACCEPT"))
        other, _ = await follow(bob, thread.thread_id)
        in_both_ledgers(world, thread, other)
        in_both_calendars(world, thread, signed(ours, "ACCEPT"))


async def refused(world: World) -> None:
    """Scene 3: ten minutes, which Bob's policy never allows."""
    stage = world.stage
    stage.scene('Alice asks for 10 minutes: "Quick question". Bob\'s rules forbid that')
    async with world.alice() as alice, world.bob() as bob:
        thread, ms = await ask(alice, world.setting, 10, "Quick question")
        world.done("Quick question", thread, ms)
        stage.check(
            thread.state == owner_pb2.THREAD_STATE_REJECTED and thread.reason == "POLICY_DENIED",
            f"refused in {ms:.0f} ms; Alice learns {thread.reason}, no more",
        )
        known = repr([await messages(alice, thread.thread_id), await journal(alice), thread])
        rule = "no-quick-chats"
        stage.check(
            rule not in known and "write me instead" not in known, "nothing on Alice's node names Bob's rule"
        )
        lines = await journal(bob, thread.thread_id)
        why = next((line.words for line in lines if rule in line.words), "")
        stage.check(why, f"Bob's journal says why: {why}")


async def waiting(world: World) -> None:
    """For whoever plays on: an hour, which Bob's policy leaves to him, and nobody has answered yet."""
    stage = world.stage
    stage.scene('Alice asks for another hour: "Quarterly planning". It waits at Bob\'s desk')
    async with world.alice() as alice:
        thread, ms = await ask(alice, world.setting, 60, "Quarterly planning")
    stage.check(
        thread.state == owner_pb2.THREAD_STATE_ON_HOLD, f"waiting for Bob after {ms:.0f} ms; he has the link"
    )


async def follow_past_hold(owner: Owner, thread_id: str) -> tuple[owner_pb2.Thread, float]:
    """Follow a thread whose hold is over, but may not be known to be over here yet."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            thread, ended = await follow(owner, thread_id)
            if thread.state != owner_pb2.THREAD_STATE_ON_HOLD:
                return thread, ended
            await asyncio.sleep(0.02)


async def both_signed(world: World, ours: Envelope, theirs: Envelope) -> None:
    """One payload, both signatures, each verified with the key that the registry proves."""
    world.stage.check(ours.raw == theirs.raw, f"both hold the same bytes, {len(ours.raw)} of them")
    commitment = negotiation_pb2.Commitment.FromString(ours.payload)
    async with registry_session(world.node_a.home) as registry:
        for index, party in enumerate(commitment.parties):
            record = await registry.resolver.resolve(party.handle)
            key = record.chain.agent_key(party.key_id)
            if key is None or record.subject_id != party.subject_id:
                raise DemoFailed(f"the registry proves that {party.handle} holds {party.key_id}")
            verify_signature(ours, index, key.public_key)
    names = [party.handle for party in commitment.parties]
    world.stage.check(
        names == [BOB, ALICE] and len(ours.signatures) == 2,
        "both signatures verify under this one payload, with keys the registry proves",
    )


def in_both_ledgers(world: World, ours: owner_pb2.Thread, theirs: owner_pb2.Thread) -> None:
    """Each side has a leaf, and Alice the receipt of Bob's."""
    world.stage.check(
        ours.HasField("ours")
        and theirs.HasField("ours")
        and (ours.receipt.log, ours.receipt.index) == (theirs.ours.log, theirs.ours.index)
        and ours.commitment_mid == theirs.commitment_mid,
        f"both ledgers hold it: entry {ours.ours.index} of A's, entry {theirs.ours.index} of B's (receipt)",
    )


def in_both_calendars(world: World, thread: owner_pb2.Thread, accepted: Envelope) -> None:
    """An independent reader finds the event in both files."""
    terms = negotiation_pb2.Commitment.FromString(accepted.payload).meet
    for handle in (ALICE, BOB):
        found = events_in(world.calendar(handle), terms.ical_uid)
        world.stage.check(
            found == [(terms.start_ms, terms.end_ms)], f"{world.calendar(handle).name} has the event, once"
        )


def events_in(path: Path, uid: str) -> list[tuple[int, int]]:
    """Start and end (ms) of every event with this uid."""
    # Some programs write a byte order mark, and several calendars into one file.
    calendars = Calendar.from_ical(path.read_bytes().decode("utf-8-sig", "replace"), multiple=True)
    found = [event for each in calendars for event in each.walk("VEVENT") if str(event.get("UID")) == uid]
    # An agreed meeting is never a whole day, so both ends are moments and not dates.
    ends = [(event.decoded("DTSTART"), event.decoded("DTEND")) for event in found]
    return [(round(start.timestamp() * 1000), round(end.timestamp() * 1000)) for start, end in ends]


def _both_policies(
    world: World, ours: list[owner_pb2.ThreadMessage], theirs: list[owner_pb2.ThreadMessage]
) -> None:
    for name, found in (("Alice", ours), ("Bob", theirs)):
        decided = [m.decision for m in found if m.outgoing and m.HasField("decision")]
        permitted = [d for d in decided if d.outcome == policy_pb2.OUTCOME_PERMIT]
        world.stage.check(permitted, f"{name}'s policy: {permitted[0].words if permitted else 'not asked'}")


def _when(world: World, thread: owner_pb2.Thread) -> str:
    zone = world.setting.zone
    return f"{span(milliseconds(thread.start_time), milliseconds(thread.end_time), zone)} ({zone.key})"

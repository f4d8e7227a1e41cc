"""What the scenes share: the processes, both owners, what was dealt so far."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from indai.cli.demo.processes import Process
from indai.cli.demo.setting import ALICE, BOB, Setting
from indai.cli.demo.stage import DemoFailed, Stage
from indai.cli.meet import RESTING
from indai.cli.session import Owner, owner_session
from indai.cli.words import stamp, state_name
from indai.protocol.envelope import Envelope, parse_envelope
from indai.v1 import owner_pb2

PATIENCE_S = 120.0  # of a slow machine, on which a node takes its time to come back
AGREED = owner_pb2.THREAD_STATE_COMMITTED
MOVING = (owner_pb2.THREAD_STATE_NEGOTIATING, owner_pb2.THREAD_STATE_AWAITING_RECEIPT)


@dataclass(slots=True)
class Deal:
    """One negotiation as the last table has it. `ms` is the agents' own time, without that of people."""

    title: str
    thread: str
    outcome: str
    ms: float
    commitment: str = ""
    interrupted: bool = False


@dataclass(slots=True)
class World:
    """The demonstration while it runs."""

    stage: Stage
    setting: Setting
    base: Path
    registry: Process
    node_a: Process
    node_b: Process
    deals: list[Deal] = field(default_factory=list)

    @property
    def exports(self) -> Path:
        """Where scene 6 puts its files."""
        return self.base / "exports"

    def calendar(self, handle: str) -> Path:
        """The .ics file of one side."""
        return self.base / "calendars" / f"{handle.rpartition('/')[2]}.ics"

    def alice(self) -> Session:
        """Alice's owner service on node A."""
        return Session(self.node_a, ALICE)

    def bob(self) -> Session:
        """Bob's owner service on node B."""
        return Session(self.node_b, BOB)

    def done(self, title: str, thread: owner_pb2.Thread, ms: float, *, interrupted: bool = False) -> Deal:
        """Remember a negotiation for the last table."""
        deal = Deal(title, thread.thread_id, state_name(thread.state), ms, thread.commitment_mid, interrupted)
        self.deals.append(deal)
        return deal


class Session:
    """A fresh connection each time, since scenes kill and restart nodes."""

    def __init__(self, process: Process, handle: str) -> None:
        self._entered = owner_session(process.home, handle)

    async def __aenter__(self) -> Owner:
        return await self._entered.__aenter__()

    async def __aexit__(self, *failure: object) -> None:
        await self._entered.__aexit__(*failure)  # type: ignore[arg-type]


async def ask(owner: Owner, setting: Setting, minutes: int, title: str) -> tuple[owner_pb2.Thread, float]:
    """Alice asks Bob; the thread when it rests or has ended, and how many ms until then."""
    begun = time.perf_counter()
    request = owner_pb2.StartMeetRequest(
        request_id=str(uuid.uuid4()),
        peer=BOB,
        title=title,
        duration_minutes=minutes,
        start_time=stamp(setting.period.start_ms),
        end_time=stamp(setting.period.end_ms),
    )
    started = await owner.stub.StartMeet(request)
    thread, ended = await follow(owner, started.thread.thread_id)
    return thread, (ended - begun) * 1000


async def follow(owner: Owner, thread_id: str) -> tuple[owner_pb2.Thread, float]:
    """The thread when it rests (with its calendar written, if agreed), and when its state was known."""
    seen, ended = owner_pb2.Thread(), 0.0
    request = owner_pb2.WatchThreadRequest(thread_id=thread_id)
    async for update in owner.stub.WatchThread(request, timeout=PATIENCE_S):
        seen = update.thread
        if not ended and seen.state not in MOVING:
            ended = time.perf_counter()
        if seen.state in RESTING:
            break
    return seen, ended or time.perf_counter()


async def messages(owner: Owner, thread_id: str) -> list[owner_pb2.ThreadMessage]:
    """Every message of a thread, oldest first."""
    answer = await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
    return list(answer.messages)


def signed(found: list[owner_pb2.ThreadMessage], move: str) -> Envelope:
    """The one message with this move, as it was signed; raises DemoFailed if there is not exactly one."""
    matching = [message for message in found if message.move == move]
    if len(matching) != 1:
        raise DemoFailed(f"exactly one {move} in the thread (there are {len(matching)})")
    return parse_envelope(matching[0].envelope)


async def journal(owner: Owner, thread_id: str = "") -> list[owner_pb2.JournalEntry]:
    """The owner's log, newest first."""
    request = owner_pb2.ListJournalRequest(thread_id=thread_id, page_size=200)
    return list((await owner.stub.ListJournal(request)).entries)

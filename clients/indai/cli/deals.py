"""What `indai pay` and `indai book` have in common: beginning a thread, following it, what became of it."""

from __future__ import annotations

import uuid
from typing import Any
from zoneinfo import ZoneInfo

from indai.cli.meet import follow
from indai.cli.output import Page
from indai.cli.session import Owner
from indai.cli.words import life, milliseconds, moment, span, state
from indai.v1 import owner_pb2


async def begin(owner: Owner, peer: str, *, wait: bool, **intent: Any) -> owner_pb2.Thread:
    """A thread that begins with a wish or terms, as far as it goes by itself."""
    request = owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()), peer=peer, **intent)
    thread = (await owner.stub.StartIntent(request)).thread
    return await follow(owner, thread) if wait else thread


def show_deal(page: Page, thread: owner_pb2.Thread, zone: ZoneInfo, agreed: str, refused: str) -> None:
    """What became of a thread, and what to do now."""
    match thread.state:
        case owner_pb2.THREAD_STATE_COMMITTED:
            page.line(agreed, "green")
        case owner_pb2.THREAD_STATE_ON_HOLD:
            page.line(f"{thread.peer}'s owner is being asked.", "yellow")
        case owner_pb2.THREAD_STATE_ASKING_OWNER:
            page.line("Your policy leaves this to you.", "yellow")
        case owner_pb2.THREAD_STATE_REJECTED | owner_pb2.THREAD_STATE_LAPSED:
            page.line(refused, "red")
        case _:
            page.line(f"The thread with {thread.peer} is {state(thread.state)}.")
    page.fields(
        [
            ("about", thread.title),
            ("when", span(milliseconds(thread.start_time), milliseconds(thread.end_time), zone)),
            ("due", moment(milliseconds(thread.due_time), zone)),
            ("now", life(thread)),
            ("why", " ".join(filter(None, (thread.reason, thread.words)))),
            ("thread", thread.thread_id),
            ("commitment", thread.commitment_mid[:16]),
        ]
    )
    short = thread.thread_id[:14]
    if thread.state == owner_pb2.THREAD_STATE_ASKING_OWNER:
        page.next_step("indai inbox")
    elif thread.kind == "pay" and thread.state == owner_pb2.THREAD_STATE_COMMITTED:
        page.next_step(f"indai pay link {short}")
    else:
        page.next_step(f"indai threads {short}")

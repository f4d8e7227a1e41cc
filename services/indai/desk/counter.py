"""Another time instead: what was asked is declined, and a request of the owner's own takes its place.

The terms that wait are bound to their hash and cannot be changed; so a counter-proposal is a no, and a new
conversation that the owner begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from aiohttp import web
from google.protobuf.timestamp_pb2 import Timestamp
from indai.desk.frame import ROLES, Frame
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import owner_pb2
from indai.web.visit import Visit

MAX_DAYS: Final = 60


class Counter:
    """The page of a counter-proposal."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._owner = frame, frame.calls.owner

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, one = self._frame.site, "/desk/counter/{hash:[0-9a-f]{64}}"
        return (site.member(one, ROLES, self.form), site.act(one, ROLES, self.propose))

    async def form(self, visit: Visit) -> web.StreamResponse:
        """What is asked, and when would suit."""
        approval, thread = await self._asked(visit)
        show = await self._frame.show(visit)
        start = show.at(thread.start_time) if thread.start_time.seconds else datetime.now(show.zone)
        return await self._frame.page(
            visit,
            "counter.html",
            "/desk",
            show=show,
            approval=approval,
            thread=thread,
            first=(start.date() + timedelta(days=1)).isoformat(),
            last=(start.date() + timedelta(days=7)).isoformat(),
            minutes=max(5, (thread.end_time.seconds - thread.start_time.seconds) // 60),
        )

    async def propose(self, visit: Visit) -> web.StreamResponse:
        """Say no to what was shown, and ask for another time."""
        approval, thread = await self._asked(visit)
        show = await self._frame.show(visit)
        start, end = _day(visit.said("first"), show.zone), _day(visit.said("last"), show.zone)
        end += timedelta(days=1)
        if not start < end <= start + timedelta(days=MAX_DAYS):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "The last day must not be before the first.", hint="60 days at most"
            )
        minutes = visit.said("minutes")
        if not (minutes.isascii() and minutes.isdigit() and 5 <= int(minutes[:5]) <= 1440):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A meeting lasts 5 minutes to 24 hours.")
        earliest = max(int(start.timestamp()), self._frame.site.clock() // 1000 + 60)
        request = owner_pb2.StartMeetRequest(
            # The same form sent twice is one request.
            request_id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{approval.action_hash} {visit.csrf}")),
            peer=approval.peer,
            title=thread.title,
            duration_minutes=int(minutes),
            start_time=Timestamp(seconds=earliest),
            end_time=Timestamp(seconds=int(end.timestamp())),
        )
        declined = owner_pb2.AnswerApprovalRequest(code=approval.action_hash, approve=False)
        await self._owner.AnswerApproval(declined, metadata=visit.metadata)
        answer = await self._owner.StartMeet(request, metadata=visit.metadata)
        return visit.go(f"/desk/threads/{answer.thread.thread_id}", "asked")

    async def _asked(self, visit: Visit) -> tuple[owner_pb2.Approval, owner_pb2.Thread]:
        """The question, if it still waits and is about a meeting."""
        wanted = visit.named("hash")
        inbox = await self._owner.ListInbox(
            owner_pb2.ListInboxRequest(page_size=500), metadata=visit.metadata
        )
        found = next((one for one in inbox.approvals if one.action_hash == wanted), None)
        if found is None:
            raise NotFound(
                Reason.NOT_FOUND, "These terms no longer wait for you.", hint="the inbox shows what does"
            )
        request = owner_pb2.GetThreadRequest(thread_id=found.thread_id)
        thread = (await self._owner.GetThread(request, metadata=visit.metadata)).thread
        if thread.kind != "meet":
            raise InvalidInput(
                Reason.UNSUPPORTED, "Only a meeting can be proposed at another time.", hint="answer yes or no"
            )
        return found, thread


def _day(text: str, zone: ZoneInfo) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=zone)
    except ValueError:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "That is no day.", hint="write it like 2026-11-30"
        ) from None

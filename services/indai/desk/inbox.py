"""The inbox: what the policy leaves to its owner, with the exact terms, answered with one press.

A button carries the hash of the terms beside it. What was decided meanwhile, ran out or was replaced is
answered with words, and an answer counts once, whoever gives it first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from aiohttp import web
from google.protobuf.timestamp_pb2 import Timestamp
from indai.desk.frame import ROLES, Frame
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.v1 import desk_pb2, owner_pb2, tools_pb2
from indai.web.live import Live
from indai.web.visit import Visit

PAGE = 20
LATELY_S = 86_400
MOST_DECIDED = 5
_CAME_TO_NOTHING = (owner_pb2.THREAD_STATE_REJECTED, owner_pb2.THREAD_STATE_LAPSED)


class Inbox:
    """Pages and acts of the inbox."""

    def __init__(self, frame: Frame, live: Live) -> None:
        self._frame, self._calls, self._live = frame, frame.calls, live

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk", ROLES, self.inbox),
            site.member("/desk/more", ROLES, self.more),
            site.member("/desk/live", ROLES, self.live),
            site.act("/desk/approvals/{hash:[0-9a-f]{64}}", ROLES, self.answer),
            site.act("/desk/tool-approvals/{hash:[0-9a-f]{64}}", ROLES, self.answer_tool),
        )

    async def inbox(self, visit: Visit) -> web.StreamResponse:
        """What waits, the most urgent first."""
        request = owner_pb2.ListInboxRequest(page_size=PAGE, page_token=visit.request.query.get("page", ""))
        answer = await self._calls.owner.ListInbox(request, metadata=visit.metadata)
        tools, decided = await self._tools(visit), await self._decided(visit)
        recent = owner_pb2.ListThreadsResponse()
        if not answer.approvals and not tools:
            recent = await self._calls.owner.ListThreads(
                owner_pb2.ListThreadsRequest(page_size=5), metadata=visit.metadata
            )
        return await self._frame.page(
            visit,
            "inbox.html",
            "/desk",
            approvals=answer.approvals,
            tools=tools[:PAGE],
            more=answer.next_page_token,
            decided=decided,
            recent=recent.threads,
        )

    async def more(self, visit: Visit) -> web.StreamResponse:
        """Every place of the desk, for small screens."""
        return await self._frame.page(visit, "more.html", "/desk/more")

    async def live(self, visit: Visit) -> web.StreamResponse:
        """Tells the open page when something changed."""
        return await self._live.answer(visit, self._changes(visit))

    async def _changes(self, visit: Visit) -> AsyncIterator[str]:
        stream = self._calls.desk.WatchDesk(desk_pb2.WatchDeskRequest(), metadata=visit.metadata)
        async for _ in stream:
            yield "changed"

    async def answer(self, visit: Visit) -> web.StreamResponse:
        """Yes or no to exactly what was shown."""
        yes = _is_yes(visit)
        request = owner_pb2.AnswerApprovalRequest(code=visit.named("hash"), approve=yes)
        try:
            answer = await self._calls.owner.AnswerApproval(request, metadata=visit.metadata)
        except NotFound:
            raise _gone() from None
        except Refused as error:
            raise _closed() if error.reason is Reason.THREAD_CLOSED else error from None
        if yes and answer.thread.state in _CAME_TO_NOTHING:
            raise _closed()  # the yes came at the very end
        where = f"/desk/threads/{answer.thread.thread_id}"
        return visit.go(where, "approved" if yes else "declined")

    async def answer_tool(self, visit: Visit) -> web.StreamResponse:
        """Yes or no to what a tool would do; what came of it is a page of its own."""
        yes, wanted = _is_yes(visit), visit.named("hash")
        found = next((one for one in await self._tools(visit) if one.action_hash == wanted), None)
        if found is None:
            raise _gone()
        request = tools_pb2.AnswerToolApprovalRequest(code=found.code, approve=yes)
        try:
            answer = await self._calls.tools.AnswerToolApproval(request, metadata=visit.metadata)
        except NotFound:
            raise _gone() from None
        if not yes:
            return visit.go("/desk", "refused")
        return await self._frame.page(visit, "tool_done.html", "/desk", asked=found, outcome=answer.outcome)

    async def _decided(self, visit: Visit) -> Sequence[owner_pb2.Approval | tools_pb2.ToolApproval]:
        """What was answered lately, here or elsewhere, the newest first: on an open page nothing goes without
        a word."""
        since = Timestamp(seconds=self._frame.site.clock() // 1000 - LATELY_S)
        own = owner_pb2.ListInboxRequest(page_size=MOST_DECIDED, answered_since_time=since)
        tool = tools_pb2.ListApprovalsRequest(page_size=MOST_DECIDED, answered_since_time=since)
        found: list[owner_pb2.Approval | tools_pb2.ToolApproval] = [
            *(await self._calls.owner.ListInbox(own, metadata=visit.metadata)).approvals,
            *(await self._calls.tools.ListApprovals(tool, metadata=visit.metadata)).approvals,
        ]
        found = [one for one in found if one.terms]  # what was erased says nothing any more
        return sorted(found, key=lambda one: -one.answer_time.ToMilliseconds())[:MOST_DECIDED]

    async def _tools(self, visit: Visit) -> Sequence[tools_pb2.ToolApproval]:
        request = tools_pb2.ListApprovalsRequest(page_size=100)
        return (await self._calls.tools.ListApprovals(request, metadata=visit.metadata)).approvals


def _is_yes(visit: Visit) -> bool:
    said = visit.said("answer")
    if said not in ("yes", "no"):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "An answer is yes or no.")
    return said == "yes"


def _closed() -> Refused:
    return Refused(
        Reason.THREAD_CLOSED,
        "This question is no longer open: its time ran out, it was answered before, or it was taken back.",
        hint="nothing was signed; if you still want it, ask them yourself, or wait for them to ask again",
    )


def _gone() -> NotFound:
    return NotFound(
        Reason.NOT_FOUND,
        "These terms no longer wait for you: they were replaced, taken back, or are not yours.",
        hint="the inbox shows what waits now",
    )

"""Conversations with other agents: the list in pages, and the replay of all moves, signatures, decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web
from indai.desk.frame import ROLES, Frame
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import IndaiError
from indai.v1 import owner_pb2
from indai.web.visit import Visit

PAGE = 50
OPEN = (
    owner_pb2.THREAD_STATE_NEGOTIATING,
    owner_pb2.THREAD_STATE_ASKING_OWNER,
    owner_pb2.THREAD_STATE_ON_HOLD,
    owner_pb2.THREAD_STATE_AWAITING_RECEIPT,
)
ALIVE = (owner_pb2.COMMITMENT_STATE_COMMITTED, owner_pb2.COMMITMENT_STATE_OVERDUE)


@dataclass(frozen=True, slots=True)
class Signed:
    """A message and who signed it: key ids, and the size of the signed bytes."""

    message: owner_pb2.ThreadMessage
    keys: tuple[str, ...]
    size: int


class Threads:
    """Pages and acts of conversations."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._owner = frame, frame.calls.owner

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, one = self._frame.site, "/desk/threads/{thread:[0-9a-f]{6,32}}"
        return (
            site.member("/desk/threads", ROLES, self.listed),
            site.member(one, ROLES, self.replay),
            site.member(one + "/receipt.{form:proof|cose}", ROLES, self.receipt),
            site.act(one + "/withdraw", ROLES, self.withdraw),
            site.act(one + "/cancel", ROLES, self.cancel),
            site.act(one + "/fulfil", ROLES, self.fulfil),
            site.act(one + "/dispute", ROLES, self.dispute),
            site.act(one + "/erase", ROLES, self.erase),
        )

    async def listed(self, visit: Visit) -> web.StreamResponse:
        """The newest first."""
        query = visit.request.query
        request = owner_pb2.ListThreadsRequest(
            page_size=PAGE, page_token=query.get("page", ""), in_doubt=query.get("only") == "in-doubt"
        )
        answer = await self._owner.ListThreads(request, metadata=visit.metadata)
        return await self._frame.page(
            visit,
            "threads.html",
            "/desk/threads",
            threads=answer.threads,
            more=answer.next_page_token,
            only=query.get("only", ""),
        )

    async def replay(self, visit: Visit) -> web.StreamResponse:
        """One conversation, move by move."""
        request = owner_pb2.GetThreadRequest(thread_id=visit.named("thread"))
        answer = await self._owner.GetThread(request, metadata=visit.metadata)
        inbox = await self._owner.ListInbox(
            owner_pb2.ListInboxRequest(page_size=500), metadata=visit.metadata
        )
        thread = answer.thread
        return await self._frame.page(
            visit,
            "thread.html",
            "/desk/threads",
            thread=thread,
            messages=[_signed(message) for message in answer.messages],
            asked=next((one for one in inbox.approvals if one.thread_id == thread.thread_id), None),
            waiting=len(inbox.approvals),
            is_open=thread.state in OPEN,
            is_alive=thread.commitment_state in ALIVE,
            is_ended=thread.state not in OPEN and thread.state != owner_pb2.THREAD_STATE_IN_DOUBT,
        )

    async def receipt(self, visit: Visit) -> web.StreamResponse:
        """The proof, as a file."""
        thread, form = visit.named("thread"), visit.named("form")
        request = owner_pb2.GetReceiptRequest(thread_id=thread)
        answer = await self._owner.GetReceipt(request, metadata=visit.metadata)
        if form == "cose":
            return visit.file(answer.cose, f"receipt-{thread}.cose", "application/cose")
        return visit.file(answer.tlog_proof, f"receipt-{thread}.tlog-proof", "text/plain")

    async def withdraw(self, visit: Visit) -> web.StreamResponse:
        """Take it back."""
        request = owner_pb2.WithdrawThreadRequest(thread_id=visit.named("thread"))
        await self._owner.WithdrawThread(request, metadata=visit.metadata)
        return self._back(visit)

    async def cancel(self, visit: Visit) -> web.StreamResponse:
        """Call it off, or ask for that."""
        request = owner_pb2.CancelCommitmentRequest(
            thread_id=visit.named("thread"), sentence=visit.said("sentence", most=300)
        )
        await self._owner.CancelCommitment(request, metadata=visit.metadata)
        return self._back(visit)

    async def fulfil(self, visit: Visit) -> web.StreamResponse:
        """Say that it was kept."""
        request = owner_pb2.FulfilCommitmentRequest(
            thread_id=visit.named("thread"), sentence=visit.said("sentence", most=300)
        )
        await self._owner.FulfilCommitment(request, metadata=visit.metadata)
        return self._back(visit)

    async def dispute(self, visit: Visit) -> web.StreamResponse:
        """Object, for the record."""
        request = owner_pb2.DisputeCommitmentRequest(
            thread_id=visit.named("thread"), sentence=visit.said("sentence", most=300)
        )
        await self._owner.DisputeCommitment(request, metadata=visit.metadata)
        return self._back(visit)

    async def erase(self, visit: Visit) -> web.StreamResponse:
        """Erase what it says."""
        request = owner_pb2.EraseContentRequest(thread_id=visit.named("thread"))
        await self._owner.EraseContent(request, metadata=visit.metadata)
        return self._back(visit)

    def _back(self, visit: Visit) -> web.Response:
        return visit.go(f"/desk/threads/{visit.named('thread')}", "done")


def _signed(message: owner_pb2.ThreadMessage) -> Signed:
    """Who signed a message; nobody is named once it is erased."""
    try:
        envelope = parse_envelope(message.envelope)
    except IndaiError:
        return Signed(message, (), 0)
    return Signed(message, tuple(one.keyid for one in envelope.signatures), len(message.envelope))

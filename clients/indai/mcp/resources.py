"""Resources: threads, commitments and receipts, read by their URIs; all are JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

from indai.mcp.following import approval, detail
from indai.mcp.session import Ctx, Session, of, sentence
from indai.mcp.values import view
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.v1 import owner_pb2
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import FunctionResource

JSON = "application/json"
_PAGE = 500


async def threads(session: Session) -> str:
    """The newest threads."""
    answer = await session.owner.ListThreads(owner_pb2.ListThreadsRequest())
    return json.dumps([view(one).model_dump() for one in answer.threads], ensure_ascii=False)


async def inbox(session: Session) -> str:
    """What waits for the owner."""
    answer = await session.owner.ListInbox(owner_pb2.ListInboxRequest())
    session.look(*(one.thread_id for one in answer.approvals))
    return json.dumps([approval(one).model_dump() for one in answer.approvals], ensure_ascii=False)


async def commitments(session: Session) -> str:
    """What was agreed."""
    answer = await session.owner.ListCommitments(owner_pb2.ListCommitmentsRequest())
    return json.dumps([view(one).model_dump() for one in answer.threads], ensure_ascii=False)


async def thread(thread: str, ctx: Ctx) -> str:
    """A thread with its messages."""

    async def read() -> str:
        answer = await of(ctx).owner.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))
        of(ctx).look(answer.thread.thread_id)
        return detail(answer).model_dump_json()

    return await _read(read)


async def commitment(mid: str, ctx: Ctx) -> str:
    """The thread in which the commitment with this id was agreed."""

    async def read() -> str:
        request = owner_pb2.ListCommitmentsRequest(page_size=_PAGE)
        while True:
            answer = await of(ctx).owner.ListCommitments(request)
            for one in answer.threads:
                if one.commitment_mid == mid.lower():
                    return view(one).model_dump_json()
            request.page_token = answer.next_page_token
            if not request.page_token:
                raise NotFound(Reason.NOT_FOUND, f"No commitment is {mid}.", hint="see list_commitments")

    return await _read(read)


async def receipt(thread: str, ctx: Ctx) -> str:
    """The proof that the ledger holds what was agreed in a thread; byte fields are base64."""

    async def read() -> str:
        answer = await of(ctx).owner.GetReceipt(owner_pb2.GetReceiptRequest(thread_id=thread))
        fields = {
            "tlog_proof": answer.tlog_proof,
            "cose": answer.cose,
            "leaf": answer.leaf,
            "opening": answer.opening,
            "envelope": answer.envelope,
        }
        return json.dumps({name: base64.b64encode(value).decode() for name, value in fields.items()})

    return await _read(read)


async def _read(read: Callable[[], Awaitable[str]]) -> str:
    try:
        return await read()
    except NotFound as error:
        raise ResourceNotFoundError(sentence(error)) from None
    except IndaiError as error:
        raise ResourceError(sentence(error)) from None


def add_resources(server: MCPServer[Any], session: Session) -> None:
    """Lists and templates."""
    for name, listing in (("threads", threads), ("inbox", inbox), ("commitments", commitments)):
        server.add_resource(_listing(name, listing, session))
    for uri, function in (
        ("indai://thread/{thread}", thread),
        ("indai://commitment/{mid}", commitment),
        ("indai://receipt/{thread}", receipt),
    ):
        server.resource(uri, mime_type=JSON)(function)


def _listing(name: str, listing: Callable[[Session], Awaitable[str]], session: Session) -> FunctionResource:
    async def read() -> str:
        return await _read(lambda: listing(session))

    return FunctionResource.from_function(
        read, uri=f"indai://{name}", name=name, description=listing.__doc__, mime_type=JSON
    )

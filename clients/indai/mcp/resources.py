"""Resources: threads, commitments and receipts, read by their URIs; all are JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

from indai.mcp.following import approval, detail
from indai.mcp.session import Ctx, of, sentence
from indai.mcp.values import view
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.v1 import owner_pb2
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

JSON = "application/json"
_PAGE = 500


async def threads(ctx: Ctx) -> str:
    """The newest threads."""
    answer = await of(ctx).owner.ListThreads(owner_pb2.ListThreadsRequest())
    return json.dumps([view(one).model_dump() for one in answer.threads], ensure_ascii=False)


async def inbox(ctx: Ctx) -> str:
    """What waits for the owner."""
    answer = await of(ctx).owner.ListInbox(owner_pb2.ListInboxRequest())
    return json.dumps([approval(one).model_dump() for one in answer.approvals], ensure_ascii=False)


async def commitments(ctx: Ctx) -> str:
    """What was agreed."""
    answer = await of(ctx).owner.ListCommitments(owner_pb2.ListCommitmentsRequest())
    return json.dumps([view(one).model_dump() for one in answer.threads], ensure_ascii=False)


async def thread(thread: str, ctx: Ctx) -> str:
    """A thread with its messages."""

    async def read() -> str:
        answer = await of(ctx).owner.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))
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


def add_resources(server: MCPServer[Any]) -> None:
    """Lists and templates."""
    for uri, function in (
        ("indai://threads", threads),
        ("indai://inbox", inbox),
        ("indai://commitments", commitments),
        ("indai://thread/{thread}", thread),
        ("indai://commitment/{mid}", commitment),
        ("indai://receipt/{thread}", receipt),
    ):
        server.resource(uri, mime_type=JSON)(function)

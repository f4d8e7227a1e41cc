"""LeavingService at the owner's port: who asks for whom comes from the token; the work is `leaving`'s."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from indai.node import auth
from indai.node.auth import caller
from indai.node.leaving import Leaving
from indai.node.service import Service
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.protocol.handles import Handle
from indai.v1 import leaving_pb2 as pb
from indai.v1 import leaving_pb2_grpc

_PAGE: Final = (50, 200)


class LeavingServicer(leaving_pb2_grpc.LeavingServiceServicer):
    """See the contract."""

    def __init__(self, leaving: Leaving) -> None:
        self._leaving = leaving

    async def ForgetOwner(self, request: pb.ForgetOwnerRequest, context: Any) -> pb.ForgetOwnerResponse:
        """An owner themselves, or the operator."""
        who, handle = caller(context), str(Handle.parse(request.handle))
        if not who.operator and who.owner != handle:
            raise Refused(Reason.PERMISSION_DENIED, "An owner is forgotten at their own wish alone.")
        if request.dry_run:
            found = await self._leaving.count(handle)
        else:
            _confirmed(request, handle)
            by = "operator" if who.operator else "owner"
            # Who hangs up does not stop it halfway.
            work = asyncio.ensure_future(self._leaving.forget(handle, by, at_once=request.at_once))
            found = await asyncio.shield(work)
        return pb.ForgetOwnerResponse(removed=found.removed, remaining=found.remaining, open=found.open)

    async def ListLeavings(self, request: pb.ListLeavingsRequest, context: Any) -> pb.ListLeavingsResponse:
        """For the operator alone."""
        if not caller(context).operator:
            raise Refused(Reason.PERMISSION_DENIED, "Who left is for the node's operator.")
        size = request.page_size or _PAGE[0]
        if size > _PAGE[1]:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"A page has at most {_PAGE[1]} rows.")
        rows = await self._leaving.listed(_position(request.page_token), size + 1)
        last = rows[size - 1] if len(rows) > size else None
        return pb.ListLeavingsResponse(
            leavings=[_left(row) for row in rows[:size]],
            next_page_token=f"{last['asked_ms']}:{last['owner']}" if last else "",
        )


@contextlib.asynccontextmanager
async def leaving_role(leaving: Leaving, admit: auth.Authenticate) -> AsyncIterator[Service]:
    """The service; what an earlier run left half done is carried on with beside it."""
    going = asyncio.create_task(leaving.resume())
    try:
        yield Service(leaving_pb2_grpc.add_LeavingServiceServicer_to_server, LeavingServicer(leaving), admit)
    finally:
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going


def _confirmed(request: pb.ForgetOwnerRequest, handle: str) -> None:
    if request.confirm != handle:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "What can't be undone is confirmed by the handle once more.",
            fields={"confirm": f"must be {handle}"},
        )


def _position(token: str) -> tuple[int, str] | None:
    if not token:
        return None
    asked, _, owner = token.partition(":")
    if not asked.isdecimal() or len(asked) > 17 or not owner:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The page token must come from the answer before.")
    return int(asked), owner


def _left(row: Any) -> pb.Leaving:
    made = pb.Leaving(
        handle=row["owner"],
        by_operator=row["asked_by"] == "operator",
        removed=json.loads(row["removed"]),
    )
    made.ask_time.FromMilliseconds(row["asked_ms"])
    if row["finished_ms"] is not None:
        made.finish_time.FromMilliseconds(row["finished_ms"])
    return made

"""RecordService at the owner's port: an owner sees their own records, the operator those of a tenant."""

from __future__ import annotations

from typing import Any, Final

import asyncpg
from indai.node import views
from indai.node.auth import caller as admitted
from indai.node.tool_service import MAX_PAGE, read_token, token_of, uuid_of
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.tools.records import RecordStore
from indai.v1 import tools_pb2 as pb
from indai.v1 import tools_pb2_grpc

DEFAULT_PAGE: Final = 50


class RecordServicer(tools_pb2_grpc.RecordServiceServicer):
    """RecordService."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    async def ListRecords(self, request: pb.ListRecordsRequest, context: Any) -> pb.ListRecordsResponse:
        """Newest first."""
        holder, size = _holder(context, request.tenant), min(request.page_size or DEFAULT_PAGE, MAX_PAGE)
        rows = await self._records.listed(holder, request.kind, size + 1, read_token(request.page_token))
        token = token_of([(row["created_ms"], row["id"]) for row in rows], size)
        return pb.ListRecordsResponse(records=[_record(row) for row in rows[:size]], next_page_token=token)

    async def SetRecordStatus(
        self, request: pb.SetRecordStatusRequest, context: Any
    ) -> pb.SetRecordStatusResponse:
        """Only to a status of its kind."""
        holder = _holder(context, request.tenant)
        row = await self._records.move(holder, uuid_of(request.record_id), request.status)
        return pb.SetRecordStatusResponse(record=_record(row))


def _holder(context: Any, tenant: str) -> str:
    """Whose records: the caller's own, or the tenant's that the operator names."""
    who = admitted(context)
    if who.operator:
        if not tenant:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "The operator names a tenant.", hint="--tenant acme")
        return f"tenant:{tenant}"
    if tenant or not who.owner:
        raise Refused(Reason.PERMISSION_DENIED, "A tenant's records are its operator's.", hint="leave it out")
    return who.owner


def _record(row: asyncpg.Record) -> pb.ToolRecord:
    made = pb.ToolRecord(
        record_id=str(row["id"]),
        kind=row["kind"],
        status=row["status"],
        data_json=row["data"],
        binding=row["binding"],
        create_time=views.timestamp(row["created_ms"]),
        update_time=views.timestamp(row["updated_ms"]),
    )
    if row["at_ms"] is not None:
        made.time.FromMilliseconds(row["at_ms"])
    return made

"""ToolService and ApprovalService at the owner's port: each call is the owner's, at their private door."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from indai.node import views
from indai.node.auth import caller as admitted
from indai.node.owner_service import request_uuid
from indai.node.paging import MAX_NUMBER
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.tools.approvals import Approvals, Asked
from indai.tools.jobs import Job, Jobs
from indai.tools.store import CallStore
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Caller, Outcome, Spec, unheard
from indai.v1 import tools_pb2 as pb
from indai.v1 import tools_pb2_grpc

MAX_PAGE: Final = 500
MAX_TEXT: Final = 64 * 1024
FIRST: Final = (1 << 62, UUID(int=(1 << 128) - 1))
SESSION: Final = "owner"  # calls of an owner's own programs belong to no conversation
STATES: Final = ("", "waiting", "done", "dead")


class ToolServicer(tools_pb2_grpc.ToolServiceServicer):
    """ToolService."""

    def __init__(
        self,
        toolbox: NodeToolbox,
        calls: CallStore,
        jobs: Jobs,
        zone_of: Callable[[str], str],
        clock: Callable[[], int],
    ) -> None:
        self._toolbox = toolbox
        self._calls = calls
        self._jobs = jobs
        self._zone_of = zone_of
        self._clock = clock

    async def ListTools(self, request: pb.ListToolsRequest, context: Any) -> pb.ListToolsResponse:
        """All, or those of a door."""
        admitted(context)
        specs = self._toolbox.specs()
        if request.door:
            specs = self._toolbox.offered([each.name for each in specs], request.door, "")
        return pb.ListToolsResponse(tools=[_info(each) for each in specs])

    async def CallTool(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
        """The same path as a model's wish; the owner's own call of a tool is bounded by the same layers."""
        made = acting(admitted(context).owner, self._zone_of, self._clock(), request_uuid(request.request_id))
        arguments = _object(request.arguments_json or "{}")
        names = [each.name for each in self._toolbox.specs()]
        return answered(await self._toolbox.call(made, names, request.tool, arguments, unheard))

    async def ListToolCalls(self, request: pb.ListToolCallsRequest, context: Any) -> pb.ListToolCallsResponse:
        """Newest first."""
        owner, size = admitted(context).owner, _page(request.page_size)
        rows = await self._calls.listed(owner, request.session_id, read_token(request.page_token), size + 1)
        calls = [
            pb.ToolCallRecord(
                time=views.timestamp(row["created_ms"]),
                tool=row["tool"],
                session_id=row["session"],
                door=row["door"],
                channel=row["channel"],
                arguments_json=row["arguments"],
                result=row["result"],
                status=row["status"],
                error=row["error"],
                latency_ms=row["latency_ms"],
                cached=row["cached"],
            )
            for row in rows[:size]
        ]
        token = token_of([(row["created_ms"], row["id"]) for row in rows], size)
        return pb.ListToolCallsResponse(calls=calls, next_page_token=token)

    async def ListToolJobs(self, request: pb.ListToolJobsRequest, context: Any) -> pb.ListToolJobsResponse:
        """Newest first."""
        owner, size = admitted(context).owner, _page(request.page_size)
        if request.state not in STATES:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A job is waiting, done or dead.")
        found = await self._jobs.listed(owner, request.state, read_token(request.page_token), size + 1)
        token = token_of([(each.created_ms, each.id) for each in found], size)
        return pb.ListToolJobsResponse(jobs=[_job(each) for each in found[:size]], next_page_token=token)

    async def RetryToolJob(self, request: pb.RetryToolJobRequest, context: Any) -> pb.RetryToolJobResponse:
        """Only what was given up."""
        await self._jobs.retry(admitted(context).owner, uuid_of(request.job_id))
        return pb.RetryToolJobResponse()


class ApprovalServicer(tools_pb2_grpc.ApprovalServiceServicer):
    """ApprovalService."""

    def __init__(
        self,
        toolbox: NodeToolbox,
        approvals: Approvals,
        zone_of: Callable[[str], str],
        clock: Callable[[], int],
    ) -> None:
        self._toolbox = toolbox
        self._approvals = approvals
        self._zone_of = zone_of
        self._clock = clock

    async def ListApprovals(self, request: pb.ListApprovalsRequest, context: Any) -> pb.ListApprovalsResponse:
        """At most a hundred can wait, so every page is cut out of one read."""
        owner, size = admitted(context).owner, min(request.page_size or 50, 100)
        if request.HasField("answered_since_time"):
            since_ms = max(0, min(MAX_NUMBER, views.milliseconds(request.answered_since_time)))
            answered = await self._approvals.answered(owner, since_ms, size)
            return pb.ListApprovalsResponse(approvals=[_approval(each) for each in answered])
        waiting = await self._approvals.waiting(owner, self._clock())
        first = _place(request.page_token)
        shown = waiting[first : first + size]
        token = str(first + size) if len(waiting) > first + size else ""
        return pb.ListApprovalsResponse(approvals=[_approval(each) for each in shown], next_page_token=token)

    async def AnswerToolApproval(
        self, request: pb.AnswerToolApprovalRequest, context: Any
    ) -> pb.AnswerToolApprovalResponse:
        """A yes runs it; whoever asked hears of it in their own conversation."""
        made = acting(admitted(context).owner, self._zone_of, self._clock(), str(uuid.uuid4()))
        outcome = await self._toolbox.answer(made, request.code, approve=request.approve)
        if outcome.code == Reason.NOT_FOUND.name:
            raise NotFound(Reason.NOT_FOUND, outcome.words, hint="indai inbox")
        return pb.AnswerToolApprovalResponse(outcome=answered(outcome))


def acting(owner: str, zone_of: Callable[[str], str], now_ms: int, turn: str) -> Caller:
    """The owner at their private door, by their own token."""
    zone = zone_of(owner) or "Asia/Kolkata"
    return Caller("personal", "", owner, SESSION, owner, "private", "api", True, "en", zone, now_ms, turn)


def answered(outcome: Outcome) -> pb.CallToolResponse:
    """An outcome on the wire."""
    asked = outcome.approval
    return pb.CallToolResponse(
        status=outcome.status.value,
        words=outcome.words,
        fields=[
            pb.ToolField(
                label=each.label, text=each.text, importance=each.importance, untrusted=each.untrusted
            )
            for each in outcome.fields
        ],
        result_json=json.dumps(dict(outcome.result), ensure_ascii=False),
        code=outcome.code,
        retryable=outcome.retryable,
        approval_code=asked.code if asked else "",
        approval_terms=asked.terms if asked else "",
        job_id=outcome.job,
        thread_id=outcome.thread,
    )


def _info(spec: Spec) -> pb.ToolInfo:
    return pb.ToolInfo(
        name=spec.name,
        description=spec.description,
        arguments_schema_json=json.dumps(spec.arguments),
        result_schema_json=json.dumps(spec.result),
        effect=spec.effect.value,
        touches=sorted(each.value for each in spec.touches),
        doors=sorted(spec.doors),
        needs=spec.needs,
        long_running=spec.long_running,
    )


def _job(job: Job) -> pb.ToolJob:
    return pb.ToolJob(
        job_id=str(job.id),
        kind=job.kind,
        tool=job.tool,
        state=job.state,
        attempts=job.attempts,
        error=job.error,
        due_time=views.timestamp(job.due_ms),
        create_time=views.timestamp(job.created_ms),
        update_time=views.timestamp(job.updated_ms),
    )


def _approval(asked: Asked) -> pb.ToolApproval:
    return pb.ToolApproval(
        code=asked.approval.code,
        action_hash=asked.approval.action_hash,
        tool=asked.tool,
        terms=asked.approval.terms,
        why=asked.why,
        person=asked.caller.person,
        door=asked.caller.door,
        expire_time=views.timestamp(asked.approval.expires_at_ms),
        create_time=views.timestamp(asked.created_ms),
        answer=("declined" if asked.state == "declined" else "approved") if asked.answered_ms else "",
        answer_time=views.timestamp(asked.answered_ms or None),
        answer_channel=asked.answered_on,
    )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if len(text) <= MAX_TEXT else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "The arguments are no JSON object of at most 64 KiB.",
            hint='{"with": "bob"}',
        )
    return value


def _page(size: int) -> int:
    return min(size or 50, MAX_PAGE)


def token_of(keys: Sequence[tuple[int, UUID]], size: int) -> str:
    """Where the next page begins, when there is more than `size`."""
    return f"{keys[size - 1][0]}:{keys[size - 1][1]}" if len(keys) > size else ""


def read_token(token: str) -> tuple[int, UUID]:
    """What a page token names. Raises InvalidInput."""
    if not token:
        return FIRST
    number, _, rest = token.partition(":")
    if not number.isdecimal() or len(number) > 18:
        raise _no_token()
    return int(number), uuid_of(rest)


def _place(token: str) -> int:
    if not token:
        return 0
    if not token.isdecimal() or len(token) > 6:
        raise _no_token()
    return int(token)


def uuid_of(text: str) -> UUID:
    """An id. Raises InvalidInput."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "An id is a UUID.", hint="indai tool jobs") from None


def _no_token() -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, "The page token is not one of ours.")

"""AskingService: questions and requests, both ways. Scoped to the caller."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
from indai.node import named, views
from indai.node.auth import caller
from indai.node.clock import DatabaseClock
from indai.node.engine import Engine
from indai.node.offices import Department, Offices
from indai.node.own_answers import OwnAnswers
from indai.node.owner_service import request_uuid
from indai.node.paging import beginning_with
from indai.node.querier import Querier, refused
from indai.node.stages import Stages
from indai.node.store import Store
from indai.node.thread_views import ThreadViews, peer_of, side_of
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason, Refused
from indai.protocol.kinds.ask import ASK, REQUEST, AskTerms, AskWish, RequestTerms, RequestWish
from indai.protocol.lifecycle import State
from indai.protocol.messages import EventBody, EventKind, Wish, check_said
from indai.protocol.party_state import OwnerActs, Side
from indai.protocol.queries import StatusAnswer, StatusQuery
from indai.v1 import asking_pb2 as pb
from indai.v1 import asking_pb2_grpc

MAX_PAGE, MAX_CODE, MIN_CODE = 500, 64, 8
MINUTE_MS = 60_000
_GONE = (State.FULFILLED, State.CANCELLED, State.SUPERSEDED)


class AskingServicer(asking_pb2_grpc.AskingServiceServicer):
    """AskingService."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        querier: Querier,
        own: OwnAnswers,
        offices: Offices,
        stages: Stages,
        threads: ThreadViews,
        clock: DatabaseClock,
    ) -> None:
        self._store = store
        self._engine = engine
        self._querier = querier
        self._own = own
        self._offices = offices
        self._stages = stages
        self._threads = threads
        self._clock = clock

    async def AskQuestion(self, request: pb.AskQuestionRequest, context: Any) -> pb.AskQuestionResponse:
        """A PROPOSE of the question."""
        owner, wish = caller(context).owner, _checked(AskWish(request.question, request.topic))
        request_id = request_uuid(request.request_id)
        thread = await self._engine.start(owner, peer_of(request.peer), wish, request_id)
        return pb.AskQuestionResponse(thread=await self._threads.of(owner, thread))

    async def AnswerQuestion(
        self, request: pb.AnswerQuestionRequest, context: Any
    ) -> pb.AnswerQuestionResponse:
        """Two steps of one word: the question as it stands is approved, which brings the owner's answer up as
        a new question (NEG-34), and that is approved as it is written."""
        owner = caller(context).owner
        row = await self._question(owner, request.code)
        side = side_of(row)
        if not isinstance(side.terms, AskTerms):
            raise NotFound(Reason.NOT_FOUND, "That is no question.", hint="indai inbox")
        terms = AskTerms(side.terms.question, side.terms.topic, request.answer)
        _check(terms.check)
        thread: bytes = row["thread"]
        await self._own.put(owner, thread, request.answer)
        await self._engine.answer(owner, thread, row["action_hash"], approved=True)
        asked_again = await self._pending(owner, thread)
        if asked_again is not None:
            await self._engine.answer(owner, thread, asked_again, approved=True)
        return pb.AnswerQuestionResponse(thread=await self._threads.of(owner, thread))

    async def GetAnswer(self, request: pb.GetAnswerRequest, context: Any) -> pb.GetAnswerResponse:
        """As it was signed."""
        owner = caller(context).owner
        row = await self._threads.find(owner, request.thread_id, ASK.name)
        side, thread = side_of(row), await self._threads.of(owner, row["thread"])
        offer = side.thread.offer if side.thread else None
        if side.life is None or offer is None or not isinstance(offer.body, AskTerms):
            return pb.GetAnswerResponse(question=row["title"], thread=thread)
        terms = offer.body
        return pb.GetAnswerResponse(
            question=terms.question,
            answer=terms.answer,
            sources=[pb.AnswerSource(title=source.title, uri=source.uri) for source in terms.sources],
            confidence_percent=terms.confidence_percent,
            thread=thread,
        )

    async def FileRequest(self, request: pb.FileRequestRequest, context: Any) -> pb.FileRequestResponse:
        """A PROPOSE of the request."""
        owner = caller(context).owner
        wish = RequestWish(request.subject, request.text, request.category, request.department)
        request_id = request_uuid(request.request_id)
        thread = await self._engine.start(owner, peer_of(request.office), _checked(wish), request_id)
        return pb.FileRequestResponse(thread=await self._threads.of(owner, thread))

    async def ListRequests(self, request: pb.ListRequestsRequest, context: Any) -> pb.ListRequestsResponse:
        """By due time; what is over only if asked for."""
        owner, size = caller(context).owner, min(request.page_size or 100, MAX_PAGE)
        due_ms, last = _after(request.page_token)
        filed: list[pb.FiledRequest] = []
        token = ""
        while len(filed) < size:
            rows = await self._filed(owner, due_ms, last, size + 1)
            for row in rows[:size]:
                due_ms, last = row["end_ms"], row["thread"]
                one = filed_request(row)
                shown = request.all or one.state not in [state.value for state in _GONE]
                if shown and request.department in ("", one.department):
                    filed.append(one)
                if len(filed) == size:
                    break
            more = len(rows) > size or (bool(rows) and last != rows[-1]["thread"])
            token = json.dumps([due_ms, last.hex()]) if more else ""
            if not more:
                break
        return pb.ListRequestsResponse(requests=filed, next_page_token=token)

    async def PollRequest(self, request: pb.PollRequestRequest, context: Any) -> pb.PollRequestResponse:
        """What the office says now, over what is known here."""
        owner = caller(context).owner
        row = await self._one(owner, request.request)
        filed = filed_request(row)
        if filed.incoming:
            return pb.PollRequestResponse(request=filed)
        told = await self._querier.ask(owner, row["peer"], StatusQuery(row["mid"]))
        if not isinstance(told, StatusAnswer):
            raise refused(row["peer"], told)
        filed.state, filed.stage = told.state, told.stage
        return pb.PollRequestResponse(request=filed)

    async def SetRequestStage(
        self, request: pb.SetRequestStageRequest, context: Any
    ) -> pb.SetRequestStageResponse:
        """For whoever polls."""
        owner = caller(context).owner
        row = await self._incoming(owner, request.request)
        await self._stages.set(owner, row["thread"], request.stage, self._clock())
        return pb.SetRequestStageResponse(request=filed_request(await self._one(owner, row["thread"].hex())))

    async def ResolveRequest(
        self, request: pb.ResolveRequestRequest, context: Any
    ) -> pb.ResolveRequestResponse:
        """FULFIL with the outcome."""
        owner = caller(context).owner
        row = await self._incoming(owner, request.request)
        _check(lambda: check_said("", "", request.outcome))
        await self._engine.act(owner, row["thread"], OwnerActs(EventKind.FULFIL, outcome=request.outcome))
        return pb.ResolveRequestResponse(request=filed_request(await self._one(owner, row["thread"].hex())))

    async def SetDepartments(
        self, request: pb.SetDepartmentsRequest, context: Any
    ) -> pb.SetDepartmentsResponse:
        """All of them."""
        owner = caller(context).owner
        departments = [
            Department(
                one.name,
                one.title or one.name,
                one.service_minutes * MINUTE_MS,
                tuple(one.categories),
                tuple(one.keywords),
                one.fallback,
            )
            for one in request.departments
        ]
        await self._offices.set(owner, departments)
        return pb.SetDepartmentsResponse(departments=self._departments(owner))

    async def ListDepartments(
        self, request: pb.ListDepartmentsRequest, context: Any
    ) -> pb.ListDepartmentsResponse:
        """All of them."""
        return pb.ListDepartmentsResponse(departments=self._departments(caller(context).owner))

    def _departments(self, owner: str) -> list[pb.Department]:
        return [
            pb.Department(
                name=one.name,
                title=one.title,
                service_minutes=one.service_ms // MINUTE_MS,
                categories=one.categories,
                keywords=one.keywords,
                fallback=one.fallback,
            )
            for one in self._offices.of(owner)
        ]

    async def _question(self, owner: str, text: str) -> asyncpg.Record:
        code = text.strip().lower()
        if not MIN_CODE <= len(code) <= MAX_CODE or set(code) - set("0123456789abcdef"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"A code has {MIN_CODE} to {MAX_CODE} hexadecimal digits.",
                hint="indai inbox shows the codes",
            )
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(named.QUESTIONS, owner, *beginning_with(code, MAX_CODE))
        if len(rows) != 1:
            raise NotFound(
                Reason.NOT_FOUND, f"Nothing in your inbox has the code {code}.", hint="indai inbox"
            )
        return rows[0]

    async def _pending(self, owner: str, thread: bytes) -> bytes | None:
        async with self._store.scope(owner) as connection:
            found: bytes | None = await connection.fetchval(
                "SELECT action_hash FROM node.approvals WHERE owner = $1 AND thread = $2"
                " AND state = 'pending' ORDER BY created_ms DESC LIMIT 1",
                owner,
                thread,
            )
        return found

    async def _filed(self, owner: str, due_ms: int, last: bytes, limit: int) -> list[asyncpg.Record]:
        async with self._store.scope(owner) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT t.*, coalesce(s.stage, '') AS stage FROM node.threads t"
                " LEFT JOIN node.request_stages s USING (owner, thread) WHERE t.owner = $1"
                " AND t.kind = 'request' AND t.phase = 'COMMITTED' AND t.erased_ms IS NULL"
                " AND (t.end_ms, t.thread) > ($2, $3) ORDER BY t.end_ms, t.thread LIMIT $4",
                owner,
                due_ms,
                last,
                limit,
            )
        return rows

    async def _one(self, owner: str, text: str) -> views.Row:
        row = await self._threads.find(owner, text, REQUEST.name)
        if side_of(row).life is None:
            raise Refused(Reason.ILLEGAL_MOVE, "The request is not filed yet.", hint="indai threads")
        return {**row, "stage": await self._stages.get(owner, row["thread"])}

    async def _incoming(self, owner: str, text: str) -> views.Row:
        row = await self._one(owner, text)
        if row["outgoing"]:
            raise Refused(Reason.ILLEGAL_MOVE, "You filed this one; the office resolves it.")
        return row


def filed_request(row: views.Row) -> pb.FiledRequest:
    """A committed request's row, with its `stage`."""
    side = side_of(row)
    offer = side.thread.offer if side.thread else None
    if offer is None or side.life is None or not isinstance(offer.body, RequestTerms):
        raise RuntimeError("a filed request without its terms")
    terms = offer.body
    return pb.FiledRequest(
        thread_id=row["thread"].hex(),
        peer=row["peer"],
        incoming=offer.sender == side.owner,
        reference=terms.reference,
        subject=terms.subject,
        text=terms.text,
        category=terms.category,
        department=terms.department,
        due_time=views.timestamp(terms.due_ms),
        create_time=views.timestamp(row["created_ms"]),
        state=side.life.state.value,
        stage=row["stage"],
        outcome=_outcome(side),
    )


def _outcome(side: Side) -> str:
    if side.life is None:
        return ""
    said = (message.body for message in side.life.chain)
    return next((body.outcome for body in said if isinstance(body, EventBody) and body.outcome), "")


def _checked(wish: Wish) -> Wish:
    _check(wish.check)
    return wish


def _check(check: Any) -> None:
    try:
        check()
    except ProtocolError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None


def _after(token: str) -> tuple[int, bytes]:
    if not token:
        return 0, b""
    try:
        number, text = json.loads(token)
        if type(number) is int and 0 <= number < 1 << 62:
            return number, bytes.fromhex(text)
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidInput(Reason.INVALID_ARGUMENT, "The page token is not one of ours.")

"""`indai.v1.LlmService`: answers of language models, and what they cost."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final
from zoneinfo import ZoneInfo

import grpc
from indai.llm import wire
from indai.llm.chain import Started
from indai.llm.config import Config
from indai.llm.daycosts import Asked
from indai.llm.embedding import embed
from indai.llm.gateway import Accepted, Done, Gateway, Told
from indai.llm.local.provider import MakeEmbedder
from indai.llm.providers.registry import Secret
from indai.llm.store import Store, thirty_days_before
from indai.llm.values import TextDelta, ToolCall
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import llm_pb2 as pb
from indai.v1 import llm_pb2_grpc

CALLS_PAGE: Final = (50, 500)
COSTS_PAGE: Final = (100, 500)
NOTICES_PAGE: Final = (50, 200)

Context = grpc.aio.ServicerContext[Any, Any]


class LlmService(llm_pb2_grpc.LlmServiceServicer):
    """Stateless but for connections, breakers and what runs: any number may share one database.

    `secret` gives what a `vault:` reference stands for; `clock`: ms since the epoch; `embedder` makes the
    built-in model of embeddings.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        secret: Secret,
        clock: Callable[[], int],
        embedder: MakeEmbedder | None = None,
    ) -> None:
        self._gateway = Gateway(config, store, secret, clock, embedder)
        self._store = store
        self._clock = clock

    async def close(self) -> None:
        """Store what is not stored yet, and let connections go."""
        await self._gateway.close()

    async def Generate(
        self, request: pb.GenerateRequest, context: Context
    ) -> AsyncIterator[pb.GenerateResponse]:
        """See the contract."""
        async with contextlib.aclosing(self._gateway.generate(wire.asked(request))) as told:
            async for each in told:
                yield _event(each)

    async def StopGeneration(
        self, request: pb.StopGenerationRequest, context: Context
    ) -> pb.StopGenerationResponse:
        """See the contract."""
        stopped = self._gateway.stop(wire.scope_of(request.scope), request.generation_id)
        return pb.StopGenerationResponse(stopped=stopped)

    async def Embed(self, request: pb.EmbedRequest, context: Context) -> pb.EmbedResponse:
        """See the contract."""
        return await embed(self._gateway, self._store, self._clock, request)

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        """See the contract."""
        config = self._gateway.config
        return pb.ListModelsResponse(
            models=[_model(config, name) for name in config.models],
            providers=[self._provider(name) for name in config.providers],
            currency=config.currency,
        )

    async def ListCalls(self, request: pb.ListCallsRequest, context: Context) -> pb.ListCallsResponse:
        """See the contract."""
        count = _page(request.page_size, *CALLS_PAGE)
        before = _cursor(request.page_token) if request.page_token else None
        rows = await self._store.calls(
            wire.scope_of(request.scope), request.generation_id or None, before, count + 1
        )
        more = _token(rows[count - 1].started_ms, rows[count - 1].id.hex()) if len(rows) > count else ""
        return pb.ListCallsResponse(calls=map(wire.row_out, rows[:count]), next_page_token=more)

    async def ListCosts(self, request: pb.ListCostsRequest, context: Context) -> pb.ListCostsResponse:
        """See the contract."""
        count = _page(request.page_size, *COSTS_PAGE)
        offset = _offset(request.page_token)
        days = await self._store.days.costs(self._asked(request), offset, count + 1)
        more = _token(offset + count) if len(days) > count else ""
        return pb.ListCostsResponse(costs=map(wire.day_out, days[:count]), next_page_token=more)

    async def ListTierTokens(
        self, request: pb.ListTierTokensRequest, context: Context
    ) -> pb.ListTierTokensResponse:
        """See the contract."""
        days, sizes = await self._store.days.tiers(self._asked(request))
        return pb.ListTierTokensResponse(
            tokens=[
                pb.TierTokens(day=one.day.isoformat(), binding=one.binding, tier=one.tier, tokens=one.tokens)
                for one in days
            ],
            sizes=[
                pb.TierPromptSize(
                    binding=one.binding,
                    tier=one.tier,
                    calls=one.calls,
                    p95_tokens=one.p95,
                    max_tokens=one.largest,
                )
                for one in sizes
            ],
        )

    async def SetSpendingLimit(
        self, request: pb.SetSpendingLimitRequest, context: Context
    ) -> pb.SetSpendingLimitResponse:
        """See the contract."""
        limit = wire.limit_of(request.limit)
        await self._store.set_limit(limit)
        return pb.SetSpendingLimitResponse(limit=wire.limit_out(limit))

    async def ListSpendingLimits(
        self, request: pb.ListSpendingLimitsRequest, context: Context
    ) -> pb.ListSpendingLimitsResponse:
        """See the contract."""
        limits = await self._store.limits(wire.scope_of(request.scope), self._clock())
        return pb.ListSpendingLimitsResponse(limits=map(wire.limit_out, limits))

    async def ListNotices(self, request: pb.ListNoticesRequest, context: Context) -> pb.ListNoticesResponse:
        """See the contract."""
        count = _page(request.page_size, *NOTICES_PAGE)
        offset = _offset(request.page_token)
        notices = await self._store.notices(wire.scope_of(request.scope), offset, count + 1)
        more = _token(offset + count) if len(notices) > count else ""
        return pb.ListNoticesResponse(notices=map(wire.notice_out, notices[:count]), next_page_token=more)

    def _provider(self, name: str) -> pb.ProviderInfo:
        found, breaker = self._gateway.config.providers[name], self._gateway.breakers[name]
        return pb.ProviderInfo(
            name=name,
            kind=found.kind,
            country=found.country or "",
            key_reference=found.key or "",
            available=not breaker.is_open,
            problem=breaker.problem,
        )

    def _asked(self, request: pb.ListCostsRequest | pb.ListTierTokensRequest) -> Asked:
        scope = wire.scope_of(request.scope)
        try:
            zone = ZoneInfo(request.time_zone or "UTC")
        except (KeyError, ValueError, OSError):  # unknown, or no name at all
            raise _wrong("time_zone", "must be the name of a zone such as Asia/Kolkata") from None
        if not request.first_day:
            return Asked(scope, thirty_days_before(self._clock(), zone), zone.key)
        try:
            return Asked(scope, datetime.date.fromisoformat(request.first_day), zone.key)
        except ValueError:
            raise _wrong("first_day", "must be a day such as 2026-11-01") from None


def _event(told: Told) -> pb.GenerateResponse:
    match told:
        case Accepted():
            return pb.GenerateResponse(accepted=pb.GenerationAccepted(generation_id=told.generation))
        case Started():
            return pb.GenerateResponse(started=_started(told))
        case TextDelta():
            return pb.GenerateResponse(text=told.text)
        case ToolCall():
            return pb.GenerateResponse(tool_call=wire.call_out(told))
        case Done():
            return pb.GenerateResponse(done=_done(told))


def _started(started: Started) -> pb.GenerationStarted:
    candidate = started.candidate
    return pb.GenerationStarted(provider=candidate.provider, model=candidate.name, why=candidate.why)


def _done(done: Done) -> pb.GenerationDone:
    return pb.GenerationDone(
        finish=wire.finish_out(done.finish),
        usage=wire.usage_out(done.usage),
        cost_micros=done.cost_micros,
        currency=done.currency,
        problems=done.problems,
        ttft_ms=max(0, done.ttft_ms),
        total_ms=done.total_ms,
        attempts=done.attempts,
        answered_by=_started(Started(done.answered_by)) if done.answered_by else None,
    )


def _model(config: Config, name: str) -> pb.ModelInfo:
    model, price = config.models[name], config.price(name)
    return pb.ModelInfo(
        name=name,
        provider=model.provider,
        upstream=model.model,
        classes=[number for number, each in wire.CLASSES.items() if name in config.routes.get(each, ())],
        input_price=price.input,
        output_price=price.output,
        cache_read_price=price.cache_read,
        cache_write_price=price.cache_write,
        embeds=model.embeds,
    )


def _page(asked: int, usual: int, most: int) -> int:
    if not 0 <= asked <= most:
        raise _wrong("page_size", f"must be 0 to {most}")
    return asked or usual


def _token(*parts: int | str) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def _parts(token: str) -> list[Any]:
    try:
        return list(json.loads(base64.urlsafe_b64decode(token)))
    except (ValueError, TypeError):
        raise _wrong("page_token", "must come from the answer before") from None


def _offset(token: str) -> int:
    match _parts(token) if token else [0]:
        case [int(offset)] if 0 <= offset < 2**31:
            return offset
    raise _wrong("page_token", "must come from the answer before")


def _cursor(token: str) -> tuple[int, bytes]:
    match _parts(token):
        case [int(at), str(identifier)] if 0 <= at < 2**47 and len(identifier) == 32:
            with contextlib.suppress(ValueError):
                return at, bytes.fromhex(identifier)
    raise _wrong("page_token", "must come from the answer before")


def _wrong(path: str, what: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, f"The request is wrong at {path}: {what}.", fields={path: what}
    )

"""Vectors for texts, by a configured model, with a row and a reservation as an answer has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final

from indai.llm import wire
from indai.llm.attempt import monotonic_ms
from indai.llm.gateway import RESERVED_FOR_MS, Gateway
from indai.llm.pii import Scrubber
from indai.llm.pricing import estimate_tokens
from indai.llm.records import CallRow
from indai.llm.retry import blames_provider
from indai.llm.store import Store
from indai.llm.values import Fault, Finish, ModelClass, ProviderFault, Usage, Vectors
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.header import RANDOM_BYTES, new_id
from indai.v1 import llm_pb2 as pb

MAX_TEXTS: Final = 256
MAX_CHARACTERS: Final = 1_000_000
TIMEOUT_MS: Final = 60_000


async def embed(
    gateway: Gateway, store: Store, clock: Callable[[], int], request: pb.EmbedRequest
) -> pb.EmbedResponse:
    """Raises NotFound when no model embeds, ProviderFault when it fails. A failed call costs nothing."""
    scope, texts = wire.scope_of(request.scope), _checked(request.texts)
    name = _model(gateway, request.model)
    price = gateway.config.price(name)
    generation = new_id(clock(), os.urandom(RANDOM_BYTES))
    most = price.ceiling(sum(map(estimate_tokens, texts)), 0)
    if most:
        await store.reserve(generation, scope, clock(), most, TIMEOUT_MS + RESERVED_FOR_MS)
    began, wall = monotonic_ms(), clock()

    def row(usage: Usage, finish: Finish | None, error: str) -> CallRow:
        return CallRow(
            id=new_id(clock(), os.urandom(RANDOM_BYTES)),
            generation=generation,
            attempt=1,
            scope=scope,
            model_class=ModelClass.CHEAP,
            provider=gateway.config.models[name].provider,
            model=name,
            why="embeddings",
            started_ms=wall,
            usage=usage,
            cost_micros=price.cost(usage),
            currency=gateway.config.currency,
            latency_ms=round(monotonic_ms() - began),
            ttft_ms=0,
            finish=finish,
            error=error,
        )

    try:
        vectors, fault = await _ask(gateway, name, texts, query=request.kind == pb.EMBEDDING_KIND_QUERY)
    except asyncio.CancelledError:
        # What was sent may be billed there, and nobody says how much: the estimate is.
        used = Usage(sum(map(estimate_tokens, texts)))
        gateway.settle_later(generation, scope, [row(used, Finish.STOPPED, "The caller left.")])
        raise
    done = row(vectors.usage, None if fault else Finish.STOP, fault.message if fault else "")
    await gateway.settled(generation, scope, [done])
    if fault is not None:
        raise fault
    return pb.EmbedResponse(
        embeddings=[pb.Embedding(values=each) for each in vectors.values],
        model=name,
        width=len(vectors.values[0]),
    )


async def _ask(
    gateway: Gateway, name: str, texts: Sequence[str], *, query: bool
) -> tuple[Vectors, ProviderFault | None]:
    model = gateway.config.models[name]
    breaker = gateway.breakers[model.provider]
    try:
        if not breaker.allow():
            raise ProviderFault(Fault.UNREACHABLE, f"{model.provider} is kept out. {breaker.problem}")
        scrub = Scrubber().scrub if gateway.config.leaves_country(model.provider) else str
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            provider = await gateway.providers.get(model.provider)
            vectors = await provider.embed(model.model, [scrub(text) for text in texts], query=query)
        if len(vectors.values) != len(texts):
            raise ProviderFault(Fault.BROKEN, f"{model.provider} gave vectors for other texts.")
    except (ProviderFault, TimeoutError) as error:
        fault = (
            error
            if isinstance(error, ProviderFault)
            else ProviderFault(Fault.TIMEOUT, f"{model.provider} took too long.")
        )
        if blames_provider(fault):
            breaker.fail(fault.message, fault.retry_after_ms)
        else:
            breaker.abandon()
        return Vectors((), Usage()), fault
    except asyncio.CancelledError:
        breaker.abandon()
        raise
    breaker.succeed()
    return vectors, None


def _model(gateway: Gateway, wanted: str) -> str:
    names = [name for name, model in gateway.config.models.items() if model.embeds]
    if wanted in names or (names and not wanted):
        return wanted or names[0]
    raise NotFound(
        Reason.NOT_FOUND,
        f"There is no model {wanted} that embeds." if wanted else "No configured model embeds.",
        hint="add one with `embeds: true` to the configuration: docs/services/llm.md",
    )


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if not 0 < len(texts) <= MAX_TEXTS or not all(texts):
        what = f"1 to {MAX_TEXTS} texts, none of them empty, are embedded at once"
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"The texts can't be embedded: {what}.", fields={"texts": what}
        )
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise InvalidInput(Reason.TOO_LARGE, f"At most {MAX_CHARACTERS} characters are embedded at once.")
    return texts

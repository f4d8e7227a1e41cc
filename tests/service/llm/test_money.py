"""Limits under concurrency, settling, what is let go, and what a call costs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import asyncpg
import pytest
from indai.llm.records import Scope, SpendingLimit
from indai.llm.store import Store
from indai.protocol.errors import NotFound, Reason, Refused, Unavailable
from indai.v1 import llm_pb2 as pb

from tests.service.llm.conftest import (
    CONTEXT,
    NOW,
    SCOPE,
    Asking,
    MakeGateway,
    MakeUpstream,
    configuration,
    said,
)
from tests.service.llm.upstream import Reply, Upstream

ALICE = Scope("acme", "desk", "ind.ai/alice")
DAY = 86_400_000


def identifier(number: int) -> bytes:
    return bytes.fromhex("0194f3a1c000700080000000") + number.to_bytes(4, "big")


async def limit(store: Store, key: str, subject: str, period: str, micros: int) -> None:
    await store.set_limit(SpendingLimit("acme", key, subject, period, micros))


async def held(store: Store) -> dict[tuple[str, str], tuple[int, int]]:
    """(spent, held) by (key, period)."""
    found = await store.limits(Scope("acme"), NOW)
    return {(each.key, each.period): (each.spent_micros, each.reserved_micros) for each in found}


async def test_fifty_at_once_never_hold_more_than_the_limit(pool: asyncpg.Pool) -> None:
    store = Store(pool)
    await limit(store, "owner", "ind.ai/alice", "day", 1000)
    await limit(store, "tenant", "", "month", 100_000)

    async def reserve(number: int) -> bool:
        try:
            await store.reserve(identifier(number), ALICE, NOW, 70, 60_000)
        except Refused as full:
            refusals.add((full.reason, full.metadata["limit"]))
            return False
        return True

    refusals: set[tuple[Reason, str]] = set()
    taken = await asyncio.gather(*(reserve(number) for number in range(50)))
    assert sum(taken) == 1000 // 70
    assert refusals == {(Reason.OVER_BUDGET, "owner ind.ai/alice day")}
    # What was refused holds nothing in any limit, also where there was room.
    assert await held(store) == {("owner", "day"): (0, 980), ("tenant", "month"): (0, 980)}


async def test_fifty_generations_at_once_spend_what_their_rows_say_and_hold_nothing_after(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("openai", Reply(usage=(100, 10, 0, 0)))
    asking = await gateway(configuration(server))
    one = 100 * 3 + 10 * 15
    # Each may cost at most (1 + the prompt's estimate) * 3.75 + 64 * 15: room for some, not for all.
    await limit(asking.store, "binding", "desk", "day", 20_000)

    async def ask() -> bool:
        try:
            await asking.answer(max_output_tokens=64)
        except Refused:
            return False
        return True

    answered = sum(await asyncio.gather(*(ask() for _ in range(50))))
    rows = (await asking.service.ListCalls(pb.ListCallsRequest(scope=SCOPE, page_size=500), CONTEXT)).calls
    assert 0 < answered < 50
    assert len(rows) == answered
    assert await held(asking.store) == {("binding", "day"): (answered * one, 0)}
    assert sum(row.cost_micros for row in rows) == answered * one
    assert await asking.notices() == ["OVER_BUDGET"]


async def test_without_money_models_that_cost_nothing_still_answer(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("openai")
    asking = await gateway(configuration(server, fallback="local"))
    await limit(asking.store, "tenant", "", "credit", 0)
    _, done = await asking.answer()
    assert done.answered_by.model == "local"
    assert "tenant credit" in done.problems[0]
    assert not server.seen


@pytest.mark.parametrize(
    ("key", "subject", "scope", "stopped"),
    [
        ("tenant", "", ALICE, True),
        ("binding", "desk", ALICE, True),
        ("owner", "ind.ai/alice", ALICE, True),
        ("binding", "other", ALICE, False),
        ("owner", "ind.ai/eve", ALICE, False),
        ("tenant", "", Scope("other", "desk", "ind.ai/alice"), False),
    ],
)
async def test_a_limit_holds_for_what_it_names(
    pool: asyncpg.Pool, key: str, subject: str, scope: Scope, stopped: bool
) -> None:
    store = Store(pool)
    await limit(store, key, subject, "day", 10)
    with pytest.raises(Refused) if stopped else contextlib.nullcontext():
        await store.reserve(identifier(1), scope, NOW, 11, 60_000)


async def test_days_and_months_begin_anew_and_credit_does_not(pool: asyncpg.Pool) -> None:
    store = Store(pool)
    for period in ("day", "month", "credit"):
        await limit(store, "tenant", "", period, 100)
    long = 400 * DAY
    await store.reserve(identifier(1), ALICE, NOW, 60, long)

    async def full_limit(now_ms: int) -> str:
        with pytest.raises(Refused) as refused:
            await store.reserve(identifier(2), ALICE, now_ms, 60, long)
        return refused.value.metadata["limit"]

    later = NOW + 31 * DAY
    assert [await full_limit(at) for at in (NOW, NOW + DAY, later)] == ["tenant credit"] * 3
    await limit(store, "tenant", "", "credit", -1)
    assert [await full_limit(at) for at in (NOW, NOW + DAY)] == ["tenant day", "tenant month"]
    await store.reserve(identifier(3), ALICE, later, 60, long)


async def test_what_a_dead_process_held_is_let_go_when_it_expires(pool: asyncpg.Pool) -> None:
    store = Store(pool)
    await limit(store, "owner", "ind.ai/alice", "month", 100)
    await store.reserve(identifier(1), ALICE, NOW, 80, 1_000)
    with pytest.raises(Refused):
        await store.reserve(identifier(2), ALICE, NOW + 999, 80, 1_000)
    await store.reserve(identifier(3), ALICE, NOW + 1_001, 80, 1_000)
    assert await held(store) == {("owner", "month"): (0, 80)}
    # Its late settling lets nothing go twice.
    await store.settle(identifier(1), ALICE, NOW + 1_002, [])
    assert await held(store) == {("owner", "month"): (0, 80)}


async def test_an_interrupted_or_stopped_generation_holds_nothing(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("openai", Reply(hang_at=3))
    asking = await gateway(configuration(server))
    await limit(asking.store, "tenant", "", "day", 1_000_000)
    running = asyncio.ensure_future(asking.answer(generation_id=identifier(9)))
    await asyncio.wait_for(server.asked.wait(), 60)
    assert (await held(asking.store))["tenant", "day"][1] > 0
    stop = pb.StopGenerationRequest(scope=SCOPE, generation_id=identifier(9))
    await asking.service.StopGeneration(stop, CONTEXT)
    await running
    assert (await held(asking.store))["tenant", "day"][1] == 0


async def test_a_degraded_answer_costs_nothing_and_holds_nothing(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("anthropic", Reply(error_event="overloaded_error", text=()))
    asking = await gateway(configuration(server))
    await limit(asking.store, "tenant", "", "day", 1_000_000)
    _, done = await asking.answer()
    # Anthropic had counted input when it failed; nobody here pays for it.
    assert (done.finish, done.cost_micros) == (pb.FINISH_DEGRADED, 0)
    assert await held(asking.store) == {("tenant", "day"): (0, 0)}


async def test_a_model_that_does_not_exist_holds_nothing(gateway: MakeGateway) -> None:
    asking = await gateway(configuration(Upstream("openai", address="http://127.0.0.1:9")))
    await limit(asking.store, "tenant", "", "day", 1_000_000)
    with pytest.raises(NotFound):
        await asking.answer(model="none")
    assert await held(asking.store) == {("tenant", "day"): (0, 0)}


async def test_rows_that_cannot_be_stored_now_are_stored_later(
    gateway: MakeGateway, upstream: MakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await upstream("openai")
    asking = await gateway(configuration(server))
    settle, failures = asking.store.settle, [1]

    async def failing(*arguments: Any) -> None:
        if failures:
            failures.pop()
            raise Unavailable(Reason.DATABASE_UNAVAILABLE, "The database can't be reached.")
        await settle(*arguments)

    monkeypatch.setattr(asking.store, "settle", failing)
    text, done = await asking.answer(messages=[said("hello")])
    assert text == "Hello there"
    assert "The call could not be recorded yet; it is tried again." in done.problems
    await asking.service.close()
    assert len(await asking.rows()) == 1


async def test_embeddings_that_nobody_waits_for_any_more_are_booked_and_hold_nothing(
    gateway: MakeGateway, upstream: MakeUpstream
) -> None:
    server = await upstream("openai", Reply(hang_at=0))
    config = configuration(server).replace(
        "models:", "models:\n  e: {provider: p1, model: emb, embeds: true, input: 2}"
    )
    asking = await gateway(config)
    await limit(asking.store, "tenant", "", "day", 1_000_000)
    request = pb.EmbedRequest(scope=SCOPE, texts=["which paint lasts longest?"] * 3)
    running = asyncio.ensure_future(asking.service.Embed(request, CONTEXT))
    await asyncio.wait_for(server.asked.wait(), 60)
    assert (await held(asking.store))["tenant", "day"][1] > 0
    running.cancel()
    await asyncio.wait_for(server.aborted.wait(), 60)
    await asyncio.gather(running, return_exceptions=True)
    await asking.service.close()
    (row,) = await asking.rows()
    assert (row.finish, row.error, row.cost_micros > 0) == (pb.FINISH_STOPPED, "The caller left.", True)
    assert await held(asking.store) == {("tenant", "day"): (row.cost_micros, 0)}


async def test_what_was_stored_though_the_answer_was_lost_is_booked_once(
    gateway: MakeGateway, upstream: MakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = await gateway(configuration(await upstream("openai")))
    await limit(asking.store, "tenant", "", "day", 1_000_000)
    settle, lost = asking.store.settle, [1]

    async def losing(*arguments: Any) -> None:
        await settle(*arguments)
        if lost:
            lost.pop()
            raise Unavailable(Reason.DATABASE_UNAVAILABLE, "The connection was lost.")

    monkeypatch.setattr(asking.store, "settle", losing)
    _, done = await asking.answer()
    await asking.service.close()
    assert len(await asking.rows()) == 1
    assert await held(asking.store) == {("tenant", "day"): (done.cost_micros, 0)}


async def test_rows_of_one_tenant_are_invisible_to_another_session(
    gateway: MakeGateway, pool: asyncpg.Pool, upstream: MakeUpstream
) -> None:
    server = await upstream("openai", Reply(status=401))
    asking: Asking = await gateway(configuration(server))
    await limit(asking.store, "tenant", "", "day", 1_000_000)
    await asking.answer()
    await asking.store.reserve(identifier(7), ALICE, NOW, 5, 60_000)
    tables = ("calls", "limits", "accounts", "reservations", "notices")
    async with pool.acquire() as connection, connection.transaction():
        for tenant, seen in (("other", False), ("acme", True)):
            await connection.execute("SELECT llm.act_for($1)", tenant)
            for table in tables:
                count = await connection.fetchval(f"SELECT count(*) FROM llm.{table}")  # noqa: S608
                assert bool(count) is seen, (tenant, table)
        await connection.execute("SELECT set_config('indai.owners', 'ind.ai/eve', true)")
        for table in tables:
            assert not await connection.fetchval(f"SELECT count(*) FROM llm.{table}"), table  # noqa: S608
    async with pool.acquire() as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("UPDATE llm.calls SET cost_micros = 0")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("DELETE FROM llm.calls")

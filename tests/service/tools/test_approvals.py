"""The owner's word: for exactly what was shown, once, in time, and whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from indai.protocol.errors import IndaiError, Refused
from indai.storage.pool import transaction
from indai.tools.approvals import LETTERS, LIFETIME_MS, Approvals, is_code
from indai.tools.toolbox import why_ask
from indai.tools.values import Act, Effect, Status, Touch

from tests.service.tools.conftest import ACT, ALICE, KEYS, OWNER, SEALER, Bench, Made, call, closed, tool

ASKS = replace(ALICE, approvals=frozenset({"pay"}))


def paying() -> Made:
    rupees = {"type": "integer", "x-format": "money_minor", "x-label": "Amount"}
    return tool("pay", effect=ACT, arguments=closed(amount=rupees))


async def test_nothing_happens_before_the_owners_word_and_then_exactly_what_was_shown(bench: Bench) -> None:
    made = paying()
    box = bench.box(made)
    asked = await call(box, "pay", {"amount": 200_000}, ASKS)
    assert asked.status is Status.NEEDS_APPROVAL
    assert asked.approval is not None
    assert "Amount: ₹2,000.00" in asked.approval.terms
    assert asked.words.endswith(f"Answer “yes {asked.approval.code}” or “no {asked.approval.code}”.")
    assert not made.calls
    outcome = await box.answer(
        replace(ALICE, turn="t9", session="s9"), asked.approval.code.upper(), approve=True
    )
    assert outcome.status is Status.DONE
    assert [(caller.turn, arguments) for caller, arguments in made.calls] == [("t1", {"amount": 200_000})]


async def test_a_word_is_used_once(bench: Bench) -> None:
    made = paying()
    box = bench.box(made)
    code = _code(await call(box, "pay", {"amount": 1}, ASKS))
    answers = await asyncio.gather(*(box.answer(ALICE, code, approve=True) for _ in range(4)))
    assert sorted(each.status.value for each in answers) == ["done", "failed", "failed", "failed"]
    assert len(made.calls) == 1


async def test_a_no_is_a_no(bench: Bench) -> None:
    made = paying()
    box = bench.box(made)
    code = _code(await call(box, "pay", {"amount": 1}, ASKS))
    assert (await box.answer(ALICE, code, approve=False)).code == "DECLINED"
    assert (await box.answer(ALICE, code, approve=True)).code == "NOT_FOUND"
    assert not made.calls


async def test_a_question_expires(bench: Bench) -> None:
    made = paying()
    box = bench.box(made)
    code = _code(await call(box, "pay", {"amount": 1}, ASKS))
    bench.now_ms += LIFETIME_MS
    assert (await box.answer(ALICE, code, approve=True)).code == "NOT_FOUND"
    assert not made.calls


async def test_only_the_owner_at_their_own_door_can_answer(bench: Bench) -> None:
    made = paying()
    box = bench.box(made)
    code = _code(await call(box, "pay", {"amount": 1}, ASKS))
    strangers = [
        replace(ALICE, door="public"),
        replace(ALICE, verified=False),
        replace(ALICE, person="ind.ai/eve"),
    ]
    for stranger in strangers:
        assert (await box.answer(stranger, code, approve=True)).code == "NOT_ALLOWED"
    eve = replace(ALICE, owner="ind.ai/eve", person="ind.ai/eve")
    assert (await box.answer(eve, code, approve=True)).code == "NOT_FOUND"
    assert not made.calls


async def test_the_same_act_is_asked_once_and_another_again(bench: Bench) -> None:
    box = bench.box(paying())
    one, same, other = [await call(box, "pay", {"amount": n}, ASKS) for n in (1, 1, 2)]
    assert _code(one) == _code(same)
    assert _code(one) != _code(other)
    waiting = await Approvals(bench.pool).waiting(OWNER, bench.now_ms)
    assert {each.approval.code for each in waiting} == {_code(one), _code(other)}


async def test_two_asking_at_once_are_told_one_code_that_works(bench: Bench) -> None:
    made = paying()
    box = bench.box(made)
    both = await asyncio.gather(*(call(box, "pay", {"amount": 1}, ASKS) for _ in range(2)))
    assert len({_code(each) for each in both}) == 1
    assert (await box.answer(ALICE, _code(both[0]), approve=True)).status is Status.DONE


async def test_a_row_that_was_changed_runs_nothing(bench: Bench) -> None:
    made = paying()
    box = bench.box(made)
    code = _code(await call(box, "pay", {"amount": 1}, ASKS))
    async with bench.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', $1, true)", OWNER)
        await connection.execute("""UPDATE tools.approvals SET arguments = '{"amount": 900}'""")
    assert (await box.answer(ALICE, code, approve=True)).code == "CHANGED"
    assert not made.calls


SECRETS = closed(
    pin={"type": "string", "x-secret": True},
    account={"type": "string", "x-unkept": True},
    amount={"type": "integer"},
)
GIVEN = {"pin": "s3cr3t-pin", "account": "s3cr3t-account", "amount": 7}


async def stored(bench: Bench, table: str = "approvals") -> str:
    async with transaction(bench.pool, [OWNER]) as connection:
        return str(await connection.fetchval(f"SELECT json_agg(t) FROM tools.{table} t"))  # noqa: S608


@pytest.mark.parametrize("approve", [True, False])
async def test_secrets_wait_sealed_for_the_owners_word_and_not_a_moment_longer(
    bench: Bench, approve: bool
) -> None:
    made = tool(
        "unlock",
        lambda arguments: {"key": "s3cr3t-key", "for": arguments["amount"]},
        effect=Effect.IRREVERSIBLE,
        arguments=SECRETS,
        result=closed(key={"type": "string", "x-secret": True}, **{"for": {"type": "integer"}}),
    )
    box = bench.box(made)
    asked = await call(box, "unlock", GIVEN)
    assert asked.approval is not None
    assert "s3cr3t-account" in asked.approval.terms  # the owner reads what will run
    waits = await stored(bench)
    assert "s3cr3t" not in waits
    assert '"sealed":null' not in waits
    (listed,) = await Approvals(bench.pool, SEALER).waiting(OWNER, bench.now_ms)
    assert (listed.arguments, listed.approval.terms) == (GIVEN, asked.approval.terms)
    done = await box.answer(ALICE, _code(asked), approve=approve)
    assert [arguments for _, arguments in made.calls] == ([GIVEN] if approve else [])
    assert (done.result.get("key") == "s3cr3t-key") is approve
    ended = await stored(bench)
    assert '"sealed":null' in ended
    assert "s3cr3t" not in ended + await stored(bench, "tool_calls")


async def test_what_expires_is_forgotten_and_another_row_or_key_opens_nothing(bench: Bench) -> None:
    made = tool("unlock", effect=Effect.IRREVERSIBLE, arguments=SECRETS)
    box = bench.box(made)
    first = await call(box, "unlock", GIVEN)
    second = await call(box, "unlock", GIVEN | {"amount": 8})
    async with transaction(bench.pool, [OWNER]) as connection:
        row = await connection.fetchrow(
            "SELECT id, sealed FROM tools.approvals WHERE code = $1", _code(first)
        )
        with pytest.raises(IndaiError):
            KEYS.unseal(row["sealed"], f"tools jobs {row['id']}")
        await connection.execute(
            "UPDATE tools.approvals SET sealed = $2 WHERE code = $1", _code(second), row["sealed"]
        )
    assert (await box.answer(ALICE, _code(second), approve=True)).code == "NODE_KEY"
    assert not made.calls
    asked = (await call(box, "unlock", GIVEN | {"amount": 9})).approval
    assert asked is not None
    bench.now_ms += LIFETIME_MS
    waiting = Approvals(bench.pool, SEALER)
    async with transaction(bench.pool, [OWNER]) as connection:
        id = await connection.fetchval("SELECT id FROM tools.approvals WHERE code = $1", asked.code)
    expired = await waiting.expire(OWNER, id, bench.now_ms)
    assert expired is not None
    assert "s3cr3t" not in json.dumps(dict(expired.arguments))
    with pytest.raises(Refused):  # a box without a key keeps no secret question at all
        await Approvals(bench.pool).ask(
            ALICE, "unlock", Act(GIVEN, "t"), b"d" * 32, "why", bench.now_ms, shown=Act({}, "")
        )


async def test_an_organisations_own_door_has_nobody_to_ask(bench: Bench) -> None:
    made = tool("pay", effect=Effect.IRREVERSIBLE, doors=frozenset({"distribution"}))
    nobody = replace(ALICE, owner="", door="distribution", person="visitor")
    assert (await call(bench.box(made), "pay", {}, nobody)).code == "NEEDS_OWNER"
    assert not made.calls


async def test_a_flood_of_questions_is_stopped(bench: Bench, monkeypatch: Any) -> None:
    monkeypatch.setattr("indai.tools.approvals.MAX_PENDING", 2)
    box = bench.box(paying())
    codes = [(await call(box, "pay", {"amount": n}, ASKS)).code for n in range(3)]
    assert codes == ["NEEDS_APPROVAL", "NEEDS_APPROVAL", "RATE_LIMITED"]


def test_why_the_owner_is_asked() -> None:
    read, act = tool("read").spec, tool("act", effect=ACT).spec
    outside = frozenset({Touch.OUTSIDE})
    sends, looks = replace(act, touches=outside), replace(read, touches=outside)
    supervised = replace(ALICE, autonomy="supervised")
    assert not why_ask(sends, ALICE)
    assert why_ask(sends, supervised)
    assert not why_ask(act, supervised)
    assert not why_ask(looks, supervised)
    assert why_ask(replace(act, effect=Effect.IRREVERSIBLE), ALICE)
    two = replace(ALICE, context=frozenset({Touch.UNTRUSTED, Touch.PRIVATE}))
    assert not why_ask(read, two)
    assert why_ask(looks, two)
    assert not why_ask(looks, replace(two, context=frozenset({Touch.PRIVATE})))


async def test_an_agent_that_only_drafts_sends_nothing(bench: Bench) -> None:
    send = tool("send", effect=ACT, touches=frozenset({Touch.OUTSIDE}))
    box = bench.box(send, tool("write", effect=ACT))
    drafts = replace(ALICE, autonomy="draft")
    assert (await call(box, "send", {}, drafts)).code == "DRAFT_ONLY"
    assert not send.calls
    assert (await call(box, "write", {}, drafts)).status is Status.DONE


async def test_a_visitors_wish_is_told_to_the_owner_and_the_code_to_nobody_else(bench: Bench) -> None:
    told: list[tuple[str, str]] = []

    async def tell(owner: str, words: str, key: str) -> bool:
        told.append((owner, words))
        return True

    box = bench.box(tool("gift", effect=Effect.IRREVERSIBLE), tell_owner=tell)
    visitor = replace(ALICE, door="public", person="visitor", verified=False)
    for _ in range(2):
        outcome = await call(box, "gift", {"x": 1}, visitor)
        assert (outcome.status, outcome.approval) == (Status.NEEDS_APPROVAL, None)
    (asked,) = await Approvals(bench.pool).waiting(OWNER, bench.now_ms)
    ((owner, words),) = told
    assert owner == OWNER
    assert asked.approval.code in words
    assert asked.approval.code not in str(outcome)
    assert (await box.answer(visitor, asked.approval.code, approve=True)).code == "NOT_ALLOWED"
    assert (await box.answer(ALICE, asked.approval.code, approve=True)).status is Status.DONE


def test_a_code_is_never_taken_for_a_negotiations() -> None:
    assert not set(LETTERS) & set("0123456789abcdefilo")
    assert is_code("GHJK-mnpq")
    assert not is_code("0123abcd")


def _code(outcome: Any) -> str:
    code: str = outcome.approval.code
    return code

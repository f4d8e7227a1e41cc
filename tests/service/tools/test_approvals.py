"""The owner's word: for exactly what was shown, once, in time, and whatever dies meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from indai.tools.approvals import LETTERS, LIFETIME_MS, Approvals, is_code
from indai.tools.toolbox import why_ask
from indai.tools.values import Effect, Status, Touch

from tests.service.tools.conftest import ACT, ALICE, OWNER, Bench, Made, call, closed, tool

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

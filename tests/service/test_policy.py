"""The policy service over a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from indai.client.decisions import Layer, Outcome, evaluate, policy_hash
from indai.policy.cedar import SCHEMA
from indai.policy.servicer import PolicyService
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import policy_pb2 as pb

ALICE, BOB = "ind.ai/alice", "ind.ai/bob"
HOUR, DAY = 3_600_000, 86_400_000
MONDAY_TEN = 1_795_408_200_000  # Monday 23 November 2026, 10:00 in Kolkata
NOW = MONDAY_TEN - 2 * DAY
RULES = """\
version: 1
timezone: Asia/Kolkata
circles:
  friends: [ind.ai/bob]
rules:
  - id: short-meetings
    allow: meet
    with: friends
    duration: { max: 30m }
    hours: 10:00-18:00
    weekdays: mon-fri
    buffer: 10m
  - id: weekend
    ask: meet
    with: friends
    weekdays: sat-sun
"""
OUTCOMES = {pb.OUTCOME_PERMIT: Outcome.PERMIT, pb.OUTCOME_REFUSE: Outcome.REFUSE, pb.OUTCOME_ASK: Outcome.ASK}
CONTEXT: Any = None  # no method looks at it


@pytest.fixture
def service(database: Any) -> PolicyService:
    return PolicyService(database.pool, lambda: NOW)


async def activate(service: PolicyService, owner: str = ALICE, yaml: str = RULES) -> pb.SetPolicyResponse:
    return await service.SetPolicy(pb.SetPolicyRequest(owner=owner, yaml=yaml), CONTEXT)


def meeting(start_ms: int, minutes: int, peer: str = BOB) -> pb.Facts:
    return pb.Facts(
        meet=pb.MeetFacts(start_ms=start_ms, end_ms=start_ms + minutes * 60_000),
        peer=peer,
        verified=True,
        now_ms=NOW,
        channel="agent",
    )


async def decide(service: PolicyService, *facts: pb.Facts, owner: str = ALICE) -> list[pb.Decision]:
    answer = await service.Decide(pb.DecideRequest(owner=owner, facts=facts), CONTEXT)
    return list(answer.decisions)


def layers_of(version: pb.PolicyVersion) -> list[Layer]:
    return [Layer(one.name, one.grant, one.ask, OUTCOMES[one.unmatched]) for one in version.layers]


async def test_decisions_come_in_order_with_rules_obligations_and_words(service: PolicyService) -> None:
    await activate(service)
    permitted, refused, asked = await decide(
        service, meeting(MONDAY_TEN, 30), meeting(MONDAY_TEN, 45), meeting(MONDAY_TEN + 5 * DAY, 45)
    )
    assert permitted.outcome == pb.OUTCOME_PERMIT
    assert list(permitted.rules) == ["platform/possible-meetings", "owner/short-meetings"]
    assert list(permitted.obligations) == ["buffer:10m"]
    assert refused.outcome == pb.OUTCOME_REFUSE
    assert "'short-meetings', wants meetings of up to 30 min" in refused.words
    assert (asked.outcome, list(asked.rules)) == (pb.OUTCOME_ASK, ["owner/weekend"])


async def test_a_decision_replays_from_the_stored_version_and_the_record_alone(
    service: PolicyService,
) -> None:
    await activate(service)
    for decision in await decide(service, meeting(MONDAY_TEN, 30), meeting(MONDAY_TEN, 31)):
        asked = pb.GetPolicyRequest(owner=ALICE, policy_hash=decision.policy_hash)
        version = (await service.GetPolicy(asked, CONTEXT)).version
        layers = layers_of(version)
        assert policy_hash(layers, version.schema, version.time_zone, version.yaml) == decision.policy_hash
        replayed = evaluate(layers, version.schema, decision.request_json, decision.entities_json)
        assert replayed.outcome is OUTCOMES[decision.outcome]
        assert list(replayed.rules) == list(decision.rules)
        assert list(replayed.obligations) == list(decision.obligations)


async def test_the_same_text_again_changes_nothing_and_old_versions_stay(service: PolicyService) -> None:
    first, again = await activate(service), await activate(service)
    assert (first.changed, again.changed) == (True, False)
    assert first.version == again.version
    assert first.version.activated_at_ms == NOW
    second = await activate(service, yaml=RULES + "    notice: { min: 1h }\n")
    assert second.changed
    active = await service.GetPolicy(pb.GetPolicyRequest(owner=ALICE), CONTEXT)
    assert active.version == second.version
    asked = pb.GetPolicyRequest(owner=ALICE, policy_hash=first.version.policy_hash)
    old = (await service.GetPolicy(asked, CONTEXT)).version
    assert (old.yaml, old.activated_at_ms) == (RULES, 0)


async def test_two_who_activate_at_once_agree_on_who_changed_it(service: PolicyService) -> None:
    answers = await asyncio.gather(*(activate(service) for _ in range(4)))
    assert sorted(answer.changed for answer in answers) == [False, False, False, True]


async def test_a_new_version_decides_at_once_on_every_replica(database: Any) -> None:
    one, other = (PolicyService(database.pool, lambda: NOW) for _ in range(2))
    await activate(one)
    assert (await decide(other, meeting(MONDAY_TEN, 45)))[0].outcome == pb.OUTCOME_REFUSE
    await activate(one, yaml=RULES.replace("30m", "1h"))
    assert (await decide(other, meeting(MONDAY_TEN, 45)))[0].outcome == pb.OUTCOME_PERMIT


async def test_one_owners_rules_never_decide_for_another(service: PolicyService) -> None:
    await activate(service)
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: decide(service, meeting(MONDAY_TEN, 30), owner="ind.ai/eve"),
        lambda: service.GetPolicy(pb.GetPolicyRequest(owner="ind.ai/eve"), CONTEXT),
        lambda: service.GetPolicy(pb.GetPolicyRequest(owner=ALICE, policy_hash=b"x" * 32), CONTEXT),
    ]
    for call in calls:
        with pytest.raises(NotFound) as raised:
            await call()
        assert raised.value.reason is Reason.NOT_FOUND


async def test_rows_are_invisible_to_a_session_that_names_no_owner(
    service: PolicyService, database: Any
) -> None:
    await activate(service)
    async with database.pool.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM policy.version") == 0
        assert await connection.fetchval("SELECT count(*) FROM policy.active") == 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("UPDATE policy.version SET source = ''")


async def test_a_faulty_policy_is_not_stored_and_all_problems_are_told(service: PolicyService) -> None:
    await activate(service)
    faulty = RULES.replace("friends\n    dur", "freinds\n    dur").replace("10:00-18:00", "18:00-10:00")
    with pytest.raises(InvalidInput) as raised:
        await activate(service, yaml=faulty)
    assert set(raised.value.fields) == {"rules[1].with", "rules[1].hours"}
    checked = await service.CheckPolicy(pb.CheckPolicyRequest(yaml=faulty), CONTEXT)
    assert {problem.field for problem in checked.problems} == set(raised.value.fields)
    assert not checked.rules
    assert (await decide(service, meeting(MONDAY_TEN, 30)))[0].outcome == pb.OUTCOME_PERMIT


async def test_a_check_says_the_rules_in_words_and_stores_nothing(service: PolicyService) -> None:
    checked = await service.CheckPolicy(pb.CheckPolicyRequest(yaml=RULES), CONTEXT)
    assert checked.rules[0] == (
        "short-meetings: Allow meetings of up to 30 min with friends, Mon to Fri 10:00-18:00, "
        "with 10m free around"
    )
    with pytest.raises(NotFound):
        await service.GetPolicy(pb.GetPolicyRequest(owner=ALICE), CONTEXT)


async def test_a_cached_policy_and_a_fresh_one_decide_alike_after_an_upgrade(
    service: PolicyService, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (await activate(service)).version.policy_hash
    monkeypatch.setattr("indai.policy.compiled.SCHEMA", SCHEMA + "// a later release\n")
    upgraded = PolicyService(database.pool, lambda: NOW)
    (decision,) = await decide(upgraded, meeting(MONDAY_TEN, 30))
    assert decision.outcome == pb.OUTCOME_PERMIT
    assert decision.policy_hash != before
    active = await upgraded.GetPolicy(pb.GetPolicyRequest(owner=ALICE), CONTEXT)
    assert active.version.policy_hash == decision.policy_hash


async def test_windows_hold_the_slots_that_are_allowed(service: PolicyService) -> None:
    await activate(service)
    answer = await service.ListAllowedWindows(
        pb.ListAllowedWindowsRequest(
            owner=ALICE,
            peer=BOB,
            duration_minutes=30,
            start_ms=MONDAY_TEN,
            end_ms=MONDAY_TEN + 5 * DAY,
            now_ms=NOW,
        ),
        CONTEXT,
    )
    spans = [(window.start_ms, window.end_ms, window.outcome) for window in answer.windows]
    assert spans[0] == (MONDAY_TEN, MONDAY_TEN + 8 * HOUR, pb.OUTCOME_PERMIT)
    assert len(spans) == 6
    # On Friday night it is asked from the first slot on that touches Saturday.
    assert spans[-1][0] == MONDAY_TEN + 4 * DAY + 14 * HOUR - 30 * 60_000 + 1
    assert spans[-1][2] == pb.OUTCOME_ASK


@pytest.mark.parametrize(
    "facts",
    [
        pb.Facts(peer=BOB),
        meeting(MONDAY_TEN, 30, peer="bob"),
        meeting(-HOUR, 30),
        meeting(MONDAY_TEN, 60 * 24 * 40),
        meeting(2**62, 30),
    ],
)
async def test_facts_that_make_no_sense_are_the_callers_mistake(
    service: PolicyService, facts: pb.Facts
) -> None:
    await activate(service)
    with pytest.raises(InvalidInput) as raised:
        await decide(service, facts)
    assert raised.value.fields


async def test_more_facts_than_a_call_takes_are_refused(service: PolicyService) -> None:
    await activate(service)
    assert len(await decide(service, *[meeting(MONDAY_TEN, 30)] * 64)) == 64
    with pytest.raises(InvalidInput) as raised:
        await decide(service, *[meeting(MONDAY_TEN, 30)] * 65)
    assert raised.value.reason is Reason.TOO_LARGE

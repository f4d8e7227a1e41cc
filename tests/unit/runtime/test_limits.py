"""How much one person may ask, one agent answer, and who is not counted."""

from __future__ import annotations

from uuid import UUID

import pytest
from indai.protocol.errors import Reason, Refused
from indai.runtime.conversations.limits import AGENT, HOUR_MS, MINUTE_MS, PERSON, Limits
from indai.runtime.conversations.values import Place

ALICE = Place("ind.ai/alice", "personal", "sahayak-public", "ind.ai/alice", "public")
OWN = Place("ind.ai/alice", "personal", "sahayak-personal", "ind.ai/alice", "private")
BOB = Place("ind.ai/bob", "personal", "sahayak-public", "ind.ai/bob", "public")


def person(number: int) -> UUID:
    return UUID(int=number)


def admitted(limits: Limits, who: int, place: Place, now_ms: int) -> bool:
    try:
        limits.take(person(who), place, now_ms)
    except Refused as refused:
        return refused.reason is not Reason.RATE_LIMITED
    return True


def test_one_person_may_ask_so_much_of_one_agent_and_nobody_else_pays_for_it() -> None:
    limits = Limits()
    minute, hour = PERSON
    assert sum(admitted(limits, 1, ALICE, 0) for _ in range(minute.most + 5)) == minute.most
    assert admitted(limits, 2, ALICE, 0)
    assert admitted(limits, 1, BOB, 0)
    assert admitted(limits, 1, ALICE, MINUTE_MS)
    asked = minute.most + 1
    while admitted(limits, 1, ALICE, asked * 2_000 + MINUTE_MS):
        asked += 1
    assert asked == hour.most
    assert admitted(limits, 1, ALICE, 2 * HOUR_MS)


def test_many_persons_together_are_held_at_the_agent_and_its_owner_gets_through() -> None:
    limits = Limits()
    assert sum(admitted(limits, each, ALICE, 0) for each in range(AGENT.most + 5)) == AGENT.most
    assert admitted(limits, 9_999, BOB, 0)
    assert all(admitted(limits, 1, OWN, 0) for _ in range(1_000))


def test_what_is_refused_does_not_count() -> None:
    limits = Limits()
    for _ in range(PERSON[0].most):
        limits.take(person(1), ALICE, 0)
    for _ in range(100):
        with pytest.raises(Refused):
            limits.take(person(1), ALICE, MINUTE_MS - 1)
    assert admitted(limits, 1, ALICE, MINUTE_MS)

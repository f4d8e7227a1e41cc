"""A sub-agent's signature counts while every delegation above it did, as far as its peers could know."""

from __future__ import annotations

import pytest
from indai.client.audit.registry import MAX_HEAD_AGE_MS, KeyHistory
from indai.client.handlekeys import claim, delegate, end_delegation, new_agent_key
from indai.protocol.handlestate import Delegation
from indai.protocol.keys import SigningKey

NOW = 1_790_000_000_000
HOUR = 3_600_000
ROOT, AGENT = SigningKey.from_seed(b"r" * 32), SigningKey.from_seed(b"a" * 32)
SUB = "ind.ai/alice/work"


@pytest.mark.rule("REG-37")
def test_a_sub_agent_is_judged_by_what_was_delegated_then() -> None:
    history = KeyHistory("network")
    keys = [new_agent_key(AGENT.public_key, NOW)]
    alice = history.add(claim("ind.ai/alice", "ind.ai/registry", [ROOT], now_ms=NOW).raw, NOW)
    work = history.add(claim(SUB, "ind.ai/registry", [ROOT], now_ms=NOW, agent_keys=keys).raw, NOW)

    def judged(at_ms: int, scope: str = "meet") -> tuple[bool, bool]:
        judgement = history.judge(SUB, work.subject_id, AGENT.key_id, at_ms, scope)
        return bool(judgement.fault), judgement.contested

    assert judged(NOW) == (True, False)
    given = Delegation(SUB, work.subject_id, ("meet",), NOW, NOW + 100 * HOUR)
    alice = history.add(delegate(alice, ROOT, given, now_ms=NOW + HOUR).raw, NOW + HOUR)
    assert judged(NOW + 2 * HOUR) == (False, False)
    assert judged(NOW + 2 * HOUR, "pay") == (True, False)
    end = NOW + 3 * HOUR
    history.add(end_delegation(alice, ROOT, SUB, now_ms=end).raw, end)
    assert judged(NOW + 2 * HOUR) == (False, False)
    assert judged(end + 60_000) == (True, True)
    assert judged(end + MAX_HEAD_AGE_MS + HOUR) == (True, False)

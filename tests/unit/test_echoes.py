"""Programs that begin something whenever something is begun with them, and say nothing of it: it ends."""

from __future__ import annotations

import pytest
from indai.node.echoes import MOST, NEAR_MS, QUIET_MS, Echoes
from indai.protocol.errors import Reason, Refused

NOW = 1_800_000_000_000


def rounds(ring: int, pause_ms: int, limit: int = 1_000) -> int:
    """How many threads are begun round a ring of so many agents, each on a node of its own."""
    nodes, now_ms = [Echoes() for _ in range(ring)], NOW
    for begun in range(limit):
        one, next_one = begun % ring, (begun + 1) % ring
        try:
            nodes[one].begin(f"ind.ai/a{one}", [f"ind.ai/a{next_one}"], now_ms)
        except Refused:
            return begun
        nodes[next_one].hear(f"ind.ai/a{next_one}", f"ind.ai/a{one}", now_ms)
        now_ms += pause_ms
    return limit


@pytest.mark.parametrize("ring", [2, 3, 5])
@pytest.mark.parametrize("pause_ms", [1, 60_000, NEAR_MS])
def test_a_ring_of_any_size_ends(ring: int, pause_ms: int) -> None:
    assert rounds(ring, pause_ms) == MOST * ring + 1


def test_who_tries_again_is_refused_again_until_it_was_quiet() -> None:
    echoes, now_ms = Echoes(), NOW
    for _ in range(MOST):
        echoes.hear("ind.ai/a", "ind.ai/b", now_ms)
        echoes.begin("ind.ai/a", ["ind.ai/b"], now_ms)
    for later in (0, 1, QUIET_MS):
        now_ms += later
        echoes.hear("ind.ai/a", "ind.ai/b", now_ms)
        with pytest.raises(Refused, check=lambda error: error.reason is Reason.TOO_MANY_HOPS):
            echoes.begin("ind.ai/a", ["ind.ai/c", "ind.ai/b"], now_ms)
    now_ms += QUIET_MS + 1
    echoes.hear("ind.ai/a", "ind.ai/b", now_ms)
    echoes.begin("ind.ai/a", ["ind.ai/b"], now_ms)


def test_what_follows_on_nothing_is_nobodys_echo() -> None:
    echoes = Echoes()
    for number in range(3 * MOST):  # the owner's own wishes, and one for each of many others'
        echoes.begin("ind.ai/a", ["ind.ai/b"], NOW)
        echoes.hear("ind.ai/a", f"ind.ai/c{number}", NOW)
        echoes.begin("ind.ai/a", ["ind.ai/b"], NOW)
        echoes.hear("ind.ai/a", "ind.ai/b", NOW)
        echoes.begin("ind.ai/a", [f"ind.ai/c{number}"], NOW)
        echoes.hear("ind.ai/a", "ind.ai/b", NOW)
        echoes.begin("ind.ai/a", ["ind.ai/b"], NOW + NEAR_MS + 1)

"""Programs that begin something whenever something is begun with them, and say nothing of it: it ends."""

from __future__ import annotations

import pytest
from indai.node.echoes import MOST, NEAR_MS, QUIET_MS, SLACK, Echoes
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


@pytest.mark.parametrize("tokens", [2, SLACK])
def test_several_that_run_round_at_once_end_too(tokens: int) -> None:
    a, b, now_ms = Echoes(), Echoes(), NOW
    under_way, begun = tokens, 0
    while under_way and begun < 10_000:
        survived = 0
        for _ in range(under_way):
            b.hear("ind.ai/b", "ind.ai/a", now_ms)
        for one, name, other in ((b, "ind.ai/b", "ind.ai/a"), (a, "ind.ai/a", "ind.ai/b")):
            survived = 0
            for _ in range(under_way):
                if one is a:
                    a.hear(name, other, now_ms)
                try:
                    one.begin(name, [other], now_ms)
                except Refused:
                    continue
                survived += 1
            under_way, begun, now_ms = survived, begun + survived, now_ms + 1_000
    assert not under_way
    assert begun <= 4 * MOST * tokens


def test_who_tries_again_is_refused_again_until_it_was_quiet() -> None:
    echoes, now_ms = Echoes(), NOW
    for _ in range(MOST):
        echoes.hear("ind.ai/a", "ind.ai/b", now_ms)
        echoes.begin("ind.ai/a", ["ind.ai/b"], now_ms)
    echoes.hear("ind.ai/a", "ind.ai/b", now_ms)
    for later in (0, 1, NEAR_MS):
        with pytest.raises(Refused, check=lambda error: error.reason is Reason.TOO_MANY_HOPS):
            echoes.begin("ind.ai/a", ["ind.ai/c", "ind.ai/b"], now_ms + later)
    echoes.hear("ind.ai/a", "ind.ai/b", now_ms + QUIET_MS)
    with pytest.raises(Refused):
        echoes.begin("ind.ai/a", ["ind.ai/b"], now_ms + QUIET_MS)
    echoes.begin("ind.ai/a", ["ind.ai/b"], now_ms + QUIET_MS + 1)


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


@pytest.mark.parametrize(("they_s", "we_s"), [(60, 10), (2, 10), (10, 13), (13, 10)])
def test_nobody_stops_an_owners_own_work_by_beginning_things_with_them(they_s: int, we_s: int) -> None:
    echoes = Echoes()
    for second in range(40_000):
        if second % they_s == 0:
            echoes.hear("ind.ai/a", "ind.ai/eve", NOW + second * 1_000)
        if second % we_s == 0:
            echoes.begin("ind.ai/a", ["ind.ai/b"], NOW + second * 1_000)

"""The benchmark runs; what it measures on a busy machine means nothing, so no figure is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import intents, kinds, registry
from bench.deals import Owners
from bench.loads import quantile
from bench.parts import per_deal_ms, signatures
from bench.report import render
from bench.system import system

pytestmark = pytest.mark.system


async def test_owners_in_two_processes_settle_every_deal(server_home: Path) -> None:
    async with system(server_home, pairs=3, policy=intents.POLICY) as running:
        owners = Owners(running.processes["A"].addresses["owner"], running.pairs)
        await running.ask("sample")
        load = await owners.run(running, 2, 4)
        samples = await running.ask("report")
        sizes = await owners.sizes()
        await owners.close()
        each = await kinds.rounds(running, 3)
    assert [name for name, _ in each] == [*intents.KINDS, "five"]
    assert len(load.latencies_ms) == 4
    assert set(samples) == {"registry", "A", "B"}
    assert len(sizes) == 4


async def test_the_registry_is_measured(server_home: Path) -> None:
    found = await registry.measure(server_home, claims=4, handles=300, calls=4)
    assert set(found["loads"]) == {
        "registrations",
        "resolve, cold and verified",
        "resolve, warm",
        "serve from memory",
    }
    assert all(len(line) <= 80 for line in registry.render(found).splitlines())


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile([1.0], 0.99) == 1.0


def test_the_report_fits_a_terminal() -> None:
    row = {
        "concurrency": 64,
        "per_second": 123.4,
        "p50_ms": 500.0,
        "p99_ms": 900.0,
        "cpu_ms": {"A": 9.0},
        "elsewhere": 0.1,
    }
    parts = signatures(2) | {"decide_us": 1.0, "windows_us": 1.0, "commit_1_us": 1.0, "commit_64_us": 1.0}
    found = {
        "deals": [row],
        "echo": [row],
        "a2a": [row],
        "parts": {"per_deal_ms": per_deal_ms(parts)},
        "appends": [
            {"what": "leaves", "batch": 64, "ours_per_second": 1, "bare_per_second": 1, "ratio": 1.0}
        ],
        "account": {"node A": {"policy": 1.0}},
    }
    assert all(len(line) <= 80 for line in render(found).splitlines())

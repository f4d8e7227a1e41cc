"""The last table, and the one object of `--json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from indai.cli.demo.world import World
from indai.cli.output import Page
from indai.client.audit import Report


def to_json(world: World, report: Report) -> dict[str, Any]:
    """Threads with their outcome, commitments, milliseconds, verdict."""
    return {
        "threads": [
            {
                "title": deal.title,
                "thread": deal.thread,
                "outcome": deal.outcome,
                "commitment": deal.commitment if deal.outcome == "COMMITTED" else "",
                "milliseconds": round(deal.ms, 1),
                "interrupted": deal.interrupted,
            }
            for deal in world.deals
        ],
        "commitments": sum(deal.outcome == "COMMITTED" for deal in world.deals),
        "milliseconds": {"p50": percentile(_quiet(world), 50), "p95": percentile(_quiet(world), 95)},
        "audit": {
            "verdict": "VALID" if report.exit_status == 0 else report.severity.name,
            "verdicts": report.verdicts,
            "findings": len(report.findings),
        },
    }


def show(page: Page, world: World, report: Report) -> None:
    """The same for a person."""
    value = to_json(world, report)
    page.line()
    rows = [
        (
            deal.title,
            deal.outcome.lower(),
            f"{deal.ms:,.0f} ms" + (" (B killed)" if deal.interrupted else ""),
            deal.commitment[:12] if deal.outcome == "COMMITTED" else "",
        )
        for deal in world.deals
    ]
    page.table(("negotiation", "outcome", "agents' time", "commitment"), rows, {"committed": "green"})
    page.line()
    spent = value["milliseconds"]
    page.fields(
        [
            ("commitments", str(value["commitments"])),
            ("undisturbed", f"p50 {spent['p50']:.0f} ms, p95 {spent['p95']:.0f} ms"),
            ("audit", value["audit"]["verdict"]),
            ("checks", f"{world.stage.checks} held, in {world.stage.seconds:.0f} s"),
        ]
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile; 0 of nothing."""
    ranked = sorted(values)
    return round(ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)], 1) if ranked else 0.0


def _quiet(world: World) -> list[float]:
    """Times of the negotiations in which nobody was killed."""
    return [deal.ms for deal in world.deals if not deal.interrupted]

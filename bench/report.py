"""The report for people: the tables of docs/benchmarks.md, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LABELS = {
    "deals": "ind.ai: durable, signed, mutual TLS",
    "echo": "plain gRPC echo",
    "a2a": "A2A SDK, in memory",
}


def render(found: dict[str, Any]) -> str:
    """The whole report."""
    return "\n".join([*_exchanges(found), "", *_parts(found), "", *_appends(found), "", *_account(found)])


def _exchanges(found: dict[str, Any]) -> Iterable[str]:
    yield "Exchanges of four messages in two round trips, between two processes"
    yield f"{'':37}{'at once':>8}{'per s':>9}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}"
    ours = {row["concurrency"]: row["per_second"] for row in found["deals"]}
    for kind, label in LABELS.items():
        for row in found[kind]:
            ratio = ours[row["concurrency"]] / row["per_second"]
            yield (
                f"{label:37}{row['concurrency']:>8}{row['per_second']:>9.1f}"
                f"{row['p50_ms']:>9.1f}{row['p99_ms']:>9.1f}{ratio:>8.2f}"
            )
            label = ""
    yield "ratio: deals a second over this row's exchanges a second"


def _parts(found: dict[str, Any]) -> Iterable[str]:
    fastest = max(row["per_second"] for row in found["deals"])
    yield "What a deal is made of, each part alone"
    yield f"{'':37}{'ms a deal':>12}{'deals per s':>13}{'ratio':>8}"
    for name, ms in found["parts"]["per_deal_ms"].items():
        yield f"{name:37}{ms:>12.2f}{1000 / ms:>13.0f}{fastest * ms / 1000:>8.2f}"
    yield "ratio: our best deals a second over what one core did of this part alone"


def _appends(found: dict[str, Any]) -> Iterable[str]:
    yield "Ledger appends a second, against bare inserts of the same rows"
    yield f"{'':48}{'batch':>6}{'ours':>8}{'bare':>8}{'ratio':>8}"
    for row in found["appends"]:
        yield (
            f"{row['what']:48}{row['batch']:>6}{row['ours_per_second']:>8}"
            f"{row['bare_per_second']:>8}{row['ratio']:>8.2f}"
        )


def _account(found: dict[str, Any]) -> Iterable[str]:
    level = found["deals"][-1]
    total = sum(level["cpu_ms"].values())
    yield f"Where the time goes: {total:.1f} ms of processor a deal, at {level['concurrency']} at once"
    yield f"(other programs took {100 * level['elsewhere']:.0f} % of the machine meanwhile)"
    for process, parts in found["account"].items():
        yield f"{process:37}{sum(parts.values()):>12.2f}"
        for part, ms in parts.items():
            yield f"  {part:35}{ms:>12.2f}"

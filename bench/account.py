"""Where the processor's time of a deal goes: the CPU clocks of the processes, shared out by their samples."""

from __future__ import annotations

from typing import Any

from bench.loads import Load

NODES = ("A", "B")


def account(load: Load, samples: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """ms of CPU a deal, by process and part: the process by its clock, divided by its samples."""
    shares: dict[str, dict[str, float]] = {}
    for name in NODES:
        parts = samples[name]["parts"]
        whole = sum(parts.values()) or 1
        spent = load.cpu_ms[f"{name} python"]
        ordered = sorted(parts.items(), key=lambda item: -item[1])
        shares[f"node {name}"] = {part: round(spent * count / whole, 2) for part, count in ordered}
    shares["the rest"] = {
        "Postgres of A": round(load.cpu_ms["A postgres"], 2),
        "Postgres of B": round(load.cpu_ms["B postgres"], 2),
        "registry": round(load.cpu_ms["registry python"] + load.cpu_ms["registry postgres"], 2),
        "load generator": round(load.cpu_ms["load generator"], 2),
    }
    return shares

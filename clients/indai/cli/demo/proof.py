"""Scene 6: both ledgers and the registry's log leave their nodes, and are judged offline."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

from indai.cli.demo.processes import Process
from indai.cli.demo.world import AGREED, World
from indai.cli.exporting import Exported, save
from indai.cli.ledger import lines
from indai.cli.registry import export_registry
from indai.cli.words import state_name
from indai.client.audit import Report, Verdict, audit


async def audited(world: World) -> Report:
    """Export, verify, and show that a flipped byte is found and named."""
    stage = world.stage
    stage.scene("Both ledgers are exported, and an auditor verifies them offline")
    ledgers = [
        await _export(world.node_a, world.exports / "node-a.jsonl"),
        await _export(world.node_b, world.exports / "node-b.jsonl"),
    ]
    mirror = await export_registry(world.registry.home, "", str(world.exports / "registry.jsonl"))
    for made in (*ledgers, mirror):
        count = made.end.leaves or made.end.entries
        stage.say(f"{made.path.name}: {made.header.log}, {count} leaves, {made.end.messages} messages")
    trust = world.registry.home.network().policy
    paths = [made.path for made in ledgers]
    report = await asyncio.to_thread(audit, paths, mirror.path, trust)
    agreed = {deal.commitment for deal in world.deals if deal.outcome == state_name(AGREED)}
    valid = {each.mid for each in report.commitments if each.verdict is Verdict.VALID}
    stage.check(
        report.exit_status == 0,
        f"the audit finds nothing wrong in {report.counts.leaves} leaves, "
        f"{report.counts.messages} messages, {report.counts.decisions} decisions",
    )
    stage.check(
        valid == agreed and len(report.commitments) == len(agreed),
        f"{len(valid)} commitments, all VALID, each in both ledgers, none twice",
    )
    await _flipped(world, ledgers[1].path, mirror.path)
    return report


async def _flipped(world: World, original: Path, mirror: Path) -> None:
    """One byte of a commitment's content, changed in a copy."""
    copy = world.exports / "node-b.flipped.jsonl"
    line = flip_one_byte(original, copy)
    others = [world.exports / "node-a.jsonl", copy]
    trust = world.registry.home.network().policy
    report = await asyncio.to_thread(audit, others, mirror, trust)
    named = [f for f in report.findings if f.place.file == copy.name and f.place.line == line]
    world.stage.check(
        report.exit_status != 0 and named,
        f"one byte flipped in a copy: found in {copy.name} line {line}: "
        f"{named[0].message if named else 'not found'}",
    )


def flip_one_byte(original: Path, copy: Path) -> int:
    """Copy an export with one byte of its first commitment changed; the line (from 1) that holds it."""
    rows = original.read_bytes().splitlines(keepends=True)
    for number, row in enumerate(rows):
        values = json.loads(row)
        if values["type"] == "open-leaf" and _is_commitment(values["envelope"]):
            envelope = bytearray(base64.b64decode(values["envelope"]))
            envelope[len(envelope) // 2] ^= 1
            values["envelope"] = base64.b64encode(envelope).decode()
            rows[number] = json.dumps(values, separators=(",", ":")).encode() + b"\n"
            copy.write_bytes(b"".join(rows))
            return number + 1
    raise AssertionError("an export after scene 1 holds a commitment")


def _is_commitment(envelope: str) -> bool:
    return b"vnd.ind.commitment.v1" in base64.b64decode(envelope)


async def _export(node: Process, path: Path) -> Exported:
    async with lines(node.home, "", node=True) as chunks:
        return await save(chunks, path)

"""`indai policy lint` and `indai policy simulate`: what rules cannot mean, and what they would have done."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from indai.cli.errors import CheckFailed, wrong
from indai.cli.exporting import save
from indai.cli.files import read_text
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.ledger import lines
from indai.cli.output import Page, emit
from indai.cli.words import iso, parse_time
from indai.client.exports import MAX_LINE, Header, OpenLeafLine, read_export
from indai.policy.compiled import LAYERS, OWNER, cautious_policy, compile_policy
from indai.policy.lint import Finding, lint
from indai.policy.simulate import Replayed, Simulation, simulate
from indai.protocol.envelope import payload_type
from indai.protocol.leaf import LeafKind, LedgerLeaf
from indai.protocol.wire import strict_parse
from indai.v1 import envelope_pb2, policy_pb2

_MAX_SHOWN = 20
_STYLES = {"permit": "green", "ask": "yellow", "refuse": "red"}
layer_option = click.option(
    "--layer", type=click.Choice(LAYERS[1:]), default=OWNER, help="What the file is meant for."
)


@command("lint", "indai policy lint alice.yaml", "indai policy lint house.yaml --layer organisation")
@click.argument("file")
@layer_option
def lint_policy(file: str, layer: str) -> None:
    """Find rules in FILE that contradict or hide each other (status 1).

    Also what is doubled, never matches, or pays without a limit.
    """
    text = read_text(file)
    compiled = (
        compile_policy(text) if layer == OWNER else compile_policy(cautious_policy("UTC"), {layer: text})
    )
    findings = lint(compiled.rules[layer], layer)
    emit(
        {
            "findings": [
                {"code": one.code.value, "rule": one.rule, "line": one.line, "message": one.message}
                for one in findings
            ]
        },
        lambda page: _show_findings(page, file, findings),
    )
    if findings:
        raise CheckFailed


def _show_findings(page: Page, file: str, findings: Sequence[Finding]) -> None:
    for one in findings:
        where = f"line {one.line}: " if one.line else ""
        page.item("!", f"{where}{one.rule} {one.message} ({one.code})", "yellow")
    if not findings:
        page.line(f"{file}: nothing to say.", "green")


@command(
    "simulate",
    "indai policy simulate new.yaml --as ind.ai/alice --since 2026-10-22T00:00",
    "indai policy simulate new.yaml --export alice.jsonl",
)
@click.argument("file")
@click.option("--export", metavar="EXPORT", default="", help="Decisions of this export, without a node.")
@click.option("--since", metavar="TIME", default="", help="Decisions from this time on.")
@click.option("--until", metavar="TIME", default="", help="Decisions before this time.")
@as_option
def simulate_policy(home: Home, acting: str, file: str, export: str, since: str, until: str) -> None:
    """What FILE would have answered in the past; status 1 if it differs.

    Recorded decisions are taken again, with the facts of then. Layers beside the
    owner's are those that were in force last.
    """
    text = read_text(file)
    if export:
        owner, records, others = _records(Path(export), acting)
    else:
        owner, records, others = run(_own_records(home, acting))
    zone = compile_policy(text).time_zone
    first = parse_time(since, zone) if since else 0
    last = parse_time(until, zone) if until else 2**62
    wanted = [one for one in records if first <= one.decided_at_ms < last]
    result = simulate(compile_policy(text, others), wanted)
    emit(_as_json(owner, result), lambda page: _show(page, owner, file, result))
    if result.changed:
        raise CheckFailed


async def _own_records(
    home: Home, acting: str
) -> tuple[str, list[policy_pb2.DecisionRecord], dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="indai-") as folder:
        async with lines(home, acting, False) as chunks:
            made = await save(chunks, Path(folder) / "export.jsonl")
        return _records(made.path, acting)


def _records(path: Path, acting: str) -> tuple[str, list[policy_pb2.DecisionRecord], dict[str, str]]:
    """The owner's decisions in order, and the layers beside their own that were activated last."""
    owner, found, others = acting, [], {}
    for payload, raw, header in _payloads(path):
        owner = owner or header.owner
        if not owner:
            raise wrong(f"{path} is a whole node's export.", "say whose decisions: --as HANDLE")
        if payload == payload_type("decision"):
            record = policy_pb2.DecisionRecord.FromString(raw)
            found += [record] if record.owner == owner else []
        elif payload == payload_type("policy-version"):
            activation = policy_pb2.PolicyActivation.FromString(raw)
            if activation.owner == owner:
                layers = activation.version.layers
                others = {one.name: one.yaml for one in layers if one.yaml and one.name != "session"}
    return owner, found, others


def _payloads(path: Path) -> Iterator[tuple[str, bytes, Header]]:
    header: Header | None = None
    for _, line in read_export(path):
        if isinstance(line, Header):
            header = line
        elif isinstance(line, OpenLeafLine) and header is not None:
            kind = LedgerLeaf.parse(line.leaf).kind
            if kind in (LeafKind.DECISION, LeafKind.POLICY_VERSION):
                envelope = strict_parse(envelope_pb2.Envelope, line.envelope, limit=MAX_LINE)
                yield envelope.payload_type, envelope.payload, header


def _as_json(owner: str, result: Simulation) -> dict[str, object]:
    return {
        "owner": owner,
        "decisions": len(result.decisions),
        "changed": len(result.changed),
        "unread": result.unread,
        "transitions": {f"{before}->{after}": n for (before, after), n in _transitions(result).items()},
        "differences": [
            {
                "mid": one.mid.hex(),
                "time": iso(one.decided_at_ms),
                "kind": one.facts.kind,
                "with": one.facts.peer,
                "before": one.before.value,
                "before_rules": list(one.before_rules),
                "after": one.after.evaluation.outcome.value,
                "after_rules": list(one.after.evaluation.rules),
                "layer": one.after.evaluation.layer,
                "approved_by_owner": one.approved,
                "obligations_before": list(one.before_obligations),
                "obligations_after": list(one.after.evaluation.obligations),
                "words": one.words,
            }
            for one in result.decisions
            if one.changed or one.duties_changed
        ],
    }


def _transitions(result: Simulation) -> Counter[tuple[str, str]]:
    return Counter((one.before.value, one.after.evaluation.outcome.value) for one in result.decisions)


def _show(page: Page, owner: str, file: str, result: Simulation) -> None:
    changed = result.changed
    for one in changed[:_MAX_SHOWN]:
        page.line(_line(one), _STYLES[one.after.evaluation.outcome.value])
        page.line(one.words, indent=2)
    if len(changed) > _MAX_SHOWN:
        page.line(f"and {len(changed) - _MAX_SHOWN} more; see --json")
    duties = sum(one.duties_changed for one in result.decisions)
    page.line(f"{len(changed)} of {len(result.decisions)} decisions of {owner} would have been others.")
    if duties:
        page.line(f"{duties} more would have had other obligations.")
    if result.unread:
        page.line(f"{result.unread} are left out: this program cannot read their facts.", "yellow")
    if result.decisions:
        page.next_step(f"indai policy set {file} --as {owner}")


def _line(one: Replayed) -> str:
    said = " (you said yes)" if one.approved else ""
    what = f"{iso(one.decided_at_ms)}  {one.facts.kind} with {one.facts.peer}"
    return f"{what}: {one.before.value}{said} -> {one.after.evaluation.outcome.value}"

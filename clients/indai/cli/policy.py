"""`indai policy`: check, explain and test rules offline; set them at the node."""

from __future__ import annotations

from datetime import datetime

import click
from indai.cli.errors import CheckFailed, wrong
from indai.cli.files import read_text
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, owner_session
from indai.cli.words import iso, length, span
from indai.client.decisions import Outcome
from indai.policy.cases import CaseResult, run_cases
from indai.policy.compiled import OWNER, CompiledPolicy, Decided, compile_policy, decide
from indai.policy.explain import explain as explain_decision
from indai.policy.facts import Facts
from indai.policy.localtime import zone_of
from indai.policy.sentences import sentences
from indai.protocol.handles import Handle
from indai.v1 import owner_pb2

_HERE = "indai.cli.policy:"
SECTIONS = {
    "Commands": {
        "check": _HERE + "check",
        "explain": _HERE + "explain",
        "test": _HERE + "test",
        "set": _HERE + "set_policy",
    }
}
_STYLES = {Outcome.PERMIT: "green", Outcome.ASK: "yellow", Outcome.REFUSE: "red"}


@click.command("policy", cls=Group, sections=SECTIONS)
def policy() -> None:
    """Check, explain, test and set an owner's rules.

    The rules are a small YAML file: see docs/policy-language.md.
    """


@command("check", "indai policy check bob.yaml")
@click.argument("file")
def check(file: str) -> None:
    """Check the rules in FILE, and say them in words."""
    compiled = compile_policy(read_text(file))
    rules = sentences(compiled.rules[OWNER])

    def show(page: Page) -> None:
        page.line(f"{file} is valid.", "green")
        page.fields([("time zone", compiled.time_zone), ("policy hash", compiled.policy_hash.hex()[:12])])
        for rule in rules:
            page.line(rule, indent=2)
        page.next_step(f"indai policy set {file}")

    emit(
        {
            "valid": True,
            "rules": rules,
            "time_zone": compiled.time_zone,
            "policy_hash": compiled.policy_hash.hex(),
            "engine": compiled.engine,
        },
        show,
    )


@command(
    "explain",
    "indai policy explain bob.yaml --with ind.ai/alice --start 2026-12-01T10:00 --duration 30m",
)
@click.argument("file")
@click.option("--with", "peer", metavar="HANDLE", required=True, help="Who asks.")
@click.option("--start", metavar="TIME", required=True, help="Like 2026-12-01T10:00, in the policy's zone.")
@click.option("--duration", metavar="LENGTH", required=True, help="Like 30m or 1h30m.")
@click.option("--now", "moment", metavar="TIME", default="", help="Decide as if it were this time.")
@click.option("--already", metavar="N", type=click.IntRange(0, 1000), default=0, help="Meetings that day.")
@click.option("--unverified", is_flag=True, help="Decide as for a peer whose signature was not verified.")
def explain(
    file: str, peer: str, start: str, duration: str, moment: str, already: int, unverified: bool
) -> None:
    """What FILE's rules answer to one meeting, and why. Nothing is asked or sent."""
    compiled = compile_policy(read_text(file))
    begin = _instant(start, compiled)
    facts = Facts(
        peer=str(Handle.parse(peer)),
        start_ms=begin,
        end_ms=begin + length(duration) * 60_000,
        now_ms=_instant(moment, compiled) if moment else now_ms(),
        verified=not unverified,
        already_that_day=already,
    )
    decided = decide(compiled, "owner", facts)
    emit(_decision_json(compiled, decided), lambda page: _show_decision(page, compiled, decided))


def _decision_json(compiled: CompiledPolicy, decided: Decided) -> dict[str, object]:
    evaluation = decided.evaluation
    return {
        "outcome": evaluation.outcome.value,
        "rules": list(evaluation.rules),
        "obligations": list(evaluation.obligations),
        "words": explain_decision(compiled, decided),
        "start": iso(decided.facts.start_ms),
        "end": iso(decided.facts.end_ms),
        "policy_hash": compiled.policy_hash.hex(),
    }


def _show_decision(page: Page, compiled: CompiledPolicy, decided: Decided) -> None:
    outcome, facts = decided.evaluation.outcome, decided.facts
    page.line(outcome.value, _STYLES[outcome])
    when = span(facts.start_ms, facts.end_ms, zone_of(compiled.time_zone))
    page.fields(
        [
            ("with", facts.peer),
            ("when", f"{when} ({compiled.time_zone})"),
            ("why", explain_decision(compiled, decided)),
            ("rules", ", ".join(decided.evaluation.rules)),
            ("obligations", ", ".join(decided.evaluation.obligations)),
        ]
    )


def _instant(text: str, compiled: CompiledPolicy) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise wrong(f"{text!r} is no time.", "write it like 2026-12-01T10:00") from None
    at = at if at.tzinfo else at.replace(tzinfo=zone_of(compiled.time_zone))
    return round(at.timestamp() * 1000)


@command("test", "indai policy test cases.yaml --policy bob.yaml")
@click.argument("cases")
@click.option("--policy", "file", metavar="FILE", required=True, help="The rules to test.")
def test(cases: str, file: str) -> None:
    """Run the cases in CASES against a policy; status 1 if one fails."""
    compiled = compile_policy(read_text(file))
    results = run_cases(compiled, "owner", read_text(cases))
    failed = sum(not result.passed for result in results)
    emit(
        {
            "passed": len(results) - failed,
            "failed": failed,
            "cases": [
                {
                    "name": result.case.name,
                    "passed": result.passed,
                    "expected": result.case.expect.value,
                    "outcome": result.outcome.value,
                    "words": result.words,
                }
                for result in results
            ],
        },
        lambda page: _show_cases(page, results, failed),
    )
    if failed:
        raise CheckFailed


def _show_cases(page: Page, results: list[CaseResult], failed: int) -> None:
    rows = [
        ("ok" if result.passed else "FAILED", result.outcome.value, result.case.name) for result in results
    ]
    page.table(("", "answer", "case"), rows, {"ok": "green", "FAILED": "red"})
    for result in results:
        if not result.passed:
            wanted = f" by rule {result.case.rule}" if result.case.rule else ""
            page.line(f"{result.case.name}: expected {result.case.expect.value}{wanted}.", "red")
            page.line(result.words, indent=2)
    page.line(f"{len(results) - failed} of {len(results)} cases passed.", "red" if failed else "green")


@command("set", "indai policy set alice.yaml --as ind.ai/alice")
@click.argument("file")
@as_option
def set_policy(home: Home, acting: str, file: str) -> None:
    """Activate the rules in FILE for an agent of this node."""
    text = read_text(file)
    compile_policy(text)
    handle, answer = run(_activate(home, acting, text))
    emit(
        {
            "handle": handle,
            "changed": answer.changed,
            "policy_hash": answer.version.policy_hash.hex(),
            "time_zone": answer.version.time_zone,
        },
        lambda page: page.line(
            f"{handle} follows {file} from now on."
            if answer.changed
            else f"{handle} follows these rules already.",
            "green",
        ),
    )


async def _activate(home: Home, acting: str, text: str) -> tuple[str, owner_pb2.ActivatePolicyResponse]:
    async with owner_session(home, acting) as owner:
        request = owner_pb2.ActivatePolicyRequest(yaml=text)
        return owner.handle, await owner.stub.ActivatePolicy(request)

"""`indai policy`: check, explain and test rules offline; set and show them at the node."""

from __future__ import annotations

from collections.abc import Sequence

import click
from indai.cli.errors import CheckFailed, wrong
from indai.cli.files import read_text
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, operator_session, owner_session
from indai.cli.words import iso, length, parse_time, span
from indai.client.decisions import Outcome
from indai.policy.cases import CaseResult, read_fact, run_cases, split
from indai.policy.compiled import OWNER, CompiledPolicy, Decided, compile_policy, decide
from indai.policy.explain import explain as explain_decision
from indai.policy.facts import Facts
from indai.policy.kinds import KINDS, MEET, Value
from indai.policy.localtime import zone_of
from indai.policy.sentences import sentences
from indai.policy.values import Problem
from indai.protocol.handles import Handle
from indai.v1 import owner_pb2

_HERE = "indai.cli.policy:"
SECTIONS = {
    "Commands": {
        "check": _HERE + "check",
        "explain": _HERE + "explain",
        "lint": "indai.cli.policy_study:lint_policy",
        "test": _HERE + "test",
        "simulate": "indai.cli.policy_study:simulate_policy",
        "set": _HERE + "set_policy",
        "show": _HERE + "show_policy",
        "templates": "indai.cli.policy_templates:policy_templates",
    }
}
_STYLES = {Outcome.PERMIT: "green", Outcome.ASK: "yellow", Outcome.REFUSE: "red"}


@click.command("policy", cls=Group, sections=SECTIONS)
def policy() -> None:
    """Check, explain, test, simulate and set an owner's rules.

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
    "indai policy explain bob.yaml --kind pay --with ind.ai/alice --fact direction=request"
    " --fact amount=200INR --fact payee=shop@okbank",
)
@click.argument("file")
@click.option("--kind", type=click.Choice(KINDS), default=MEET, help="What is asked.")
@click.option("--with", "peer", metavar="HANDLE", required=True, help="Who asks.")
@click.option(
    "--start",
    metavar="TIME",
    default="",
    help="Like 2026-12-01T10:00, in the policy's zone; now if left out.",
)
@click.option("--duration", metavar="LENGTH", default="", help="Like 30m or 1h30m.")
@click.option("--fact", "facts", metavar="NAME=VALUE", multiple=True, help="What else is known (repeat).")
@click.option("--now", "moment", metavar="TIME", default="", help="Decide as if it were this time.")
@click.option("--already", metavar="N", type=click.IntRange(0, 1000), default=0, help="Agreed that day.")
@click.option("--unverified", is_flag=True, help="Decide as for a peer whose signature was not verified.")
def explain(
    file: str,
    kind: str,
    peer: str,
    start: str,
    duration: str,
    facts: Sequence[str],
    moment: str,
    already: int,
    unverified: bool,
) -> None:
    """What FILE's rules answer to one request, and why. Nothing is asked or sent."""
    if kind == MEET and not (start and duration):
        raise wrong("A meeting needs --start and --duration.", "see: indai policy explain --help")
    compiled = compile_policy(read_text(file))
    now = parse_time(moment, compiled.time_zone) if moment else now_ms()
    begin = parse_time(start, compiled.time_zone) if start else now
    stated = Facts(
        peer=str(Handle.parse(peer)),
        start_ms=begin,
        end_ms=begin + (length(duration) * 60_000 if duration else 0),
        now_ms=now,
        verified=not unverified,
        already_that_day=already,
        kind=kind,
        **split(_facts(kind, facts)),
    )
    decided = decide(compiled, "owner", stated)
    emit(_decision_json(compiled, decided), lambda page: _show_decision(page, compiled, decided))


def _facts(kind: str, given: Sequence[str]) -> dict[str, Value]:
    stated: dict[str, Value] = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            if not equals:
                raise Problem("needs a value")
            stated |= read_fact(kind, name, value)
        except Problem as problem:
            raise wrong(f"The fact {name} {problem}.", "write it like --fact amount=200INR") from None
    return stated


def _decision_json(compiled: CompiledPolicy, decided: Decided) -> dict[str, object]:
    evaluation = decided.evaluation
    return {
        "outcome": evaluation.outcome.value,
        "rules": list(evaluation.rules),
        "obligations": list(evaluation.obligations),
        "layer": evaluation.layer,
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


@command(
    "set",
    "indai policy set alice.yaml --as ind.ai/alice",
    "indai policy set fair.yaml --layer session --session fair-2026 --as ind.ai/alice",
    "indai policy set house.yaml --scope acme.com",
)
@click.argument("file", required=False, default="")
@click.option("--layer", type=click.Choice(["owner", "agent", "session"]), default=OWNER, help="Which rules.")
@click.option("--session", metavar="NAME", default="", help="Which session, for that layer.")
@click.option("--scope", metavar="SCOPE", default="", help="As operator: above all of `*` or an authority.")
@click.option("--clear", is_flag=True, help="Remove the layer instead.")
@as_option
def set_policy(home: Home, acting: str, file: str, layer: str, session: str, scope: str, clear: bool) -> None:
    """Activate the rules in FILE for an agent here, or above a scope."""
    if clear is bool(file) or (clear and layer == OWNER and not scope):
        raise wrong("Give a FILE, or --clear for a layer or a scope.", "see: indai policy set --help")
    text = read_text(file) if file else ""
    if scope:
        changed = run(_set_scope(home, scope, text))
        _said({"scope": scope, "changed": changed}, f"Everyone under {scope}", file, changed)
        return
    if layer == OWNER:
        compile_policy(text)
    request = owner_pb2.ActivatePolicyRequest(
        yaml=text, layer="" if layer == OWNER else layer, session=session
    )
    handle, answer = run(_activate(home, acting, request))
    version = answer.version
    _said(
        {
            "handle": handle,
            "changed": answer.changed,
            "policy_hash": version.policy_hash.hex(),
            "time_zone": version.time_zone,
        },
        handle,
        file,
        answer.changed,
    )


def _said(value: dict[str, object], who: str, file: str, changed: bool) -> None:
    what = f"follows {file} from now on." if file else "is free of these rules."
    text = f"{who} {what}" if changed else f"{who} follows these rules already."
    emit(value, lambda page: page.line(text, "green"))


async def _activate(
    home: Home, acting: str, request: owner_pb2.ActivatePolicyRequest
) -> tuple[str, owner_pb2.ActivatePolicyResponse]:
    async with owner_session(home, acting) as owner:
        return owner.handle, await owner.stub.ActivatePolicy(request)


async def _set_scope(home: Home, scope: str, text: str) -> bool:
    async with operator_session(home) as operator:
        request = owner_pb2.SetPolicyScopeRequest(scope=scope, yaml=text)
        return (await operator.SetPolicyScope(request)).changed


@command("show", "indai policy show --as ind.ai/alice")
@click.option("--session", metavar="NAME", default="", help="With the rules of this session.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the owner's file.")
@as_option
def show_policy(home: Home, acting: str, session: str, as_yaml: bool) -> None:
    """Show what decides now: every layer, and its rules in words."""
    handle, answer = run(_active(home, acting, session))
    version = answer.version

    def show(page: Page) -> None:
        if as_yaml:
            page.raw(version.yaml)
            return
        layers = ", ".join(layer.name for layer in version.layers)
        page.fields(
            [
                ("of", handle),
                ("policy hash", version.policy_hash.hex()[:12]),
                ("time zone", version.time_zone),
                ("layers", layers),
            ]
        )
        for rule in answer.rules:
            page.line(rule, indent=2)

    emit(
        {
            "handle": handle,
            "policy_hash": version.policy_hash.hex(),
            "time_zone": version.time_zone,
            "engine": version.engine,
            "yaml": version.yaml,
            "layers": {
                layer.name: version.yaml if layer.name == OWNER else layer.yaml for layer in version.layers
            },
            "rules": list(answer.rules),
        },
        show,
    )


async def _active(home: Home, acting: str, session: str) -> tuple[str, owner_pb2.GetActivePolicyResponse]:
    async with owner_session(home, acting) as owner:
        request = owner_pb2.GetActivePolicyRequest(session=session)
        return owner.handle, await owner.stub.GetActivePolicy(request)

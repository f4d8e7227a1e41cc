"""`indai audit` at a shell: every verdict there is, with its exit status and its line on the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from indai.client.audit import CommitmentVerdict, Finding, Place, Report, Severity, Verdict
from indai.client.audit.page import MAX_ROWS, html_page
from indai.client.audit.report import Counts
from indai.policy.compiled import compile_policy
from indai.v1 import policy_pb2

from tests.unit.cli.runs import run, run_json

from .event_lies import erased_by_alice
from .lies import bent, honest, no_receipt, receipt_and_refusal
from .worlds import NOW, YAML, Deal, World, activate

STRICTER = compile_policy(YAML.replace("2h", "15m"))


def decided_under_a_policy_put_in_afterwards() -> World:
    """Bob's ledger and record name rules, whole and with their right hash, that never permitted it."""
    world = World()
    activate(world.b, STRICTER, NOW - 1)
    deal = Deal(world)

    def other(record: policy_pb2.DecisionRecord) -> policy_pb2.DecisionRecord:
        if record.owner == world.b.owner:
            record.decision.policy_hash = STRICTER.policy_hash
        return record

    deal.decision = other
    deal.run()
    return world


# verdict, its world, whether the registry is supplied, exit status
EACH: list[tuple[Verdict, Callable[[], World], bool, int]] = [
    (Verdict.VALID, honest, True, 0),
    (Verdict.UNOPENED, erased_by_alice, True, 3),
    (Verdict.INCONCLUSIVE, honest, False, 3),
    (Verdict.UNCONFIRMED, no_receipt, True, 3),
    (Verdict.CONTESTED, receipt_and_refusal, True, 1),
    (Verdict.INVALID, lambda: bent(minutes=240), True, 1),
    (Verdict.INVALID, decided_under_a_policy_put_in_afterwards, True, 1),
]


def test_every_verdict_is_among_them() -> None:
    assert {verdict for verdict, *_ in EACH} == set(Verdict)


@pytest.mark.parametrize(("verdict", "made", "mirrored", "status"), EACH)
def test_the_command_gives_each_verdict_its_status_and_a_page(
    verdict: Verdict, made: Callable[[], World], mirrored: bool, status: int, tmp_path: Path
) -> None:
    exports = [str(path) for path in made().write(tmp_path)]
    mirror = ("--registry", str(tmp_path / "registry.jsonl")) if mirrored else ()
    page = tmp_path / "report.html"
    done = run("audit", *exports, *mirror, "--html", str(page))
    assert done.exit_code == status
    assert verdict.value in done.output
    assert f'">{verdict.value}</span></td><td>\n<strong>' in page.read_text("utf-8")
    if status == 0:
        shown = run_json("audit", *exports, *mirror)
        assert (shown["verdicts"][verdict.value], shown["exit_status"]) == (1, 0)


def test_a_decision_that_its_pinned_policy_does_not_give_is_named(tmp_path: Path) -> None:
    report = decided_under_a_policy_put_in_afterwards().audit(tmp_path)
    (finding,) = report.findings
    assert (finding.check, finding.place.file) == ("decision", "b.jsonl")
    assert "the same facts give refuse" in finding.message


def test_a_page_of_very_many_lists_the_worst_and_counts_the_others() -> None:
    place = Place("a.jsonl", 3, 1)
    valid = CommitmentVerdict("aa", Verdict.VALID, places=(place,))
    invalid = CommitmentVerdict("bb", Verdict.INVALID, places=(place,))
    note = Finding(Severity.OPEN, "held", place, "Not shown.")
    page = html_page(Report((*[valid] * MAX_ROWS, invalid, valid), (note,) * (MAX_ROWS + 3), Counts()), [])
    assert page.count("<strong>") == MAX_ROWS
    assert ">bb</code>" in page
    assert "Not listed here: 2 VALID." in page
    assert "Not listed here: 3 OPEN." in page

"""A commitment of several: every party's signature, the ballots and what they elect, and the release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from indai.client.audit import Severity, Verdict
from indai.client.audit.twowords import TwoWords

from .gatherings import LIES, Gathering, Trio, bent, cancelled, vote_without_a_word
from .lies import checks
from .test_twowords import history
from .worlds import ALICE


@pytest.mark.parametrize("names", ["abc", "a", "b", "c", "bc"])
def test_an_honest_meeting_of_three_is_valid_by_any_of_its_exports(names: str, tmp_path: Path) -> None:
    report = Gathering().run().audit(tmp_path, tuple(names))
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]
    assert not report.findings
    assert report.exit_status == 0


def test_what_one_calls_off_for_all_is_replayed_in_every_ledger(tmp_path: Path) -> None:
    report = cancelled().audit(tmp_path)
    assert [(one.verdict, one.state) for one in report.commitments] == [(Verdict.VALID, "CANCELLED")]
    assert not report.findings


@pytest.mark.parametrize(("check", "lie"), LIES)
def test_a_lie_about_a_meeting_of_three_is_found(check: str, lie: Callable[[], Trio], tmp_path: Path) -> None:
    report = lie().audit(tmp_path)
    assert check in checks(report, Severity.INVALID)
    assert report.exit_status == 1


def test_a_missing_signature_makes_it_invalid_for_all(tmp_path: Path) -> None:
    for check, lie in LIES[:3]:
        (one,) = lie().audit(tmp_path).commitments
        assert one.verdict is Verdict.INVALID, check


def test_a_release_beside_the_receipt_is_a_proof_that_stands_alone(tmp_path: Path) -> None:
    world = bent(released="ind.ai/carol")()
    report = world.audit(tmp_path)
    assert [one.verdict for one in report.commitments] == [Verdict.CONTESTED]
    (raw,) = [found.content for found in report.proofs]
    assert TwoWords.parse(raw).verify(history(tmp_path, world))[0] == ALICE


def test_a_vote_that_nobody_has_answered_is_unconfirmed(tmp_path: Path) -> None:
    report = vote_without_a_word().audit(tmp_path, ("c",))
    assert [one.verdict for one in report.commitments] == [Verdict.UNCONFIRMED]
    assert checks(report, Severity.NOTE) == {"receipt", "held"}

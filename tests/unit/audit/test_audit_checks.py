"""Each check of the audit has worlds that only it can tell from an honest one: of everything that counts
against such a world, no finding is of another check, so without that check the lie would pass.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from indai.client.audit import CHECKS, Severity, Verdict, audit
from indai.v1 import policy_pb2

from .event_lies import (
    cancel_by_one_party_too_late,
    cancel_for_a_request_that_nobody_made,
    cancel_in_one_ledger_only,
    erased_commitment_that_is_called_an_event,
    event_before_its_deed,
    event_by_a_stranger,
    event_numbered_by_the_other_party,
    event_of_a_skipped_number,
    event_of_nothing_shown,
    event_recorded_before_it_was_issued,
    expiry_signed_by_the_other_party,
    forged_cancel,
    happened,
    moved,
    two_events_under_one_number,
)
from .lies import (
    backdated_leaf,
    bent,
    checks,
    commitment_of_a_stranger,
    commitment_recorded_twice,
    content_of_somebody_else,
    content_under_another_mid,
    decision,
    decision_about_another_meeting,
    decision_recorded_twice,
    first_message_withheld,
    forged_signature,
    head_by_a_key_that_was_given_up,
    head_by_another_key,
    key_of_nobody,
    key_revoked_long_before,
    leaf_changed_under_its_head,
    leaf_cut_off,
    leaf_of_no_known_version,
    ledger_with_a_key_nobody_published,
    message_twice,
    missing_in_one_ledger,
    no_decision,
    no_receipt,
    older_head_of_another_tree,
    operation_by_a_stranger,
    other_bytes_in_one_ledger,
    owner_who_lives_elsewhere,
    party_under_another_key,
    policy_that_its_hash_does_not_name,
    receipt,
    receipt_and_refusal,
    receipts_leaf_hidden,
    registry_entry_not_under_its_head,
    registry_of_somebody_else,
    registry_with_another_root,
    rotated,
    two_receipts,
    wrong_direction,
    wrong_map_root,
    wrong_opening,
)
from .worlds import (
    ALICE,
    DAY,
    HOUR,
    NOW,
    World,
)

LIES: list[tuple[str, Callable[[], World], Verdict]] = [
    ("registry-head", registry_of_somebody_else, Verdict.INCONCLUSIVE),
    ("registry-tree", registry_entry_not_under_its_head, Verdict.VALID),
    ("registry-tree", registry_with_another_root, Verdict.VALID),
    ("registry-chain", operation_by_a_stranger, Verdict.VALID),
    ("registry-map", wrong_map_root, Verdict.VALID),
    ("ledger-identity", ledger_with_a_key_nobody_published, Verdict.VALID),
    ("ledger-identity", owner_who_lives_elsewhere, Verdict.VALID),
    ("ledger-head", head_by_another_key, Verdict.VALID),
    ("ledger-head", head_by_a_key_that_was_given_up, Verdict.VALID),
    ("ledger-tree", leaf_changed_under_its_head, Verdict.INCONCLUSIVE),
    ("ledger-tree", leaf_cut_off, Verdict.VALID),
    ("ledger-tree", older_head_of_another_tree, Verdict.VALID),
    ("leaf", backdated_leaf, Verdict.VALID),
    ("leaf", leaf_of_no_known_version, Verdict.VALID),
    ("opening", wrong_opening, Verdict.INCONCLUSIVE),
    ("content", content_of_somebody_else, Verdict.INCONCLUSIVE),
    ("content", content_under_another_mid, Verdict.INCONCLUSIVE),
    ("content", commitment_of_a_stranger, Verdict.UNCONFIRMED),
    ("twice", commitment_recorded_twice, Verdict.VALID),
    ("twice", decision_recorded_twice, Verdict.VALID),
    ("same-bytes", other_bytes_in_one_ledger, Verdict.INVALID),
    ("parties", party_under_another_key, Verdict.INVALID),
    ("signature", forged_signature, Verdict.INVALID),
    ("key", key_revoked_long_before, Verdict.INVALID),
    ("key", key_of_nobody, Verdict.INVALID),
    ("receipt-place", receipt(index=0), Verdict.INVALID),
    ("receipt-place", receipt(leaf_time_ms=NOW + 5), Verdict.INVALID),
    ("receipt-place", receipt(log="ind.ai/node-c/ledger/2026"), Verdict.INVALID),
    ("contradiction", receipt_and_refusal, Verdict.CONTESTED),
    ("contradiction", two_receipts, Verdict.CONTESTED),
    ("late", lambda: bent(waits_ms=13 * HOUR), Verdict.CONTESTED),
    ("transcript", first_message_withheld, Verdict.VALID),
    ("transcript", message_twice, Verdict.VALID),
    ("transcript", wrong_direction, Verdict.VALID),
    ("policy", policy_that_its_hash_does_not_name, Verdict.VALID),
    ("decision", decision(outcome=policy_pb2.OUTCOME_ASK, approved_by_owner=True), Verdict.INVALID),
    ("decision", decision(schema_hash=b"\x00" * 32), Verdict.INVALID),
    ("decision", decision(entities_json="{"), Verdict.INVALID),
    ("permitted", no_decision, Verdict.INVALID),
    ("permitted", decision_about_another_meeting, Verdict.INVALID),
    ("permitted", lambda: bent(minutes=150), Verdict.INVALID),
    ("permitted", lambda: bent(minutes=240), Verdict.INVALID),
    ("order", lambda: bent(decides_first=False), Verdict.INVALID),
    ("order", event_before_its_deed, Verdict.INVALID),
    ("parties", happened("CANCEL", signer=ALICE), Verdict.INVALID),
    ("signature", forged_cancel, Verdict.INVALID),
    ("event-chain", event_of_a_skipped_number, Verdict.INVALID),
    ("event-chain", two_events_under_one_number, Verdict.CONTESTED),
    ("event-signer", event_numbered_by_the_other_party, Verdict.INVALID),
    ("event-signer", expiry_signed_by_the_other_party, Verdict.INVALID),
    ("event-signer", event_by_a_stranger, Verdict.INVALID),
    ("event-rule", happened("OVERDUE", NOW + DAY + HOUR), Verdict.INVALID),
    ("event-rule", happened("FULFIL"), Verdict.INVALID),
    ("event-rule", cancel_by_one_party_too_late, Verdict.INVALID),
    ("event-rule", cancel_for_a_request_that_nobody_made, Verdict.INVALID),
    ("event-rule", event_recorded_before_it_was_issued, Verdict.INVALID),
    ("succession", moved(0, 0), Verdict.INVALID),
    ("succession", moved(NOW, NOW), Verdict.INVALID),
    ("succession", moved(0, NOW), Verdict.INVALID),
    ("erased", erased_commitment_that_is_called_an_event, Verdict.INVALID),
]
GAPS: list[tuple[str, Callable[[], World], Verdict]] = [
    ("unopened", receipts_leaf_hidden, Verdict.UNOPENED),
    ("receipt", no_receipt, Verdict.UNCONFIRMED),
    ("held", missing_in_one_ledger, Verdict.UNCONFIRMED),
    ("event-held", cancel_in_one_ledger_only, Verdict.UNCONFIRMED),
    ("event-held", event_of_nothing_shown, Verdict.VALID),
]


def test_two_events_under_one_number_are_proof_of_fraud(tmp_path: Path) -> None:
    report = two_events_under_one_number().audit(tmp_path)
    assert report.severity is Severity.FRAUD


@pytest.mark.parametrize(("check", "lie", "verdict"), LIES)
def test_a_lie_is_found_by_the_one_check_for_it(
    check: str, lie: Callable[[], World], verdict: Verdict, tmp_path: Path
) -> None:
    report = lie().audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {check}
    verdicts = [one.verdict for one in report.commitments]
    assert verdicts == [*verdicts[:-1], verdict]
    assert {*verdicts[:-1]} <= {Verdict.VALID}
    assert report.exit_status == 1


@pytest.mark.rule("LIF-25")
def test_times_are_moved_each_once_and_then_all_that_are_left(tmp_path: Path) -> None:
    report = moved(NOW, NOW + DAY, 0)().audit(tmp_path)
    assert [finding.to_json() for finding in report.findings] == []


@pytest.mark.parametrize(("check", "gap", "verdict"), GAPS)
def test_a_gap_is_left_open_by_the_one_check_for_it(
    check: str, gap: Callable[[], World], verdict: Verdict, tmp_path: Path
) -> None:
    report = gap().audit(tmp_path)
    assert checks(report, Severity.NOTE) == {check}
    assert [one.verdict for one in report.commitments] == [verdict]
    assert report.exit_status == 3


def test_a_ledgers_key_may_change_and_without_the_former_keys_word_it_is_noted(tmp_path: Path) -> None:
    for by_former in ((2,), (2, 3)):
        report = rotated(by_former).audit(tmp_path)
        assert [finding.to_json() for finding in report.findings] == []
    report = rotated(announced=False).audit(tmp_path)
    assert {(one.check, one.severity) for one in report.findings} == {("ledger-identity", Severity.NOTE)}
    assert report.exit_status == 0
    # Without the registry nobody can tell whose key the older one was.
    report = audit([tmp_path / "a.jsonl"], None)
    assert ("ledger-head", Severity.OPEN) in {(one.check, one.severity) for one in report.findings}
    assert report.exit_status == 3


def test_every_check_has_its_lie() -> None:
    elsewhere = {"file", "split-view", "evidence"}
    assert {check for check, _, _ in (*LIES, *GAPS)} | elsewhere == set(CHECKS)

"""The offline audit over whole exports: what is valid, what is left open, and what any changed byte does."""

import dataclasses
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from indai.cli import audit as command
from indai.client.audit import CHECKS, Report, Severity, Verdict, audit
from indai.client.handlekeys import claim, recover, retire
from indai.protocol.envelope import cosign, seal
from indai.protocol.errors import Reason, Unavailable
from indai.protocol.handlestate import AgentKey
from indai.protocol.leaf import LeafKind
from indai.protocol.operations import UPDATE, build_operation
from indai.v1 import negotiation_pb2 as pb
from indai.v1 import policy_pb2

from .event_lies import erased_by_alice, lived
from .lies import bent, checks, honest, receipt_and_refusal
from .worlds import (
    ALICE,
    BOB,
    DAY,
    HOUR,
    NOW,
    Deal,
    World,
    key,
    reseal,
    sixteen,
)


def test_an_honest_world_is_valid(tmp_path: Path) -> None:
    report = honest().audit(tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]
    assert (report.severity, report.exit_status) == (Severity.NOTE, 0)
    assert report.counts.leaves == 6
    assert report.counts.opened == 6
    assert report.counts.decisions == 2
    assert (report.counts.threads, report.counts.messages) == (2, 8)


def test_what_may_happen_after_the_deed_changes_no_verdict(tmp_path: Path) -> None:
    """Overdue, then both agree to call it off, and alice objects beside it."""
    life = lived()
    life.at_ms = NOW + DAY + 30 * 60_000 + DAY
    life.happen(life.event("OVERDUE"))
    asked = life.happen(life.event("CANCEL", ALICE), ALICE)
    dispute = life.event("DISPUTE", ALICE, seq=2)
    life.happen(life.event("CANCEL", requests=[asked.mid]))
    life.happen(dispute, ALICE)
    report = life.deal.world.audit(tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    (judged,) = report.commitments
    assert (judged.verdict, judged.state, judged.disputed) == (Verdict.VALID, "CANCELLED", True)
    assert (judged.to_json()["state"], report.exit_status) == ("CANCELLED", 0)
    assert any("cancelled, disputed" in text for _, text in report.lines())


def test_two_heads_of_one_log_that_contradict_each_other_are_fraud(tmp_path: Path) -> None:
    world = honest()
    fork = dataclasses.replace(world.a, leaves=list(world.a.leaves), contents=list(world.a.contents))
    fork.add(LeafKind.DECISION, ALICE, b"\x01" * 32, b"x", NOW + 9)
    world.a.add(LeafKind.DECISION, ALICE, b"\x02" * 32, b"y", NOW + 9)
    for node in (world.a, fork):
        node.contents[-1] = None
    world.fork = fork  # type: ignore[attr-defined]
    report = world.audit(tmp_path, ("a", "b", "fork"))
    assert checks(report, Severity.UNREADABLE) == {"split-view"}
    assert report.severity is Severity.FRAUD


def test_a_head_that_a_peer_heard_is_held_against_its_log(tmp_path: Path) -> None:
    world = honest()
    world.b.heard = [world.a.note(2)]
    assert world.audit(tmp_path).findings == ()
    other = dataclasses.replace(world.a, leaves=[world.a.leaves[1], world.a.leaves[0]])
    world.b.heard.append(other.note(2))
    report = world.audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {"split-view"}
    assert report.severity is Severity.FRAUD
    # The two notes alone prove it, without the export of the log itself.
    assert world.audit(tmp_path, ("b",)).severity is Severity.FRAUD


def test_a_head_that_nobody_signed_is_not_heard(tmp_path: Path) -> None:
    world = honest()
    world.b.heard = [dataclasses.replace(world.a, key=key("another")).note(2)]
    assert checks(world.audit(tmp_path), Severity.UNREADABLE) == {"ledger-head"}


def test_a_head_that_is_not_of_a_longer_tree_is_fraud(tmp_path: Path) -> None:
    world = honest()
    fork = dataclasses.replace(world.a, leaves=list(world.a.leaves), contents=list(world.a.contents))
    fork.leaves[0] = fork.leaves[0][:-1] + b"?"
    fork.contents[0] = None
    world.a.add(LeafKind.DECISION, ALICE, b"\x02" * 32, b"y", NOW + 9)
    world.a.contents[-1] = None
    world.fork = fork  # type: ignore[attr-defined]
    report = world.audit(tmp_path, ("a", "b", "fork"))
    assert checks(report, Severity.UNREADABLE) == {"split-view"}


def test_an_older_export_of_the_same_ledger_is_no_contradiction(tmp_path: Path) -> None:
    world = honest()
    older = dataclasses.replace(
        world.a, leaves=world.a.leaves[:2], contents=world.a.contents[:2], messages=[]
    )
    world.older = older  # type: ignore[attr-defined]
    for names in (("a", "b", "older"), ("older", "a", "b")):
        report = world.audit(tmp_path, names)
        assert [one.verdict for one in report.commitments] == [Verdict.VALID]
        assert report.exit_status == 0


def test_an_older_export_beside_the_newer_does_not_hide_what_happened_since(tmp_path: Path) -> None:
    life = lived()
    world = life.deal.world
    older = world.write(tmp_path, ("b",))[0].rename(tmp_path / "older.jsonl")
    life.happen(life.event("CANCEL"))
    paths = [older, *world.write(tmp_path)]
    for files in (paths, paths[::-1]):
        report = audit(files, tmp_path / "registry.jsonl", world.trust)
        assert [finding.to_json() for finding in report.findings] == []
        assert [(one.verdict, one.state) for one in report.commitments] == [(Verdict.VALID, "CANCELLED")]
    # Nor does a node where a party never lived say what they have recorded.
    cancel = next(iter(content for content in reversed(world.a.contents) if content is not None))
    world.a.add(LeafKind.COMMITMENT, BOB, cancel.mid, cancel.envelope, NOW + 2 * HOUR)
    report = audit([older, *world.write(tmp_path, ("a",))], tmp_path / "registry.jsonl", world.trust)
    assert "event-held" in checks(report, Severity.NOTE)


def test_two_views_of_one_ledger_are_taken_together(tmp_path: Path) -> None:
    world = honest()
    older = dataclasses.replace(
        world.b, leaves=world.b.leaves[:2], contents=world.b.contents[:2], messages=[]
    )
    world.older, world.own = older, dataclasses.replace(world.b, scope=BOB)  # type: ignore[attr-defined]
    report = world.audit(tmp_path, ("older", "own", "a", "b"))
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]
    assert report.exit_status == 0


def test_an_owner_may_approve_what_the_policy_left_to_them(tmp_path: Path) -> None:
    def approve(record: policy_pb2.DecisionRecord) -> policy_pb2.DecisionRecord:
        record.approved_by_owner = True
        return record

    report = bent(minutes=240, decision=approve).audit(tmp_path)
    assert report.exit_status == 0
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]


def test_a_key_revoked_while_peers_could_not_know_makes_the_commitment_contested(tmp_path: Path) -> None:
    world = World()
    world.revoke(BOB, NOW - 60_000)
    Deal(world).run()
    report = world.audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {"key"}
    assert [one.verdict for one in report.commitments] == [Verdict.CONTESTED]


def deal_with_a_nullified_key(world: World) -> None:
    """A thief with bob's lower rotation key lists an agent key and signs with it; bob recovers afterwards."""
    registry, thief, low = world.registry, key("thief agent"), key("bob low")
    chain = registry.chains[BOB]
    both = dataclasses.replace(
        chain.state, rotation_keys=(*chain.state.rotation_keys, low.public_key), intents=("meet",)
    )
    registry.submit(UPDATE, BOB, both, NOW - HOUR)
    keys = (*both.agent_keys, AgentKey(thief.public_key, NOW - HOUR))
    theft = build_operation(
        UPDATE,
        registry.chains[BOB],
        dataclasses.replace(both, agent_keys=keys),
        low,
        issued_at_ms=NOW - HOUR,
        nonce=sixteen("theft"),
    )
    registry.append(theft, NOW - HOUR)

    def under(commitment: pb.Commitment) -> pb.Commitment:
        commitment.header.key_id = commitment.parties[0].key_id = thief.key_id
        return commitment

    Deal(world, commitment=under, sign=lambda offer: seal(offer.payload_type, offer.payload, [thief])).run()


@pytest.mark.rule("REG-32")
def test_what_a_nullified_key_signed_is_contested_and_not_removed(tmp_path: Path) -> None:
    world = World()
    deal_with_a_nullified_key(world)
    assert [one.verdict for one in world.audit(tmp_path).commitments] == [Verdict.VALID]
    chain = world.registry.chains[BOB]
    undone = recover(chain, key(f"{BOB} rotation"), 1, now_ms=NOW + HOUR)
    world.registry.append(undone, NOW + HOUR)
    # A second deal, under bob's own key, is not touched by it.
    Deal(world, number=1, start_ms=NOW + 3 * DAY, at_ms=NOW + 2 * HOUR).run()
    report = world.audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {"key"}
    assert sorted(one.verdict for one in report.commitments) == [Verdict.CONTESTED, Verdict.VALID]
    (contested,) = (one for one in report.commitments if one.verdict is Verdict.CONTESTED)
    assert any("nullified" in why for why in contested.why)


def test_a_retired_name_that_begins_again_too_early_is_found(tmp_path: Path) -> None:
    world = honest()
    registry = world.registry
    registry.append(retire(registry.chains[BOB], key(f"{BOB} rotation"), now_ms=NOW + DAY), NOW + DAY)
    genesis = claim(BOB, registry.signer().name, [key("other")], now_ms=NOW + 2 * DAY)
    chain = registry.chains.pop(BOB)
    registry.append(genesis, NOW + 2 * DAY)
    assert "registry-chain" in checks(world.audit(tmp_path), Severity.INVALID)
    assert chain.ended_at_ms


def test_a_key_revoked_afterwards_changes_nothing(tmp_path: Path) -> None:
    world = honest()
    world.revoke(BOB, NOW + HOUR)
    assert world.audit(tmp_path).exit_status == 0


def test_a_content_that_is_erased_is_unopened(tmp_path: Path) -> None:
    world = honest()
    world.a.contents[-1] = world.b.contents[-1] = None
    world.a.messages = world.b.messages = []
    report = world.audit(tmp_path)
    assert [one.verdict for one in report.commitments] == [Verdict.UNOPENED] * 2
    assert report.exit_status == 3


def test_an_erased_event_is_no_erased_commitment(tmp_path: Path) -> None:
    world = erased_by_alice()
    alone = world.audit(tmp_path, ("a",))
    assert [(one.verdict, one.places[0].index) for one in alone.commitments] == [(Verdict.UNOPENED, 2)]
    (both,) = world.audit(tmp_path).commitments
    assert (both.verdict, both.state, both.mid != "") == (Verdict.UNOPENED, "CANCELLED", True)
    assert both.why == ("ind.ai/alice has erased it.",)
    # What it is said to be about must be in the ledger too, or it counts as a commitment of its own.
    world.a.erased[2] = b"\x07" * 32
    assert [one.places[0].index for one in world.audit(tmp_path, ("a",)).commitments] == [2, 3]


def test_a_deal_younger_than_the_ledgers_export_is_unconfirmed(tmp_path: Path) -> None:
    world = honest()
    for node in (world.a, world.b):
        node.leaves, node.contents = node.leaves[:1], node.contents[:1]
    report = world.audit(tmp_path)
    assert [one.verdict for one in report.commitments] == [Verdict.UNCONFIRMED]
    assert report.exit_status == 3


def test_an_offer_that_lapsed_is_no_commitment(tmp_path: Path) -> None:
    world = World()
    deal = Deal(world)
    propose = deal.propose()
    offer = deal.offer(propose)
    deal.decide(world.b, offer.mid, ALICE)
    accepted = cosign(offer, key(f"{ALICE} agent"))
    refused = deal.refuse(offer.mid)
    for envelope, direction in ((propose, "in"), (offer, "out"), (accepted, "in"), (refused, "out")):
        world.b.say(BOB, deal.thread, envelope, direction)
    report = world.audit(tmp_path)
    assert (report.commitments, report.exit_status) == ((), 0)


def test_an_acceptance_without_an_answer_is_unconfirmed(tmp_path: Path) -> None:
    world = World()
    deal = Deal(world)
    propose = deal.propose()
    offer = deal.offer(propose)
    deal.decide(world.a, offer.mid, BOB)
    for envelope, direction in (
        (propose, "out"),
        (offer, "in"),
        (cosign(offer, key(f"{ALICE} agent")), "out"),
    ):
        world.a.say(ALICE, deal.thread, envelope, direction)
    report = world.audit(tmp_path)
    assert [one.verdict for one in report.commitments] == [Verdict.UNCONFIRMED]
    assert report.exit_status == 3


def test_without_a_registry_nothing_about_keys_is_concluded(tmp_path: Path) -> None:
    paths = honest().write(tmp_path)
    report = audit(paths, None)
    assert [one.verdict for one in report.commitments] == [Verdict.INCONCLUSIVE]
    assert report.exit_status == 3


def test_without_the_engine_nothing_about_decisions_is_concluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise Unavailable(Reason.UNREACHABLE, "the policy engine is not installed")

    monkeypatch.setattr("indai.client.audit.policies.evaluate", missing)
    report = honest().audit(tmp_path)
    assert checks(report, Severity.NOTE) == {"decision"}
    assert [one.verdict for one in report.commitments] == [Verdict.INCONCLUSIVE]


def test_an_owners_own_export_is_judged_without_the_others_contents(tmp_path: Path) -> None:
    world = honest()
    world.a.scope = ALICE
    world.a.add(LeafKind.COMMITMENT, "ind.ai/carol", b"\x01" * 32, b"hers", NOW + 9)
    world.a.contents[-1] = None
    assert world.audit(tmp_path).exit_status == 0


def test_one_side_alone_is_judged_by_the_receipt(tmp_path: Path) -> None:
    report = honest().audit(tmp_path, ("a",))
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]


def test_a_file_that_is_no_export_is_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b"hello\n")
    report = audit([path], None)
    assert [(finding.check, finding.place.file, finding.place.line) for finding in report.findings] == [
        ("file", "odd.jsonl", 1)
    ]
    assert report.exit_status == 2


@pytest.mark.parametrize("name", ["a.jsonl", "registry.jsonl"])
def test_a_file_that_was_cut_off_accuses_nobody(name: str, tmp_path: Path) -> None:
    """A copy that did not finish is a damaged file, wherever it ends: no broken rule, and no missing key."""
    world = honest()
    paths = world.write(tmp_path)
    whole = (tmp_path / name).read_bytes()
    ends = [at for at in range(len(whole)) if whole[at : at + 1] == b"\n"]
    for end in (*ends[:-1], *(at - 7 for at in ends[1:])):
        (tmp_path / name).write_bytes(whole[: end + 1])
        report = audit(paths, tmp_path / "registry.jsonl", world.trust)
        assert (report.severity, report.exit_status) == (Severity.UNREADABLE, 2), end
        assert {one.place.file for one in report.findings if one.severity is Severity.UNREADABLE} == {name}


def test_the_registrys_export_is_no_ledger(tmp_path: Path) -> None:
    world = honest()
    world.write(tmp_path)
    report = audit([tmp_path / "registry.jsonl"], tmp_path / "a.jsonl")
    assert [finding.severity for finding in report.findings] == [Severity.UNREADABLE] * 2


def test_the_report_fits_a_terminal_and_a_program(tmp_path: Path) -> None:
    report = receipt_and_refusal().audit(tmp_path)
    lines = report.lines()
    assert all(len(text) <= 80 for _, text in lines)
    assert any("ind.ai/bob and ind.ai/alice" in text for _, text in lines)
    data = json.loads(json.dumps(report.to_json()))
    assert data["severity"] == "FRAUD"
    assert data["verdicts"]["CONTESTED"] == 1
    assert data["findings"][0]["file"] in ("a.jsonl", "b.jsonl")


def test_nothing_in_a_file_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    world = honest()
    shown = world.a.contents[0]
    assert shown
    world.a.scope, shown.owner = ALICE, "ind.ai/\x1b[2J\u202e" + "x" * 9000
    report = world.audit(tmp_path)
    assert {"content"} <= checks(report, Severity.INVALID)
    assert all(text.isprintable() for _, text in report.lines())
    assert all(len(finding.message) < 600 for finding in report.findings)


def test_the_documentation_names_every_check() -> None:
    written = (Path(__file__).parents[3] / "docs" / "audit.md").read_text("utf-8")
    assert all(f"| `{check}` | {words} |" in written for check, words in CHECKS.items())


def test_progress_is_told(tmp_path: Path) -> None:
    world = honest()
    told: list[tuple[str, int]] = []
    audit(world.write(tmp_path), tmp_path / "registry.jsonl", world.trust, lambda *at: told.append(at))
    files = {name: done for name, done in told if name}
    assert files.keys() == {"registry.jsonl", "a.jsonl", "b.jsonl"}
    lines = len((tmp_path / "a.jsonl").read_bytes().splitlines())
    assert files["a.jsonl"] == lines - 1  # all but the last, which says how many there are
    assert told[-1] == ("", 1)  # and then how many commitments are judged


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_EVERY_S", -1.0)
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        progress = command._Progress()
        progress("a.jsonl", 1_200)
        progress("", 7)
        progress.end()
        said = capsys.readouterr().err
        told = "\r\x1b[Kreading a.jsonl: 1,200 lines\r\x1b[Kjudging: 7 commitments\r\x1b[K"
        assert said == (told if terminal else "")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, World]:
    folder = tmp_path_factory.mktemp("exports")
    world = honest()
    world.write(folder)
    return folder, world


# The exporter's clock is the one value that no signature or proof reaches, and no check depends on.
UNPROVED = b'"created_ms":'


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["a.jsonl", "b.jsonl", "registry.jsonl"]), st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_is_found_and_its_file_named(
    exported: tuple[Path, World], name: str, position: int, change: int
) -> None:
    folder, world = exported
    report = audited_with(folder, world, name, position, change, forged=False)
    assert report.exit_status != 0
    assert any(finding.place.file == name for finding in report.findings)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["a.jsonl", "b.jsonl", "registry.jsonl"]), st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_is_found_even_when_the_last_line_is_forged(
    exported: tuple[Path, World], name: str, position: int, change: int
) -> None:
    folder, world = exported
    report = audited_with(folder, world, name, position, change, forged=True)
    assert report.exit_status != 0
    assert any(finding.place.file == name for finding in report.findings)


def audited_with(
    folder: Path, world: World, name: str, position: int, change: int, *, forged: bool
) -> Report:
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    whole = bytearray(b"".join(lines[:-1] if forged else lines))
    clock = whole.index(UNPROVED) + len(UNPROVED)
    position %= len(whole)
    assume(not forged or not clock <= position < clock + 13)
    whole[position] ^= change
    with TemporaryDirectory() as temporary:
        bad = Path(temporary) / name
        if forged:
            reseal(bad, [*bytes(whole).splitlines(keepends=True), lines[-1]])
        else:
            bad.write_bytes(whole)
        files = {one: folder / one for one in ("a.jsonl", "b.jsonl", "registry.jsonl")} | {name: bad}
        return audit([files["a.jsonl"], files["b.jsonl"]], files["registry.jsonl"], world.trust)

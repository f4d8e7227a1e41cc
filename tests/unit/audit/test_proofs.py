"""What the audit hands out against who contradicted themselves convinces another audit, and only of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from indai.client.audit import Report, Severity, audit
from indai.client.audit.report import Proof
from indai.client.audit.twowords import TwoWords
from indai.client.fraud import Evidence, read_evidence
from indai.client.keytie import KeyTie
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.leaf import LeafKind
from indai.protocol.logkeys import announce
from indai.protocol.operations import MAX_CHAIN, MAX_OPERATION, SPARE_LINKS, UPDATE
from indai.protocol.registryleaf import parse_registry_leaf

from .event_lies import two_events_under_one_number
from .lies import checks, honest, receipt_and_refusal, rotated
from .worlds import ALICE, BOB, DAY, NODE_A, NOW, Mirror, Node, World, key, write


def forked(*, longer: bool) -> World:
    """node-a shows one ledger to one reader, and another to bob's node."""
    world = honest()
    fork = dataclasses.replace(world.a, leaves=list(world.a.leaves), contents=list(world.a.contents))
    fork.leaves[0] = fork.leaves[0][:-1] + b"?"
    if longer:
        world.a.add(LeafKind.DECISION, ALICE, b"\x02" * 32, b"y", NOW + 9)
        world.a.contents[-1] = None
    world.b.heard = [fork.note(3)]
    return world


def retried(world: World, report: Report, folder: Path, registry: bool = True) -> Report:
    """Another audit, of nothing but the proofs and the registry."""
    paths = []
    for proof in report.proofs:
        path = folder / proof.name
        path.write_bytes(proof.content)
        paths.append(path)
    return audit(paths, folder / "registry.jsonl" if registry else None, world.trust)


@pytest.mark.parametrize("longer", [True, False])
def test_a_split_view_becomes_a_file_that_proves_it_alone(longer: bool, tmp_path: Path) -> None:
    world = forked(longer=longer)
    report = world.audit(tmp_path)
    (proof,) = report.proofs
    evidence = Evidence.parse(proof.content)
    assert (evidence.is_proof, evidence.log.name) == (True, world.a.origin)
    again = retried(world, report, tmp_path)
    assert (checks(again, Severity.UNREADABLE), again.severity) == ({"split-view"}, Severity.FRAUD)


def test_two_heads_of_one_size_are_a_proof_without_any_export_of_their_log(tmp_path: Path) -> None:
    world = forked(longer=False)
    world.b.heard.append(world.a.note(3))
    (proof,) = world.audit(tmp_path, ("b",)).proofs
    assert Evidence.parse(proof.content).is_proof


def forked_over_a_change_of_keys(*, announced: bool = True, size: int = 3) -> World:
    """The ledger has another key, and the former one has signed another tree of this size."""
    world = rotated(announced=announced)
    world.a.head_sizes = [3]
    fork = dataclasses.replace(world.a, key=key("fork"), leaves=[b"fork", *world.a.leaves[1:]])
    fork.head_key = honest().a.key
    world.b.heard = [fork.note(size)]
    return world


@pytest.mark.rule("FRD-03")
@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("size", [2, 3])
def test_two_histories_under_two_keys_become_a_file_that_ties_them(
    announced: bool, size: int, tmp_path: Path
) -> None:
    world = forked_over_a_change_of_keys(announced=announced, size=size)
    report = world.audit(tmp_path)
    (proof,) = report.proofs
    evidence = Evidence.parse(proof.content)
    assert evidence.tie is not None
    assert (evidence.is_proof, evidence.prefix is None) == (True, size == 3)
    assert bool(evidence.tie.announcements) is announced
    assert bool(evidence.tie.operations) is not announced
    again = retried(world, report, tmp_path)
    assert checks(again, Severity.UNREADABLE) == {"split-view"}
    assert checks(retried(world, report, tmp_path, registry=False), Severity.OPEN) == {"evidence"}


def test_the_longest_history_of_a_node_is_read_back_and_no_file_is_written_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = forked_over_a_change_of_keys(announced=False)
    node = world.registry.chains[NODE_A]
    for day in range(1, 4):  # what comes after both keys were named shows nothing more
        world.registry.submit(UPDATE, NODE_A, node.state, NOW + day * DAY)
    (proof,) = world.audit(tmp_path).proofs
    evidence = Evidence.parse(proof.content)
    assert evidence.tie is not None
    assert len(evidence.tie.operations) == 2
    history = ((NOW, b"\xff" * MAX_OPERATION),) * (MAX_CHAIN + SPARE_LINKS)
    longest = dataclasses.replace(evidence, tie=dataclasses.replace(evidence.tie, operations=history))
    (tmp_path / "longest.jsonl").write_bytes(longest.encode())
    assert read_evidence(tmp_path / "longest.jsonl") == longest
    twice = dataclasses.replace(longest, tie=dataclasses.replace(evidence.tie, operations=history * 2))
    with pytest.raises(InvalidInput, match="at most 8 MiB") as refused:
        twice.encode()
    assert refused.value.reason is Reason.TOO_LARGE
    (tmp_path / "twice.jsonl").write_bytes(longest.encode() * 2)
    with pytest.raises(InvalidInput, match="at most 8 MiB"):
        read_evidence(tmp_path / "twice.jsonl")
    monkeypatch.setattr("indai.client.fraud.MAX_FILE", len(proof.content) - 1)
    report = world.audit(tmp_path)
    assert (report.proofs, report.severity) == ((), Severity.FRAUD)
    (note,) = [one for one in report.findings if one.severity is Severity.NOTE and one.check == "split-view"]
    assert "keep the exports" in note.message.lower()


def test_a_fork_is_proved_under_one_key_where_it_can_be(tmp_path: Path) -> None:
    world = rotated()
    fork = dataclasses.replace(world.a, leaves=[b"fork", *world.a.leaves[1:]], head_sizes=[])
    world.b.heard = [fork.note(2)]
    ties = [Evidence.parse(proof.content).tie for proof in world.audit(tmp_path).proofs]
    assert sorted(tie is None for tie in ties) == [False, True]  # beside the former key's head of that size


@pytest.mark.rule("FRD-03")
def test_what_ties_no_two_keys_of_the_ledger_proves_nothing(tmp_path: Path) -> None:
    proofs: list[Proof] = []
    for said in (True, False):
        world = forked_over_a_change_of_keys(announced=said)
        proofs += world.audit(tmp_path).proofs
    whole, unannounced = (Evidence.parse(proof.content) for proof in proofs)
    assert whole.tie is not None
    assert unannounced.tie is not None
    origin, (note,), (first, *more) = whole.log.name, whole.tie.announcements, unannounced.tie.operations
    third = key("third")
    onward = announce(origin, key("second"), third)
    others = World().registry
    stranger = [parse_registry_leaf(entry) for entry in others.entries]
    persons = [(leaf.time_ms, leaf.body) for leaf in stranger if b"ind.ai/alice" in leaf.body]
    ties = {
        "one way": KeyTie(whole.tie.later),
        "one way from": dataclasses.replace(whole.tie, operations=unannounced.tie.operations),
        "not by the key before": dataclasses.replace(whole.tie, announcements=(onward,)),
        "is of another key": dataclasses.replace(whole.tie, announcements=(note, onward)),
        "does not verify": dataclasses.replace(whole.tie, announcements=(note[:-8] + b"AAAAAA=\n",)),
        "do not name both": dataclasses.replace(unannounced.tie, operations=(first,)),
        "on another handle": dataclasses.replace(unannounced.tie, operations=tuple(persons[:1])),
        "can only be the first": dataclasses.replace(unannounced.tie, operations=(first, first, *more)),
    }
    for words, tie in ties.items():
        with pytest.raises(ProtocolError) as caught:
            dataclasses.replace(whole, tie=tie).heads()
        assert words in caught.value.message
    # The other way about: a later key is none that was had before.
    with pytest.raises(ProtocolError, match="do not name both"):
        KeyTie(whole.log, operations=unannounced.tie.operations).check(whole.tie.later)
    one_key = dataclasses.replace(whole, larger=whole.smaller)
    with pytest.raises(ProtocolError, match="by one of the two keys"):
        one_key.heads()
    # Both keys are the ledger's own, and the registry names one of them alone.
    world = forked_over_a_change_of_keys()
    world.registry = honest().registry
    world.b.heard = []
    (tmp_path / proofs[0].name).write_bytes(proofs[0].content)
    write(tmp_path / "registry.jsonl", world.registry.records())
    report = audit([tmp_path / proofs[0].name], tmp_path / "registry.jsonl", world.trust)
    assert [(one.check, one.severity) for one in report.findings] == [("evidence", Severity.INVALID)]


def test_a_registry_that_signed_two_histories_is_proved_too(tmp_path: Path) -> None:
    world, other = honest(), Mirror()
    other.signed = [b"another"] * len(world.registry.entries)
    other.entries = list(world.registry.entries)
    note = other.records()[1]
    records = world.registry.records()
    paths = world.write(tmp_path)
    write(tmp_path / "registry.jsonl", [*records[:2], note, *records[2:]])
    report = audit(paths, tmp_path / "registry.jsonl", world.trust)
    assert [Evidence.parse(proof.content).is_proof for proof in report.proofs] == [True]


@pytest.mark.parametrize("lie", [two_events_under_one_number, receipt_and_refusal])
def test_two_words_become_a_file_that_another_audit_believes(
    lie: Callable[[], World], tmp_path: Path
) -> None:
    world = lie()
    report = world.audit(tmp_path)
    assert len(report.proofs) == 1
    again = retried(world, report, tmp_path)
    assert (checks(again, Severity.NOTE), again.severity) == ({"contradiction"}, Severity.FRAUD)
    assert BOB in again.findings[0].message
    # Without a registry nobody knows whose keys these are.
    assert checks(retried(world, report, tmp_path, registry=False), Severity.OPEN) == {"evidence"}


def test_one_event_twice_proves_nothing(tmp_path: Path) -> None:
    world = two_events_under_one_number()
    (proof,) = world.audit(tmp_path).proofs
    words = TwoWords.parse(proof.content)
    (tmp_path / "same.json").write_bytes(TwoWords(words.one, words.one).encode())
    report = audit([tmp_path / "same.json"], tmp_path / "registry.jsonl", world.trust)
    assert checks(report, Severity.OPEN) == {"evidence"}


def test_evidence_against_a_ledger_needs_a_key_that_the_registry_shows(tmp_path: Path) -> None:
    world = honest()
    liar = Node(NODE_A, ALICE, key("liar"), world.registry.network)
    one, other = (dataclasses.replace(liar, leaves=[leaf]).note(1).encode() for leaf in (b"one", b"other"))
    path = Evidence.of(liar.signer().verifier, one, other).write(tmp_path)
    paths = world.write(tmp_path)
    report = audit([*paths, path], tmp_path / "registry.jsonl", world.trust)
    assert [(one.check, one.severity) for one in report.findings] == [("evidence", Severity.INVALID)]
    assert checks(audit([path], None, world.trust), Severity.OPEN) == {"evidence"}


def test_a_pair_of_a_ledgers_heads_is_settled_by_its_export(tmp_path: Path) -> None:
    world = honest()
    fork = dataclasses.replace(world.a, leaves=[b"fork", *world.a.leaves[1:]])
    signer = world.a.signer()
    pair = Evidence.of(signer.verifier, fork.note(2).encode(), world.a.note(3).encode())
    assert not pair.is_proof
    path = pair.write(tmp_path)
    paths = world.write(tmp_path)
    report = audit([*paths, path], tmp_path / "registry.jsonl", world.trust)
    assert report.severity is Severity.FRAUD
    (proof,) = report.proofs
    assert Evidence.parse(proof.content).is_proof
    alone = audit([path], tmp_path / "registry.jsonl", world.trust)
    assert [(one.check, one.severity) for one in alone.findings] == [("evidence", Severity.OPEN)]


def test_a_damaged_proof_is_named_as_a_file(tmp_path: Path) -> None:
    world = receipt_and_refusal()
    (proof,) = world.audit(tmp_path).proofs
    (tmp_path / "bad.json").write_bytes(proof.content + b" ")
    report = audit([tmp_path / "bad.json"], tmp_path / "registry.jsonl", world.trust)
    assert (checks(report, Severity.OPEN), report.exit_status) == ({"file"}, 2)
    with pytest.raises(InvalidInput):
        Evidence.parse(proof.content)

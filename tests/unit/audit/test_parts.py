"""An export read in slices, in one process or several, gives the report that it gives as a whole."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.client import exportslices
from indai.client.audit import Report, Severity, Verdict, audit, parts, signatures
from indai.client.audit.parts import WORTH_BYTES, worthwhile
from indai.client.audit.shared import SharedDigests
from indai.client.exports import read_export
from indai.client.exportslices import Slice, cut, read_slice
from indai.protocol.envelope import Envelope, verify_signature
from indai.protocol.errors import InvalidInput, ProtocolError, Reason

from .lies import checks
from .test_audit_checks import GAPS, LIES
from .worlds import NOW, Deal, Life, World


def said(report: Report) -> tuple[object, ...]:
    """Everything in a report; findings may come in another order."""
    return (
        report.commitments,
        sorted(str(one.to_json()) for one in report.findings),
        report.counts,
        report.proofs,
    )


def in_slices(path: Path) -> Iterator[object]:
    for piece in cut(path, 600):
        yield from read_slice(piece) if isinstance(piece, Slice) else (piece,)


@pytest.mark.parametrize("made", [world for _, world, _ in (*LIES, *GAPS)])
def test_every_lie_is_the_same_in_slices_of_one_line(
    made: Callable[[], World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = made()
    whole = world.audit(tmp_path)
    monkeypatch.setattr(exportslices, "SLICE_BYTES", 1)
    assert said(world.audit(tmp_path)) == said(whole)


def never_verified(envelope: Envelope, index: int, public_key: bytes) -> None:
    """In place of what verifies a signature, in this process and no other."""
    raise ProtocolError(Reason.BAD_SIGNATURE, "It was verified here.")


def test_several_processes_come_to_the_report_of_one_and_none_verifies_what_another_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    deals = [Deal(world, number=number, at_ms=NOW + number) for number in range(8)]
    lives = [Life(deal, deal.run().mid) for deal in deals]
    lives[-1].happen(lives[-1].event("CANCEL"), leaves="b")
    paths = world.write(tmp_path)
    monkeypatch.setattr(exportslices, "SLICE_BYTES", 4096)
    alone = audit(paths, tmp_path / "registry.jsonl", world.trust)
    assert alone.verdicts[Verdict.VALID.value] == 7
    assert checks(alone, Severity.NOTE) == {"event-held"}

    # The verdicts are given here, by signatures that were seen there. Events are verified with the verdicts.
    def verify_events(envelope: Envelope, index: int, public_key: bytes) -> None:
        (verify_signature if envelope.kind == "event" else never_verified)(envelope, index, public_key)

    monkeypatch.setattr(signatures, "verify_signature", verify_events)
    together = audit(paths, tmp_path / "registry.jsonl", world.trust, processes=2)
    assert said(together) == said(alone)
    # The control: read here, nothing is verified.
    assert audit(paths, tmp_path / "registry.jsonl", world.trust).verdicts[Verdict.INVALID.value] == 8


def dies(_: Slice) -> None:
    """What a reading process does that the system kills."""
    os._exit(9)


def test_an_audit_whose_processes_are_killed_goes_on_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    for number in range(4):
        Deal(world, number=number, at_ms=NOW + number).run()
    paths = world.write(tmp_path)
    monkeypatch.setattr(exportslices, "SLICE_BYTES", 512)
    whole = audit(paths, tmp_path / "registry.jsonl", world.trust)
    monkeypatch.setattr(parts, "_read", dies)
    cutting = parts.Readers.parts

    def slowly(readers: parts.Readers, slices: Iterator[Slice]) -> Iterator[tuple[Slice, parts.Part]]:
        """All slices but the first are handed out when their readers are known to be dead."""

        def late() -> Iterator[Slice]:
            for number, slice_ in enumerate(slices):
                if number == 1 and readers._pool is not None:
                    with pytest.raises(BrokenProcessPool):
                        readers._pool.submit(dies, slice_).result()
                yield slice_

        return cutting(readers, late())

    monkeypatch.setattr(parts.Readers, "parts", slowly)
    assert said(audit(paths, tmp_path / "registry.jsonl", world.trust, processes=2)) == said(whole)


def test_python_looks_for_cycles_as_before_when_audits_have_ended(tmp_path: Path) -> None:
    usual, paths, seen = gc.get_threshold(), World().write(tmp_path), list[int]()

    def told(*_: object) -> None:
        seen.append(gc.get_threshold()[0])
        if len(seen) == 1:
            audit(paths, None)  # one inside another, as two at once

    audit(paths, tmp_path / "registry.jsonl", progress=told)
    assert seen[0] > usual[0]
    assert gc.get_threshold() == usual


_digests = st.binary(min_size=32, max_size=32)


@given(st.lists(_digests.filter(any), max_size=64), _digests)
def test_a_shared_digest_may_be_forgotten_and_is_never_made_up(put: list[bytes], other: bytes) -> None:
    table = SharedDigests(get_context("spawn"), 0)
    for digest in put:
        table.add(digest)
        assert digest in table
    assert (other in table) <= (other in put)


def test_slices_hold_every_line_once_and_no_thread_is_cut(tmp_path: Path) -> None:
    world = World()
    for number in range(3):
        Deal(world, number=number, at_ms=NOW + number).run()
    path, _ = world.write(tmp_path)
    records = list(read_export(path))
    pieces = list(cut(path, 1))
    slices = [piece for piece in pieces if isinstance(piece, Slice)]
    taken = [one for piece in slices for one in read_slice(piece)]
    assert [piece for piece in pieces if not isinstance(piece, Slice)] + taken == [
        *records[:2],
        records[-1],
        *records[2:-1],
    ]
    assert [len(one.lines) for one in slices if one.stage == "message"] == [4, 4, 4]


@pytest.mark.parametrize("at", range(2, 14))
def test_a_line_that_does_not_belong_is_refused_as_in_the_whole_file(at: int, tmp_path: Path) -> None:
    world = World()
    Deal(world).run()
    path, _ = world.write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    if at >= len(lines):
        return
    for changed in (
        [*lines[:at], lines[at - 1], *lines[at:]],
        [*lines[:at], *lines[at + 1 :]],
        [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]],
        [*lines[:at], lines[at].replace(b'":', b'": ', 1), *lines[at + 1 :]],
        lines[:at],
    ):
        path.write_bytes(b"".join(changed))
        with pytest.raises(InvalidInput) as whole:
            list(read_export(path))
        with pytest.raises(InvalidInput) as sliced:
            list(in_slices(path))
        assert (sliced.value.message, sliced.value.metadata) == (whole.value.message, whole.value.metadata)


def test_small_exports_are_not_worth_a_process(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(WORTH_BYTES)
    assert worthwhile([tmp_path / "small", tmp_path / "missing"]) == 1
    assert worthwhile([tmp_path / "large"]) >= 1

"""A receipt file is checked with a mirror of the registry alone; an export yields one without a node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from indai.client.audit.receipts import check_receipt, key_history
from indai.client.receiptfile import ReceiptFile, receipt_in_export
from indai.protocol.cosereceipt import sign_receipt
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason
from indai.protocol.merkle import inclusion_proof, leaf_hash, root

from tests.unit.cli.runs import run, run_json

from .worlds import ALICE, BOB, NODE_B, NOW, Deal, Life, World

ROTATED = Path(__file__).parents[2] / "conformance" / "rotated"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("receipts")


@pytest.fixture(scope="module")
def world(folder: Path) -> World:
    world = World()
    deal = Deal(world)
    life = Life(deal, deal.run().mid)
    life.happen(life.event("CANCEL"))
    world.write(folder)
    return world


@pytest.fixture(scope="module")
def agreed(world: World, folder: Path) -> ReceiptFile:
    mid = next(one.mid for one in world.b.contents if one and one.mid == _commitment(world))
    return receipt_in_export(folder / "b.jsonl", mid)


def _commitment(world: World) -> bytes:
    return Deal(world).agreed().mid


def with_cose(world: World, receipt: ReceiptFile) -> ReceiptFile:
    hashes = [leaf_hash(leaf) for leaf in world.b.leaves]
    index = world.b.leaves.index(receipt.leaf)
    path = tuple(inclusion_proof(hashes, index))
    cose = sign_receipt(world.b.origin, world.b.key, len(hashes), root(hashes), index, path)
    return replace(receipt, cose=cose.encode())


def test_an_export_yields_a_receipt_that_needs_only_the_registry(
    world: World, agreed: ReceiptFile, folder: Path
) -> None:
    shown = check_receipt(agreed, key_history(folder / "registry.jsonl", world.trust))
    assert (shown.what, shown.parties, shown.contested) == ("commitment", (BOB, ALICE), ())
    assert (shown.proved.log, shown.proved.size) == (world.b.origin, len(world.b.leaves))
    assert ReceiptFile.parse(agreed.encode()) == agreed


def test_an_event_has_a_receipt_too(world: World, folder: Path) -> None:
    last = world.b.contents[-1]
    assert last is not None
    receipt = receipt_in_export(folder / "b.jsonl", last.mid)
    shown = check_receipt(receipt, key_history(folder / "registry.jsonl", world.trust))
    assert (shown.what, shown.mid, shown.parties) == ("event", last.mid, (BOB, ALICE))


def test_both_encodings_hold_together_and_each_alone(world: World, agreed: ReceiptFile, folder: Path) -> None:
    history, both = key_history(folder / "registry.jsonl", world.trust), with_cose(world, agreed)
    for receipt in (both, replace(both, tlog_proof=b""), replace(both, envelope=b"", opening=b"")):
        assert check_receipt(receipt, history).proved.index == check_receipt(agreed, history).proved.index
    assert check_receipt(replace(both, envelope=b"", opening=b""), history).what == ""


@pytest.mark.parametrize("part", ["leaf", "tlog_proof", "cose", "opening", "envelope"])
def test_one_changed_byte_anywhere_is_found(
    part: str, world: World, agreed: ReceiptFile, folder: Path
) -> None:
    history, both = key_history(folder / "registry.jsonl", world.trust), with_cose(world, agreed)
    whole = getattr(both, part)
    for place in (len(whole) // 2, len(whole) - 5):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        with pytest.raises(ProtocolError):
            check_receipt(replace(both, **{part: changed}), history)


def test_encodings_of_two_places_do_not_go_together(world: World, agreed: ReceiptFile, folder: Path) -> None:
    last = world.b.contents[-1]
    assert last is not None
    other = with_cose(world, receipt_in_export(folder / "b.jsonl", last.mid))
    with pytest.raises(ProtocolError):
        check_receipt(replace(agreed, cose=other.cose), key_history(folder / "registry.jsonl", world.trust))


def test_a_commitment_that_one_party_alone_signed_is_not_shown_as_agreed(tmp_path: Path) -> None:
    world = World()
    deal = Deal(world)
    offer = deal.offer(deal.propose())
    deal.commit(world.b, offer, NOW)
    world.write(tmp_path)
    with pytest.raises(ProtocolError) as caught:
        check_receipt(
            receipt_in_export(tmp_path / "b.jsonl", offer.mid), key_history(tmp_path / "registry.jsonl", None)
        )
    assert caught.value.reason is Reason.BAD_SIGNATURE


def test_a_mirror_that_lies_is_not_believed(world: World, folder: Path, tmp_path: Path) -> None:
    lines = (folder / "registry.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "registry.jsonl").write_bytes(b"".join([*lines[:3], *lines[4:]]))
    with pytest.raises(InvalidInput):
        key_history(tmp_path / "registry.jsonl", world.trust)
    with pytest.raises(InvalidInput):
        key_history(folder / "registry.jsonl", World().trust.__class__(()))


def test_what_is_not_there_has_no_receipt(folder: Path, world: World) -> None:
    with pytest.raises(NotFound):
        receipt_in_export(folder / "b.jsonl", bytes(32))
    for raw in (b"", b"{}", b"[]"):
        with pytest.raises(InvalidInput):
            ReceiptFile.parse(raw)


def test_the_commands_make_and_check_a_receipt_without_a_node(
    world: World, agreed: ReceiptFile, folder: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "tea.json")
    options = ("--registry", str(folder / "registry.jsonl"))
    mid = _commitment(world).hex()
    made = run_json("receipt", "get", "--export", str(folder / "b.jsonl"), "--mid", mid, "-o", out)
    assert made["leaf"] == agreed.leaf.hex()
    shown = run_json("receipt", "verify", out, *options)
    assert (shown["mid"], shown["parties"]) == (mid, [BOB, ALICE])
    text = run("receipt", "verify", out, *options).output
    assert "signed by its parties" in text
    assert "--network" in text
    broken = replace(agreed, leaf=agreed.leaf[:-1] + bytes([agreed.leaf[-1] ^ 1]))
    Path(out).write_bytes(broken.encode())
    assert run("receipt", "verify", out, *options).exit_code == Reason.BAD_PROOF.status.exit


@pytest.mark.parametrize("name", ["receipt.cose", "receipt.tlog-proof"])
def test_the_command_checks_a_raw_receipt_whose_keys_were_rotated(name: str) -> None:
    shown = run_json(
        *("receipt", "verify", str(ROTATED / name), "--leaf", (ROTATED / "leaf.bin").read_bytes().hex()),
        *("--registry", str(ROTATED / "registry.jsonl")),
    )
    assert (shown["log"], shown["index"], shown["what"]) == (f"{NODE_B}/ledger/2026", 2, "")


def test_a_receipt_command_that_says_too_little_is_told_what_to_say(folder: Path) -> None:
    for wrong in (("get",), ("get", "--export", "b.jsonl"), ("get", "0193f2ab4c", "--export", "b.jsonl")):
        assert run("receipt", *wrong).exit_code == 2
    assert run("receipt", "verify", str(folder / "nothing")).exit_code == 2

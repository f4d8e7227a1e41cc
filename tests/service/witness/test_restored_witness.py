"""A witness restored from a backup would cosign another history from there: it is found out, and refuses."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.witnessing import AddCheckpoint

from tests.unit.test_witnessing import LOG, note, request


@pytest.fixture
async def guarded(start_witness: Any, tmp_path: Path) -> Any:
    return await start_witness("north", LOG.verifier, guard=tmp_path / "guard")


async def restored(witness: Any, backup: Path) -> None:
    await witness.stop()
    shutil.rmtree(witness.directory)
    shutil.copytree(backup, witness.directory)


def refusal_of(error: pytest.ExceptionInfo[IndaiError]) -> Reason:
    assert "Retire it" in (error.value.hint or "")
    return error.value.reason


async def test_a_witness_restored_from_yesterdays_backup_refuses_to_start(
    guarded: Any, tmp_path: Path
) -> None:
    await guarded.ask(request(0, 5))
    shutil.copytree(guarded.directory, tmp_path / "backup")
    await guarded.ask(request(5, 9))
    await restored(guarded, tmp_path / "backup")
    with pytest.raises(IndaiError) as caught:
        await guarded.start()
    assert refusal_of(caught) is Reason.LOG_ROLLED_BACK


async def test_a_witness_restored_without_its_guard_refuses_to_start(guarded: Any, tmp_path: Path) -> None:
    await guarded.ask(request(0, 5))
    await guarded.stop()
    shutil.rmtree(tmp_path / "guard")
    with pytest.raises(IndaiError) as caught:
        await guarded.start()
    assert refusal_of(caught) is Reason.LOG_ROLLED_BACK


async def test_a_witness_that_lost_its_heads_and_not_its_guard_refuses_to_start(guarded: Any) -> None:
    await guarded.ask(request(0, 5))
    await guarded.stop()
    shutil.rmtree(guarded.directory)
    with pytest.raises(IndaiError) as caught:
        await guarded.start()
    assert refusal_of(caught) is Reason.LOG_ROLLED_BACK


async def test_a_guarded_witness_that_was_only_restarted_goes_on(guarded: Any, tmp_path: Path) -> None:
    await guarded.ask(request(0, 5))
    behind = (tmp_path / "guard").glob("*.head").__next__()
    older = behind.read_bytes()
    await guarded.ask(request(5, 9))
    await guarded.stop()
    behind.write_bytes(older)  # killed after it kept the head, before the guard had it
    await guarded.start()
    assert (await guarded.ask(request(9, 12)))[0] == 200
    assert behind.read_bytes() == note(12)


async def test_a_restored_witness_that_is_shown_its_own_signature_cosigns_nothing(
    start_witness: Any, tmp_path: Path
) -> None:
    witness = await start_witness("north", LOG.verifier)
    await witness.ask(request(0, 5))
    shutil.copytree(witness.directory, tmp_path / "backup")
    _, line, _ = await witness.ask(request(5, 9))
    await restored(witness, tmp_path / "backup")
    await witness.start()
    shown = request(5, 9)
    refused = AddCheckpoint(shown.old_size, shown.proof, shown.note + line)
    assert (await witness.ask(refused))[0] == 403
    assert (await witness.ask(shown))[0] == 200  # the same history without the proof of it

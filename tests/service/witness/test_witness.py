"""A witness over HTTP: what it answers, what it keeps, and what a forking log gets out of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from indai.client.fraud import read_evidence
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.note import open_note
from indai.protocol.witnessing import AddCheckpoint
from indai.tlog.witness import Witness

from tests.unit.test_witnessing import FORK, LOG, note, request

from .conftest import key


@pytest.mark.rule("WIT-02")
async def test_a_witness_cosigns_with_its_own_time(start_witness: Any, witness_clock: Any) -> None:
    witness = await start_witness("north", LOG.verifier)
    status, body, kind = await witness.ask(request(0, 5))
    assert (status, kind) == (200, "text/plain")
    opened = open_note(note(5) + body, [LOG.verifier, witness.verifier])
    assert {signed.name: signed.time for signed in opened.verified} == {
        LOG.name: None,
        "north": witness_clock() // 1000,
    }
    witness_clock.now += 15_000
    assert (await witness.ask(request(5, 5)))[1] != body


@pytest.mark.rule("WIT-03")
async def test_a_restarted_witness_goes_on_from_the_last_head(start_witness: Any) -> None:
    witness = await start_witness("north", LOG.verifier)
    await witness.ask(request(0, 5))
    await witness.stop()
    await witness.start()
    assert await witness.ask(request(0, 9)) == (409, b"5\n", "text/x.tlog.size")
    assert (await witness.ask(request(5, 9)))[0] == 200
    assert await witness.ask(request(5, 9)) == (409, b"9\n", "text/x.tlog.size")


async def test_every_refusal_arrives_with_its_status(start_witness: Any) -> None:
    witness = await start_witness("north", LOG.verifier)
    await witness.ask(request(0, 5))
    stranger = await start_witness("south")
    assert (await witness.ask(b"garbage"))[0] == 400
    assert (await witness.ask(b"old 1\n\n" + bytes(200_000)))[0] == 400
    assert (await stranger.ask(request(0, 5)))[0] == 404
    forged = note(6).replace(note(6)[-20:-10], note(5)[-20:-10])
    assert (await witness.ask(AddCheckpoint(5, (), forged)))[0] == 403
    assert (await witness.ask(AddCheckpoint(7, (), note(6))))[0] == 400


@pytest.mark.rule("FRD-01")
async def test_a_log_that_shows_two_histories_gets_no_signature_and_leaves_the_proof(
    start_witness: Any,
) -> None:
    witness = await start_witness("north", LOG.verifier)
    assert (await witness.ask(request(0, 5)))[0] == 200
    assert (await witness.ask(request(5, 9, FORK)))[0] == 422
    assert (await witness.ask(AddCheckpoint(5, (), note(5, FORK))))[0] == 409
    (path,) = witness.directory.glob("fraud-*.jsonl")
    assert read_evidence(path).is_proof
    assert (await witness.ask(request(5, 6)))[0] == 200  # the honest history goes on


@pytest.mark.rule("WIT-03")
async def test_of_requests_at_once_the_larger_head_is_never_rolled_back(start_witness: Any) -> None:
    witness = await start_witness("north", LOG.verifier)
    asked = [request(0, size) for size in (30, 7, 12, 20)]
    answers = await asyncio.gather(*(witness.ask(one) for one in asked))
    assert sorted(status for status, _, _ in answers) == [200, 409, 409, 409]
    kept = next(size for size, got in zip((30, 7, 12, 20), answers, strict=True) if got[0] == 200)
    assert await witness.ask(request(0, 33)) == (409, b"%d\n" % kept, "text/x.tlog.size")


@pytest.mark.rule("WIT-03")
async def test_a_head_that_cannot_be_kept_is_not_cosigned(
    start_witness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = await start_witness("north", LOG.verifier)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("indai.tlog.headfile.write_private", full)
        assert (await witness.ask(request(0, 5)))[0] == 503
    assert (await witness.ask(request(0, 6)))[0] == 200


async def test_a_directory_has_one_witness(start_witness: Any) -> None:
    running = await start_witness("north", LOG.verifier)
    with (
        pytest.raises(IndaiError) as refused,
        Witness.open("north", key("north"), [], running.directory, lambda: 0),
    ):
        pass
    assert refused.value.reason is Reason.LOG_FENCED

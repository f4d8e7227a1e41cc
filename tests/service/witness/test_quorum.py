"""A registry with witnesses: clients believe the quorum, whoever is down and whoever lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.protocol.note import parse_note

from tests.service.registry.conftest import KEYS, Rig, run_registry

from .conftest import quorum_of


def policy_of(witnesses: Any) -> NetworkPolicy:
    return NetworkPolicy.of_registry(KEYS.verifier, KEYS.time_verifier, witnesses)


async def cosigned_by(rig: Rig) -> set[str]:
    names = {line.name for line in parse_note((await rig.registry.publish()).note)[1]}
    return names - {KEYS.origin, KEYS.time_name}


@pytest.fixture
async def three(start_witness: Any) -> list[Any]:
    return [await start_witness(name, KEYS.verifier) for name in ("north", "south", "west")]


@pytest.mark.rule("LOG-06")
async def test_a_client_believes_what_the_quorum_has_cosigned(
    database: Any, tmp_path: Path, three: Any, witness_clock: Any
) -> None:
    policy = quorum_of(2, *three)
    async with run_registry(database.pool, tmp_path / "log", witness_clock, policy) as rig:
        await rig.submit(rig.claim("ind.ai/alice"))
        resolver = Resolver(rig.stub, policy_of(policy), witness_clock)
        found = await resolver.resolve("ind.ai/alice", max_age_ms=60_000)
        assert found.head.time_ms == witness_clock()
        strict = Resolver(rig.stub, policy_of(quorum_of(3, *three[:2], three[2])), witness_clock)
        await three[2].stop()
        witness_clock.now += 15_000
        await rig.submit(rig.claim("ind.ai/bob"))
        assert await cosigned_by(rig) == {"north", "south"}
        assert (await resolver.tail()).size == 2
        with pytest.raises(IndaiError) as refused:
            await strict.resolve("ind.ai/bob")
        assert refused.value.reason is Reason.BAD_CHECKPOINT


@pytest.mark.rule("REG-13")
async def test_without_a_quorum_the_last_head_grows_old_and_comes_back(
    database: Any, tmp_path: Path, three: Any, witness_clock: Any
) -> None:
    policy = quorum_of(2, *three)
    async with run_registry(database.pool, tmp_path / "log", witness_clock, policy) as rig:
        alice = rig.claim("ind.ai/alice")
        await rig.submit(alice)
        resolver = Resolver(rig.stub, policy_of(policy), witness_clock)
        await resolver.resolve("ind.ai/alice")
        for witness in three[1:]:
            await witness.stop()
        with pytest.raises(Unavailable) as waiting:
            await rig.submit(rig.claim("ind.ai/bob"))
        assert waiting.value.reason is Reason.STALE_HEAD
        witness_clock.now += 61_000
        with pytest.raises(Unavailable) as stale:
            await resolver.resolve("ind.ai/alice", max_age_ms=60_000)
        assert stale.value.reason is Reason.STALE_HEAD
        await resolver.resolve("ind.ai/alice", max_age_ms=600_000)  # still good enough for other uses
        await three[1].start()
        witness_clock.now += 3_000
        assert (await resolver.resolve("ind.ai/bob", max_age_ms=60_000)).handle == "ind.ai/bob"


async def test_a_registry_starts_without_its_witnesses_and_is_believed_when_they_return(
    database: Any, tmp_path: Path, three: Any, witness_clock: Any
) -> None:
    policy = quorum_of(2, *three)
    for witness in three:
        await witness.stop()
    async with run_registry(database.pool, tmp_path / "log", witness_clock, policy) as rig:
        resolver = Resolver(rig.stub, policy_of(policy), witness_clock)
        with pytest.raises(IndaiError) as refused:
            await resolver.resolve("ind.ai/alice")
        assert refused.value.reason is Reason.BAD_CHECKPOINT
        for witness in three:
            await witness.start()
        witness_clock.now += 3_000
        await rig.submit(rig.claim("ind.ai/alice"))
        assert (await resolver.resolve("ind.ai/alice")).handle == "ind.ai/alice"


async def test_a_stolen_log_key_cannot_serve_two_histories_to_those_who_share_witnesses(
    make_database: Any, tmp_path: Path, three: Any, witness_clock: Any
) -> None:
    policy = quorum_of(2, *three)
    honest, thief = await make_database(), await make_database()
    async with run_registry(honest.pool, tmp_path / "log", witness_clock, policy) as rig:
        for name in ("alice", "bob", "carol"):
            await rig.submit(rig.claim(f"ind.ai/{name}"))
        resolver = Resolver(rig.stub, policy_of(policy), witness_clock)
        await resolver.resolve("ind.ai/alice")
        async with run_registry(thief.pool, tmp_path / "thief", witness_clock, policy) as other:
            with pytest.raises(Unavailable):
                await other.submit(other.claim("ind.ai/alice"))
            victim = Resolver(other.stub, policy_of(policy), witness_clock)
            with pytest.raises(IndaiError) as refused:
                await victim.resolve("ind.ai/alice")
            assert refused.value.reason is Reason.BAD_CHECKPOINT
        # The honest log, whose witnesses said no to the thief, goes on.
        witness_clock.now += 3_000
        await rig.submit(rig.claim("ind.ai/dave"))
        assert (await resolver.tail()).size == 4


async def test_look_ups_do_not_wait_for_witnesses(
    database: Any, tmp_path: Path, three: Any, witness_clock: Any
) -> None:
    policy = quorum_of(2, *three)
    async with run_registry(database.pool, tmp_path / "log", witness_clock, policy) as rig:
        await rig.submit(rig.claim("ind.ai/alice"))
        async with rig.registry._publishing:  # as while the witnesses think
            witness_clock.now += 11_000
            assert (await rig.registry.look_up("ind.ai/alice")).record is not None

"""A log's next key takes over when the witnesses' quorum has cosigned its announcement, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import IndaiError
from indai.protocol.keys import SigningKey
from indai.protocol.note import Signer

from tests.service.registry.conftest import KEYS, ORIGIN, run_registry

from .conftest import key, quorum_of

SECOND = key("log-2")


@pytest.mark.rule("REG-44")
async def test_the_old_key_signs_on_until_the_quorum_has_cosigned_the_announcement(
    database: Any, tmp_path: Path, start_witness: Any, witness_clock: Any
) -> None:
    keys: list[SigningKey] = []
    second = Signer(ORIGIN, SECOND).verifier
    witnesses = [await start_witness(name, KEYS.verifier, second) for name in ("north", "south")]
    quorum = quorum_of(2, *witnesses)
    async with run_registry(database.pool, tmp_path / "log", witness_clock, quorum, lambda: keys) as rig:
        await rig.submit(rig.claim("ind.ai/alice"))
        policy = NetworkPolicy.of_registry(KEYS.verifier, KEYS.time_verifier, quorum)
        resolver = Resolver(rig.stub, policy, witness_clock)
        await resolver.resolve("ind.ai/alice")
        await witnesses[1].stop()
        keys.append(SECOND)
        await rig.registry.announce_next()
        with pytest.raises(IndaiError, match="quorum"):
            await rig.registry.publish()
        assert rig.registry.verifier == KEYS.verifier
        assert rig.registry.log_keys == ()
        await witnesses[1].start()
        await rig.registry.publish()
        assert rig.registry.verifier == second
        assert (await resolver.tail()).size == 2
        assert resolver.policy.log == second
        # A witness that has seen the new key refuses the old one, whoever has it now.
        await rig.submit(rig.claim("ind.ai/bob"))
        note = sign_checkpoint(Checkpoint(ORIGIN, 4, bytes(32)), [Signer(ORIGIN, KEYS.key)])
        assert (await witnesses[0].ask(b"old 3\n\n" + note))[0] == 403

"""Rotation key files, the operations built from them, and the network's policy file."""

from __future__ import annotations

from pathlib import Path

import pytest
from indai.client.handlekeys import (
    add_agent_key,
    claim,
    create_key_file,
    load_key_file,
    new_agent_key,
    retire,
    revoke_agent_key,
    rotate_agent_key,
    rotate_rotation_keys,
    set_node,
)
from indai.client.network import NetworkPolicy
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import (
    IndaiError,
    InvalidInput,
    NotFound,
    ProtocolError,
    Reason,
    Refused,
    Unavailable,
)
from indai.protocol.keys import SigningKey
from indai.protocol.note import Signer
from indai.protocol.operations import Chain, apply_operation, replay

NOW = 1_790_000_000_000
ORIGIN = "ind.ai/registry"


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


def test_a_key_file_is_private_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "alice.key"
    made = create_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key_file(path).seed == made.seed
    with pytest.raises(Refused) as caught:
        create_key_file(path)
    assert caught.value.reason is Reason.ALREADY_EXISTS
    assert load_key_file(path).seed == made.seed


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "alice.key"
    create_key_file(path)
    path.chmod(mode)
    with pytest.raises(Refused) as caught:
        load_key_file(path)
    assert "chmod 600" in caught.value.hint
    path.chmod(0o400)
    load_key_file(path)


def test_a_damaged_key_file_is_refused_without_showing_it(tmp_path: Path) -> None:
    path = tmp_path / "alice.key"
    create_key_file(path)
    whole = path.read_text()
    for damaged in (
        "",
        "{}",
        whole.replace('"seed": "', '"seed": "AAAA'),
        whole.replace("ed25519:", "ed25519:x"),
    ):
        path.write_text(damaged)
        with pytest.raises(InvalidInput) as caught:
            load_key_file(path)
        assert caught.value.__cause__ is None
        assert "seed" not in str(caught.value)


@pytest.fixture
def chain() -> Chain:
    agent = new_agent_key(key("agent").public_key, NOW)
    return replay(
        [claim("IND.ai/Alice", ORIGIN, [key("root"), key("spare")], now_ms=NOW, agent_keys=[agent])]
    )


def test_a_claim_names_the_handle_in_its_canonical_form(chain: Chain) -> None:
    assert (chain.handle, chain.registry) == ("ind.ai/alice", ORIGIN)
    chain.key_valid_at(key("agent").key_id, NOW - 100_000)  # on a clock that is behind


def test_each_builder_makes_an_operation_that_follows(chain: Chain) -> None:
    root, agent = key("root"), key("agent").key_id
    second, third = (new_agent_key(key(name).public_key, NOW) for name in ("second", "third"))
    chain = apply_operation(chain, add_agent_key(chain, root, second, now_ms=NOW + 1))
    chain = apply_operation(chain, rotate_agent_key(chain, root, agent, third, now_ms=NOW + 2))
    chain = apply_operation(chain, set_node(chain, root, "ind.ai/node-one", now_ms=NOW + 3))
    chain = apply_operation(chain, revoke_agent_key(chain, root, second.key_id, now_ms=NOW + 4))
    new = [key("new-root").public_key]
    chain = apply_operation(chain, rotate_rotation_keys(chain, key("spare"), new, now_ms=NOW + 5))
    with pytest.raises(ProtocolError):
        retire(chain, root, now_ms=NOW + 6)
    # An operation may be signed on a machine whose clock is behind the last one's.
    chain = apply_operation(chain, retire(chain, key("new-root"), now_ms=NOW))
    assert [k.revoked_at_ms for k in chain.state.agent_keys] == [NOW + 2, NOW + 4, 0]
    assert (chain.state.node, chain.seq, chain.ended_at_ms) == ("ind.ai/node-one", 6, NOW + 5)


def test_a_key_that_cannot_be_revoked_is_named(chain: Chain) -> None:
    chain = apply_operation(chain, revoke_agent_key(chain, key("root"), key("agent").key_id, now_ms=NOW))
    for wanted in (key("agent").key_id, key("other").key_id):
        with pytest.raises(NotFound, match="no agent key"):
            revoke_agent_key(chain, key("root"), wanted, now_ms=NOW)


LOG, CLOCK = Signer(ORIGIN, key("log")), Signer(ORIGIN + "/clock", key("clock"), time=NOW // 1000)
POLICY = NetworkPolicy.of_registry(LOG.verifier, CLOCK.verifier)


def test_a_policy_file_reads_back_and_names_the_network(tmp_path: Path) -> None:
    path = tmp_path / "network.policy"
    POLICY.dump(path)
    assert NetworkPolicy.load(path) == POLICY
    assert (POLICY.origin, POLICY.authority) == (ORIGIN, "ind.ai")
    assert POLICY.network == f"{ORIGIN}+{LOG.verifier.key_hash.hex()}"


def test_a_policy_that_gives_no_time_or_is_no_registrys_is_refused(tmp_path: Path) -> None:
    log, witness, quorum = POLICY.policy.format().splitlines()
    for lines in (
        [log, "quorum none"],
        [log, witness, "quorum none"],
        [witness, quorum],
        [log.replace("ind.ai/registry+", "ind.ai/other+"), witness, quorum],
        ["nonsense"],
    ):
        with pytest.raises(InvalidInput):
            NetworkPolicy.parse("".join(f"{line}\n" for line in lines))
    with pytest.raises(InvalidInput):
        NetworkPolicy.load(tmp_path / "absent")


@pytest.mark.rule("REG-13")
def test_a_head_needs_the_log_and_its_clock() -> None:
    checkpoint = Checkpoint(ORIGIN, 3, b"r" * 32)
    head = POLICY.open(sign_checkpoint(checkpoint, [LOG, CLOCK]))
    assert (head.size, head.root, head.time_ms) == (3, b"r" * 32, NOW)
    for signers in ([LOG], [CLOCK], [LOG, Signer(ORIGIN + "/clock", key("clock"))]):
        with pytest.raises(IndaiError):
            POLICY.open(sign_checkpoint(checkpoint, signers))


def test_a_file_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        POLICY.dump(tmp_path / "absent" / "network.policy")
    assert caught.value.reason is Reason.STORAGE_FULL

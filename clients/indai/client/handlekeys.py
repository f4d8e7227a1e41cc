"""Rotation keys in files that stay offline, and the operations that are signed with them.

A key file is JSON with the seed, readable by its owner alone; nothing here ever sends one anywhere. The
functions below build finished operations: sign them on any machine, submit them from another.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from indai.protocol.envelope import Envelope, payload_type, seal
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.protocol.handles import Handle
from indai.protocol.handlestate import Advertisement, AgentKey, Delegation, HandleState, NodeRecord
from indai.protocol.keys import SEED_BYTES, SigningKey, key_id
from indai.protocol.operations import (
    CREATE,
    DELEGATE,
    MAX_SKEW_MS,
    NONCE_BYTES,
    RECOVER,
    REVOKE,
    TOMBSTONE,
    TRANSFER,
    UPDATE,
    Chain,
    Link,
    Type,
    build_operation,
)
from indai.v1 import registry_pb2

_FORMAT = "ind.ai rotation key"
_VERSION = 1


def create_key_file(path: Path) -> SigningKey:
    """A new rotation key in a new file of mode 0600; raises Refused(ALREADY_EXISTS), never overwrites."""
    key = SigningKey.generate()
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "key_id": key.key_id,
        "public_key": base64.b64encode(key.public_key).decode("ascii"),
        "seed": base64.b64encode(key.seed).decode("ascii"),
    }
    try:
        # The mode is set as the file is made: there is no moment at which others can read it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        message = f"The key file {path} exists already and is not overwritten."
        raise Refused(Reason.ALREADY_EXISTS, message, hint="choose another name") from None
    except OSError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The key file {path} cannot be written.") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    return key


def load_key_file(path: Path) -> SigningKey:
    """The rotation key in a file; raises Refused(PERMISSION_DENIED) if others may read it, InvalidInput."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(65_536)
    except OSError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The key file {path} cannot be read.") from error
    if stat.S_IMODE(mode) & 0o077:
        message = f"The key file {path} can be read by others than its owner."
        raise Refused(Reason.PERMISSION_DENIED, message, hint=f"run: chmod 600 {path}")
    try:
        document = json.loads(data)
        known = document["format"] == _FORMAT and document["version"] == _VERSION
        seed = base64.b64decode(document["seed"], validate=True)
        key_id = document["key_id"]
    except (ValueError, KeyError, TypeError, binascii.Error):
        known, seed, key_id = False, b"", ""
    if not known or len(seed) != SEED_BYTES or (key := SigningKey.from_seed(seed)).key_id != key_id:
        # `from None`: the parser's own error would quote the file.
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{path} is not a rotation key file, or damaged."
        ) from None
    return key


def new_agent_key(
    public_key: bytes,
    now_ms: int,
    *,
    scopes: Sequence[str] = (),
    limits: Sequence[tuple[str, int]] = (),
    valid_until_ms: int = 0,
) -> AgentKey:
    """An agent key that is valid at once, also on a clock that is up to two minutes behind this one.

    `scopes` are the kinds of intent it may sign (empty: all), `limits` the most it may sign for in one
    commitment, by currency, in minor units (empty: no limit).
    """
    return AgentKey(
        public_key, now_ms - MAX_SKEW_MS, valid_until_ms, scopes=tuple(scopes), limits=tuple(limits)
    )


def claim(
    handle: str,
    registry: str,
    rotation_keys: Sequence[SigningKey],
    *,
    now_ms: int,
    agent_keys: Sequence[AgentKey] = (),
    node: str = "",
    node_record: NodeRecord | None = None,
    intents: Sequence[str] = (),
    delegator: str = "",
    predecessor: Chain | None = None,
) -> Envelope:
    """The CREATE that claims `handle` at the registry of this log origin, signed by the first rotation key.

    A person names a home `node`; a node has a `node_record`; a sub-agent of a sub-agent its `delegator`. A
    handle that had another subject, and was transferred or let go, has that one's chain as `predecessor`.
    Raises ProtocolError(INVALID_OPERATION, HANDLE_TAKEN), InvalidInput.
    """
    state = HandleState(
        tuple(key.public_key for key in rotation_keys),
        tuple(agent_keys),
        node,
        node_record,
        tuple(intents),
        delegator=delegator,
    )
    return build_operation(
        CREATE,
        predecessor,
        state,
        rotation_keys[0],
        issued_at_ms=now_ms,
        nonce=os.urandom(NONCE_BYTES),
        handle=str(Handle.parse(handle)),
        registry=registry,
    )


def issue_voucher(
    issuer: SigningKey, registry: str, handle: str, key_id: str, *, now_ms: int, valid_ms: int
) -> Envelope:
    """A verified identity's leave to claim `handle` with rotation key `key_id`, for `valid_ms` from now."""
    voucher = registry_pb2.Voucher(
        registry=registry,
        handle=str(Handle.parse(handle)),
        key_id=key_id,
        issued_at_ms=now_ms,
        expires_at_ms=now_ms + valid_ms,
    )
    return seal(payload_type("voucher"), voucher.SerializeToString(), [issuer])


def add_agent_key(chain: Chain, signer: SigningKey, key: AgentKey, *, now_ms: int) -> Envelope:
    """The UPDATE that lists one more agent key."""
    return _next(
        UPDATE, chain, replace(chain.state, agent_keys=(*chain.state.agent_keys, key)), signer, now_ms
    )


def rotate_agent_key(
    chain: Chain, signer: SigningKey, old_key_id: str, new: AgentKey, *, now_ms: int
) -> Envelope:
    """The REVOKE that puts agent key `new` in the place of another, which ends now."""
    revoked = _revoke(chain, old_key_id, _not_before(chain, now_ms))
    return _next(REVOKE, chain, replace(revoked, agent_keys=(*revoked.agent_keys, new)), signer, now_ms)


def revoke_agent_key(chain: Chain, signer: SigningKey, key_id: str, *, now_ms: int) -> Envelope:
    """The REVOKE that ends an agent key now; raises NotFound for a key that is not listed or is revoked."""
    return _next(REVOKE, chain, _revoke(chain, key_id, _not_before(chain, now_ms)), signer, now_ms)


def set_node(chain: Chain, signer: SigningKey, node: str, *, now_ms: int) -> Envelope:
    """The UPDATE that moves a person's handle to another home node."""
    named = str(Handle.parse(node))
    return _next(UPDATE, chain, replace(chain.state, node=named, node_record=None), signer, now_ms)


def set_node_record(chain: Chain, signer: SigningKey, record: NodeRecord, *, now_ms: int) -> Envelope:
    """The UPDATE that gives a node another address, TLS key or ledger."""
    return _next(UPDATE, chain, replace(chain.state, node="", node_record=record), signer, now_ms)


def set_intents(chain: Chain, signer: SigningKey, intents: Sequence[str], *, now_ms: int) -> Envelope:
    """The UPDATE that changes which intents a handle answers."""
    return _next(UPDATE, chain, replace(chain.state, intents=tuple(intents)), signer, now_ms)


def advertise(
    chain: Chain, signer: SigningKey, advertisement: Advertisement | None, *, now_ms: int
) -> Envelope:
    """The UPDATE that changes what a handle says of itself to strangers; None for nothing."""
    return _next(UPDATE, chain, replace(chain.state, advertisement=advertisement), signer, now_ms)


def rotate_rotation_keys(
    chain: Chain, signer: SigningKey, public_keys: Sequence[bytes], *, now_ms: int
) -> Envelope:
    """The UPDATE that replaces the rotation keys, highest authority first; `signer` is an old one."""
    return _next(UPDATE, chain, replace(chain.state, rotation_keys=tuple(public_keys)), signer, now_ms)


def delegate(chain: Chain, signer: SigningKey, delegation: Delegation, *, now_ms: int) -> Envelope:
    """The DELEGATE that gives a sub-agent this, in the place of what it had."""
    others = (one for one in chain.state.delegations if one.handle != delegation.handle)
    return _next(DELEGATE, chain, replace(chain.state, delegations=(*others, delegation)), signer, now_ms)


def end_delegation(chain: Chain, signer: SigningKey, sub: str, *, now_ms: int) -> Envelope:
    """The DELEGATE that takes everything from a sub-agent; raises NotFound when it had nothing."""
    others = tuple(one for one in chain.state.delegations if one.handle != sub)
    if len(others) == len(chain.state.delegations):
        raise NotFound(Reason.NOT_FOUND, f"{chain.handle} delegates nothing to {sub}.")
    return _next(DELEGATE, chain, replace(chain.state, delegations=others), signer, now_ms)


def recover(
    chain: Chain, signer: SigningKey, seq: int, *, now_ms: int, rotation_keys: Sequence[bytes] = ()
) -> Envelope:
    """The RECOVER that goes back to the state after operation `seq` and nullifies everything later.

    `rotation_keys` replace those of that state; without them its own stay, less those that signed what is
    nullified. Raises NotFound for no such operation, ProtocolError when the key's authority or the time is
    not enough.
    """
    base = next((link for link in chain.live if link.seq == seq), None)
    if base is None or base.state is None:
        message = f"{chain.handle} has no operation {seq} to go back to."
        raise NotFound(Reason.NOT_FOUND, message, hint=f"see indai handle history {chain.handle}")
    state = replace(base.state, rotation_keys=tuple(rotation_keys) or _not_compromised(chain, base, signer))
    return build_operation(
        RECOVER,
        chain,
        state,
        signer,
        issued_at_ms=max(now_ms, base.issued_at_ms),
        nonce=os.urandom(NONCE_BYTES),
        after=base,
    )


def transfer(chain: Chain, signer: SigningKey, successor: bytes, *, now_ms: int) -> Envelope:
    """The TRANSFER that ends this subject: who has the key `successor` (public) claims the handle next."""
    issued = _not_before(chain, now_ms)
    nonce = os.urandom(NONCE_BYTES)
    return build_operation(
        TRANSFER, chain, None, signer, issued_at_ms=issued, nonce=nonce, successor=successor
    )


def retire(chain: Chain, signer: SigningKey, *, now_ms: int) -> Envelope:
    """The TOMBSTONE that ends a handle for good."""
    return _next(TOMBSTONE, chain, None, signer, now_ms)


def _next(kind: Type, chain: Chain, state: HandleState | None, signer: SigningKey, now_ms: int) -> Envelope:
    issued = _not_before(chain, now_ms)
    return build_operation(kind, chain, state, signer, issued_at_ms=issued, nonce=os.urandom(NONCE_BYTES))


def _not_before(chain: Chain, now_ms: int) -> int:
    """Now, or the time of the operation before where that machine's clock was ahead of this one."""
    return max(now_ms, chain.history[-1].issued_at_ms)


def _not_compromised(chain: Chain, base: Link, signer: SigningKey) -> tuple[bytes, ...]:
    signed = {link.signer for link in chain.live if link.seq > base.seq} - {signer.key_id}
    keys = base.state.rotation_keys if base.state else ()
    return tuple(key for key in keys if key_id(key) not in signed)


def _revoke(chain: Chain, key_id: str, at_ms: int) -> HandleState:
    key = chain.agent_key(key_id)
    if key is None or key.revoked_at_ms:
        message = f"{chain.handle} has no agent key {key_id} that could be revoked."
        raise NotFound(Reason.NOT_FOUND, message, hint=f"list its keys: indai handle resolve {chain.handle}")
    keys = (replace(k, revoked_at_ms=at_ms) if k == key else k for k in chain.state.agent_keys)
    return replace(chain.state, agent_keys=tuple(keys))

"""A handle's self-certifying history: a chain of signed operations, in the manner of did:plc.

Each operation carries the full new state, its number, and the id of the one before; it is signed by a
rotation key of the state *before* it, and the genesis by one of its own. So whoever holds the chain can
check every change of keys without trusting the registry. The subject id is a hash of the genesis: peers pin
it, never the name.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from indai.protocol.envelope import Envelope, payload_type, seal, verify_signature
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.handles import Handle
from indai.protocol.handlestate import MAX_TIME_MS, AgentKey, HandleState, invalid, state_from_proto
from indai.protocol.keys import SigningKey, key_id
from indai.protocol.quoting import quoted
from indai.protocol.wire import strict_parse
from indai.v1 import registry_pb2

CREATE = registry_pb2.OPERATION_TYPE_CREATE
UPDATE = registry_pb2.OPERATION_TYPE_UPDATE
REVOKE = registry_pb2.OPERATION_TYPE_REVOKE
TOMBSTONE = registry_pb2.OPERATION_TYPE_TOMBSTONE
Type: TypeAlias = "registry_pb2.OperationType.ValueType"

PAYLOAD_TYPE = payload_type("operation")
MAX_OPERATION = 8_192  # bytes of one envelope; with MAX_CHAIN, a whole chain fits one gRPC message
MAX_CHAIN = 400  # then only a TOMBSTONE is taken
NONCE_BYTES = 16
MAX_SKEW_MS = 120_000  # two honest clocks differ by at most this
MAX_BACKDATE_MS = 86_400_000  # a key may be made, on another machine, a day before it is listed


@dataclass(frozen=True, slots=True)
class Link:
    """One operation of a chain, without its state; `signer` is the key id of the rotation key that signed."""

    mid: bytes
    seq: int
    type: Type
    issued_at_ms: int
    signer: str


@dataclass(frozen=True, slots=True)
class Chain:
    """A verified history. After a TOMBSTONE, `state` is the last that lived and `ended_at_ms` is set."""

    handle: str
    registry: str
    subject_id: str
    state: HandleState
    history: tuple[Link, ...]
    ended_at_ms: int = 0

    @property
    def seq(self) -> int:
        """Number of the newest operation; 0 after the genesis."""
        return self.history[-1].seq

    @property
    def last_mid(self) -> bytes:
        """Id (32 bytes) of the newest operation: what the next one names as `prev`."""
        return self.history[-1].mid

    def agent_key(self, wanted: str) -> AgentKey | None:
        """The agent key with this id, revoked or not; None when it was never listed."""
        return self.state.agent_key(wanted)

    def key_valid_at(self, wanted: str, time_ms: int, scope: str = "") -> None:
        """Check that agent key `wanted` may sign `scope` at `time_ms`.

        Raises ProtocolError: UNKNOWN_KEY when it was never listed, KEY_REVOKED from its revocation or the
        end of the handle on, EXPIRED outside its validity, PERMISSION_DENIED when its scopes leave `scope`
        out.
        """
        key = self.agent_key(wanted)
        if key is None:
            raise _unfit(Reason.UNKNOWN_KEY, f"{self.handle} has no agent key {quoted(wanted)}")
        if self.ended_at_ms and time_ms >= self.ended_at_ms:
            raise _unfit(Reason.KEY_REVOKED, f"{self.handle} was retired, and its keys with it")
        if key.revoked_at_ms and time_ms >= key.revoked_at_ms:
            raise _unfit(Reason.KEY_REVOKED, f"The key {wanted} of {self.handle} is revoked")
        if time_ms < key.valid_from_ms or 0 < key.valid_until_ms <= time_ms:
            raise _unfit(Reason.EXPIRED, f"The key {wanted} of {self.handle} is not valid at this time")
        if scope and key.scopes and scope not in key.scopes:
            raise _unfit(Reason.PERMISSION_DENIED, f"The key {wanted} of {self.handle} may not sign {scope}")


def subject_id(genesis: Envelope) -> str:
    """`ind:` and the first 32 characters of the lower-case base32 SHA-256 of the genesis operation's PAE."""
    return "ind:" + base64.b32encode(genesis.mid).decode("ascii").lower()[:32]


def build_operation(
    operation_type: Type,
    chain: Chain | None,
    state: HandleState | None,
    signer: SigningKey,
    *,
    issued_at_ms: int,
    nonce: bytes,
    handle: str = "",
    registry: str = "",
) -> Envelope:
    """A signed operation that follows `chain`; a CREATE has no chain and names `handle` and `registry`.

    It is applied before it is returned, so nothing is built that a registry must refuse; raises
    ProtocolError.
    """
    message = registry_pb2.Operation(
        type=operation_type,
        handle=chain.handle if chain else handle,
        seq=chain.seq + 1 if chain else 0,
        prev=chain.last_mid if chain else b"",
        subject_id=chain.subject_id if chain else "",
        issued_at_ms=issued_at_ms,
        registry=chain.registry if chain else registry,
        state=state.to_proto() if state else None,
        nonce=nonce,
    )
    envelope = seal(PAYLOAD_TYPE, message.SerializeToString(), [signer])
    apply_operation(chain, envelope)
    return envelope


def apply_operation(chain: Chain | None, envelope: Envelope) -> Chain:
    """The chain after one more operation (`chain` is None for a CREATE).

    Raises ProtocolError: INVALID_OPERATION with the rule it breaks, BAD_SIGNATURE, MALFORMED, TOO_LARGE.
    """
    operation = parse_operation(envelope)
    _check_form(operation, envelope)
    if chain is None:
        _check_genesis(operation)
    else:
        _check_follows(operation, chain)
    if operation.type == TOMBSTONE:
        return _end(chain, operation, envelope)
    if not operation.HasField("state"):
        raise invalid("it carries no state", "REG-01")
    state = state_from_proto(operation.state, operation.handle)
    link = _sign_check(operation, envelope, (chain.state if chain else state).rotation_keys)
    _check_key_history(operation, chain.state.agent_keys if chain else (), state)
    if chain is None:
        return Chain(operation.handle, operation.registry, subject_id(envelope), state, (link,))
    return Chain(chain.handle, chain.registry, chain.subject_id, state, (*chain.history, link))


def replay(envelopes: Iterable[Envelope]) -> Chain:
    """The chain that these operations make, genesis first; raises ProtocolError as `apply_operation`."""
    chain: Chain | None = None
    for envelope in envelopes:
        chain = apply_operation(chain, envelope)
    if chain is None:
        raise invalid("the chain is empty", "REG-02")
    return chain


def parse_operation(envelope: Envelope) -> registry_pb2.Operation:
    """The operation inside an envelope, read strictly and verified not at all; raises ProtocolError."""
    if envelope.payload_type != PAYLOAD_TYPE:
        raise invalid("the envelope holds no operation", "REG-01")
    if len(envelope.raw) > MAX_OPERATION:
        message = f"An operation of {len(envelope.raw)} bytes is over the limit of {MAX_OPERATION}."
        raise ProtocolError(Reason.TOO_LARGE, message, rule="REG-01")
    return strict_parse(registry_pb2.Operation, envelope.payload, limit=MAX_OPERATION)


def _check_form(operation: registry_pb2.Operation, envelope: Envelope) -> None:
    try:
        canonical = str(Handle.parse(operation.handle))
    except InvalidInput as error:
        raise invalid(error.message.rstrip("."), "REG-01") from None
    if operation.handle != canonical:
        raise invalid(f"the handle {quoted(operation.handle)} is not in canonical form", "REG-01")
    if operation.type not in (CREATE, UPDATE, REVOKE, TOMBSTONE):
        raise invalid(f"operation type {operation.type} is not known", "REG-01")
    if len(operation.nonce) != NONCE_BYTES or not 0 < operation.issued_at_ms <= MAX_TIME_MS:
        raise invalid("its nonce or time is out of range", "REG-01")
    if not operation.registry:
        raise invalid("it names no registry", "REG-01")
    if len(envelope.signatures) != 1:
        raise invalid("it needs exactly one signature", "REG-03")


def _check_genesis(operation: registry_pb2.Operation) -> None:
    if operation.type != CREATE:
        raise invalid("the first of a chain is a CREATE", "REG-02")
    if operation.seq or operation.prev or operation.subject_id:
        raise invalid("a CREATE follows nothing and defines its subject", "REG-02")


def _check_follows(operation: registry_pb2.Operation, chain: Chain) -> None:
    if chain.ended_at_ms:
        raise invalid(f"{chain.handle} was retired", "REG-07")
    if operation.type == CREATE:
        raise invalid("a CREATE can only be the first of a chain", "REG-02")
    if len(chain.history) >= MAX_CHAIN and operation.type != TOMBSTONE:
        raise invalid(f"the chain has {MAX_CHAIN} operations and can only be ended", "REG-02")
    if operation.seq != chain.seq + 1 or operation.prev != chain.last_mid:
        raise invalid(f"it does not follow operation {chain.seq} of {chain.handle}", "REG-02")
    named = (operation.handle, operation.subject_id, operation.registry)
    if named != (chain.handle, chain.subject_id, chain.registry):
        raise invalid("its handle, subject or registry is not its chain's", "REG-02")
    if operation.issued_at_ms < chain.history[-1].issued_at_ms:
        raise invalid("it is issued before the operation it follows", "REG-02")


def _end(chain: Chain | None, operation: registry_pb2.Operation, envelope: Envelope) -> Chain:
    if operation.HasField("state"):
        raise invalid("a TOMBSTONE carries no state", "REG-07")
    assert chain is not None  # noqa: S101 - a genesis is a CREATE, checked before
    link = _sign_check(operation, envelope, chain.state.rotation_keys)
    history = (*chain.history, link)
    return Chain(chain.handle, chain.registry, chain.subject_id, chain.state, history, operation.issued_at_ms)


def _sign_check(operation: registry_pb2.Operation, envelope: Envelope, rotation: tuple[bytes, ...]) -> Link:
    # The key id only picks which of the handle's own keys to try: one verification, whatever a stranger
    # sends.
    named = envelope.signatures[0].keyid
    key = next((key for key in rotation if key_id(key) == named), None)
    if key is None:
        raise invalid(f"{quoted(named)} is not a rotation key of {operation.handle}", "REG-03")
    verify_signature(envelope, 0, key)
    return Link(envelope.mid, operation.seq, operation.type, operation.issued_at_ms, named)


def _check_key_history(
    operation: registry_pb2.Operation, before: tuple[AgentKey, ...], state: HandleState
) -> None:
    """No operation rewrites what an agent key was: its signatures are judged by this list for ever."""
    after = {key.public_key: key for key in state.agent_keys}
    revoked = 0
    for old in before:
        new = after.pop(old.public_key, None)
        if new is None:
            raise invalid(f"the key {old.key_id} left the list", "REG-05")
        if new == old:
            continue
        revoked += 1
        now_revoked = AgentKey(
            old.public_key, old.valid_from_ms, old.valid_until_ms, operation.issued_at_ms, old.scopes
        )
        if old.revoked_at_ms or new != now_revoked:
            raise invalid(f"the key {old.key_id} changed other than by being revoked now", "REG-05")
    for added in after.values():
        if added.revoked_at_ms or added.valid_from_ms < operation.issued_at_ms - MAX_BACKDATE_MS:
            raise invalid(f"the new key {added.key_id} is revoked or valid from over a day ago", "REG-05")
    if (revoked > 0) != (operation.type == REVOKE):
        raise invalid("a REVOKE revokes an agent key and no other operation does", "REG-06")


def _unfit(reason: Reason, message: str) -> ProtocolError:
    return ProtocolError(reason, message + ".", rule="REG-09")

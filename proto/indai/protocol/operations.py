"""A handle's self-certifying history: a chain of signed operations, in the manner of did:plc.

Each operation carries the full new state, its number, and the id of the one before; it is signed by a
rotation key of the state *before* it, and the genesis by one of its own. So whoever holds the chain can
check every change of keys without trusting the registry. The subject id is a hash of the genesis: peers pin
it, never the name.

A RECOVER by a rotation key of higher authority takes the place of operations that are at most 72 hours old:
its `prev` is the last that shall stand. The clock is the log's: the time in the operation's public leaf,
which the map's value covers, and never the signer's own. What it nullifies stays in the history and in the
digest.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from indai.protocol.envelope import Envelope, payload_type, seal, verify_signature
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.handles import Handle
from indai.protocol.handlestate import MAX_TIME_MS, AgentKey, HandleState, invalid, state_from_proto
from indai.protocol.keys import PUBLIC_KEY_BYTES, SigningKey, key_id
from indai.protocol.quoting import quoted
from indai.protocol.wire import strict_parse
from indai.v1 import registry_pb2

CREATE = registry_pb2.OPERATION_TYPE_CREATE
UPDATE = registry_pb2.OPERATION_TYPE_UPDATE
REVOKE = registry_pb2.OPERATION_TYPE_REVOKE
TOMBSTONE = registry_pb2.OPERATION_TYPE_TOMBSTONE
DELEGATE = registry_pb2.OPERATION_TYPE_DELEGATE
RECOVER = registry_pb2.OPERATION_TYPE_RECOVER
TRANSFER = registry_pb2.OPERATION_TYPE_TRANSFER
Type: TypeAlias = "registry_pb2.OperationType.ValueType"

PAYLOAD_TYPE = payload_type("operation")
MAX_OPERATION = 8_192  # bytes of one envelope; with MAX_CHAIN, a whole chain fits one gRPC message
MAX_CHAIN = 400  # then only an end or a RECOVER is taken, so that nobody can fill a chain against its owner
SPARE_LINKS = 16  # that many of them
RECOVERY_MS = 72 * 3_600_000
HELD_MS = 365 * 86_400_000  # a name that ended is nobody's for so long
NONCE_BYTES = 16
MID_BYTES = 32
MAX_SKEW_MS = 120_000  # two honest clocks differ by at most this
MAX_BACKDATE_MS = 86_400_000  # a key may be made, on another machine, a day before it is listed


_DIGEST_DOMAIN = b"ind.ai/history/v1\n"
_ENDS = (TOMBSTONE, TRANSFER)


@dataclass(frozen=True, slots=True)
class Link:
    """One operation of a chain. `signer` is the key id of the rotation key that signed, `time_ms` the leaf's
    time, `state` the state after it (None for an end); `nullified` by a later RECOVER.
    """

    mid: bytes
    seq: int
    type: Type
    issued_at_ms: int
    signer: str
    time_ms: int
    state: HandleState | None
    nullified: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """A verified history, as logged. After an end, `state` is the last that lived and `ended_at_ms` is set.

    `digest` (32 bytes) is over every operation of the handle and its time, `before` the one of the subjects
    before this one (empty for none). `barred` are the ids of keys that nullified operations brought in or
    were signed with. `predecessor` is the id of the TRANSFER this chain came from, `successor` the public key
    a TRANSFER has named.
    """

    handle: str
    registry: str
    subject_id: str
    state: HandleState
    history: tuple[Link, ...]
    digest: bytes
    before: bytes = b""
    ended_at_ms: int = 0
    barred: frozenset[str] = frozenset()
    predecessor: bytes = b""
    successor: bytes = b""

    @property
    def seq(self) -> int:
        """Number of the newest operation; 0 after the genesis."""
        return self.history[-1].seq

    @property
    def last_mid(self) -> bytes:
        """Id (32 bytes) of the newest operation: what the next one names as `prev`."""
        return self.history[-1].mid

    @property
    def live(self) -> tuple[Link, ...]:
        """The operations that stand, genesis first."""
        return tuple(link for link in self.history if not link.nullified)

    @property
    def settled_at_ms(self) -> int:
        """The leaf time until which a RECOVER may still nullify something; 0 when nothing can be."""
        open_until = 0
        for before, link in pairwise(self.live):
            if before.state is not None and key_id(before.state.rotation_keys[0]) != link.signer:
                open_until = max(open_until, link.time_ms + RECOVERY_MS)
        return open_until

    def agent_key(self, wanted: str) -> AgentKey | None:
        """The agent key with this id, revoked or not; None when it was never listed."""
        return self.state.agent_key(wanted)

    def key_valid_at(
        self, wanted: str, time_ms: int, scope: str = "", amount: tuple[str, int] | None = None
    ) -> None:
        """Check that agent key `wanted` may sign `scope` at `time_ms`, and for `amount`: what the commitment
        costs its signer (currency, minor units).

        Raises ProtocolError: UNKNOWN_KEY when it was never listed, KEY_REVOKED from its revocation or the
        end of the handle on and always when it was nullified, EXPIRED outside its validity,
        PERMISSION_DENIED when its scopes leave `scope` out or `amount` is above its limit.
        """
        key = self.agent_key(wanted)
        if wanted in self.barred:
            raise _unfit(Reason.KEY_REVOKED, f"The key {wanted} of {self.handle} was nullified by a RECOVER")
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
        if amount is not None and not key.may_sign_for(amount[1], amount[0]):
            what = f"{amount[1]} {quoted(amount[0])}"
            raise _unfit(
                Reason.PERMISSION_DENIED, f"The key {wanted} of {self.handle} may not sign for {what}"
            )


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
    after: Link | None = None,
    successor: bytes = b"",
) -> Envelope:
    """A signed operation that follows `chain`; a CREATE has no chain and names `handle` and `registry`.

    A RECOVER follows the link `after` and nullifies what came later; a TRANSFER names the `successor`'s
    public key; that one's CREATE follows the chain that has ended. It is applied before it is returned, so
    nothing is built that a registry must refuse; raises ProtocolError.
    """
    starts = operation_type == CREATE
    base = after or (chain.history[-1] if chain else None)
    message = registry_pb2.Operation(
        type=operation_type,
        handle=chain.handle if chain else handle,
        seq=0 if starts or base is None else base.seq + 1,
        prev=b"" if starts or base is None else base.mid,
        subject_id="" if starts or chain is None else chain.subject_id,
        issued_at_ms=issued_at_ms,
        registry=chain.registry if chain else registry,
        state=state.to_proto() if state else None,
        nonce=nonce,
        predecessor=chain.last_mid if starts and chain and chain.successor else b"",
        successor=successor,
    )
    envelope = seal(PAYLOAD_TYPE, message.SerializeToString(), [signer])
    apply_operation(chain, envelope)
    return envelope


def apply_operation(
    chain: Chain | None, envelope: Envelope, time_ms: int | None = None, *, before: bytes = b""
) -> Chain:
    """The chain after one more operation (`chain` is None for the first CREATE).

    `time_ms` is the time of its leaf; None only for an operation that is in no log yet. A CREATE after an
    end begins the next chain; `before` stands for chains that are not at hand. Raises ProtocolError:
    INVALID_OPERATION with the rule it breaks, HANDLE_TAKEN, BAD_SIGNATURE, MALFORMED, TOO_LARGE.
    """
    operation = parse_operation(envelope)
    _check_form(operation, envelope)
    if chain is None and operation.type != CREATE:
        raise invalid("the first of a chain is a CREATE", "REG-02")
    ends = operation.type in _ENDS
    if operation.HasField("state") == ends:
        raise invalid("an end carries no state, all else does", "REG-07" if ends else "REG-01")
    time_ms = _leaf_time(chain, operation, time_ms)
    if chain is None or operation.type == CREATE:
        return _begin(chain, operation, envelope, time_ms, chain.digest if chain else before)
    base = _check_follows(operation, chain)
    before_it = base.state
    assert before_it is not None  # noqa: S101 - nothing follows an end, checked before
    state = None if ends else state_from_proto(operation.state, operation.handle)
    link = _sign_check(operation, envelope, before_it.rotation_keys, time_ms, state)
    if operation.type == RECOVER:
        chain = _nullify(chain, base, link)
    if state is not None:
        _check_key_history(operation, before_it.agent_keys, state)
        _check_delegated(operation, before_it, state)
        _check_barred(state, chain.barred)
    return replace(
        chain,
        state=state or before_it,
        history=(*chain.history, link),
        digest=_digest(chain.digest, link),
        ended_at_ms=0 if state else operation.issued_at_ms,
        successor=operation.successor,
    )


def replay(
    envelopes: Iterable[Envelope], times_ms: Iterable[int] | None = None, *, before: bytes = b""
) -> Chain:
    """The newest chain that these operations make, genesis first; raises ProtocolError as `apply_operation`.

    `times_ms` are the times of their leaves; without them each is taken to be logged when it was issued.
    """
    chain: Chain | None = None
    raws = list(envelopes)
    times: list[int | None] = [None] * len(raws) if times_ms is None else [*times_ms]
    if len(times) != len(raws):
        raise invalid("its operations and their times are not as many", "REG-38")
    for envelope, time_ms in zip(raws, times, strict=True):
        chain = apply_operation(chain, envelope, time_ms, before=before)
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
    if operation.type not in registry_pb2.OperationType.values() or not operation.type:
        raise invalid(f"operation type {operation.type} is not known", "REG-01")
    if len(operation.nonce) != NONCE_BYTES or not 0 < operation.issued_at_ms <= MAX_TIME_MS:
        raise invalid("its nonce or time is out of range", "REG-01")
    if not operation.registry:
        raise invalid("it names no registry", "REG-01")
    if len(operation.successor) != (PUBLIC_KEY_BYTES if operation.type == TRANSFER else 0):
        raise invalid("a TRANSFER names its successor's key, and nothing else does", "REG-33")
    if operation.predecessor and (operation.type != CREATE or len(operation.predecessor) != MID_BYTES):
        raise invalid("only a CREATE names a predecessor, by its id", "REG-33")
    if len(envelope.signatures) != 1:
        raise invalid("it needs exactly one signature", "REG-03")


def _leaf_time(chain: Chain | None, operation: registry_pb2.Operation, time_ms: int | None) -> int:
    last = chain.history[-1].time_ms if chain else 0
    if time_ms is None:
        return max(operation.issued_at_ms, last)
    if not last <= time_ms <= MAX_TIME_MS or operation.issued_at_ms > time_ms + MAX_SKEW_MS:
        raise invalid("its place in time is before the operation it follows, or before itself", "REG-38")
    return time_ms


def _begin(
    chain: Chain | None, operation: registry_pb2.Operation, envelope: Envelope, time_ms: int, before: bytes
) -> Chain:
    if operation.seq or operation.prev or operation.subject_id:
        raise invalid("a CREATE follows nothing and defines its subject", "REG-02")
    if operation.predecessor and not before:
        raise invalid("it names a predecessor where there was none", "REG-33")
    state = state_from_proto(operation.state, operation.handle)
    link = _sign_check(operation, envelope, state.rotation_keys, time_ms, state)
    if chain is not None:
        _check_reissue(chain, operation, link)
    _check_key_history(operation, (), state)
    return Chain(
        operation.handle,
        operation.registry,
        subject_id(envelope),
        state,
        (link,),
        _digest(before, link),
        before,
        predecessor=operation.predecessor,
    )


def _check_reissue(chain: Chain, operation: registry_pb2.Operation, link: Link) -> None:
    """A name goes to whom it was transferred to, once nobody can nullify that; to others after a year."""
    if not chain.ended_at_ms:
        raise invalid("a CREATE can only be the first of a chain", "REG-02")
    if (operation.handle, operation.registry) != (chain.handle, chain.registry):
        raise invalid("its handle or registry is not its predecessor's", "REG-02")
    if link.time_ms <= chain.settled_at_ms:
        raise _held(chain, f"its end can be nullified until {chain.settled_at_ms} ms", "REG-33")
    if operation.predecessor:
        heir = key_id(chain.successor) if chain.successor else ""
        if (operation.predecessor, link.signer) != (chain.last_mid, heir):
            raise invalid(f"{chain.handle} was not transferred to this key", "REG-33")
    elif link.time_ms - chain.history[-1].time_ms < HELD_MS:
        raise _held(chain, "it ended less than 12 months ago", "REG-34")


def _held(chain: Chain, why: str, rule: str) -> ProtocolError:
    message = f"The handle {chain.handle} cannot be claimed: {why}."
    return ProtocolError(Reason.HANDLE_TAKEN, message, rule=rule, hint="choose another, or wait")


def _check_follows(operation: registry_pb2.Operation, chain: Chain) -> Link:
    """The link that this operation follows."""
    base = chain.history[-1]
    if operation.type == RECOVER:
        named_by_it = [link for link in chain.live[:-1] if link.mid == operation.prev]
        if not named_by_it:
            raise invalid("a RECOVER names an operation that stands and is not the last", "REG-30")
        base = named_by_it[0]
    elif chain.ended_at_ms:
        raise invalid(f"{chain.handle} was retired", "REG-07")
    grown = len(chain.history) - (SPARE_LINKS if operation.type in (*_ENDS, RECOVER) else 0)
    if grown >= MAX_CHAIN:
        raise invalid(f"the chain has {MAX_CHAIN} operations and can only be ended", "REG-02")
    if operation.seq != base.seq + 1 or operation.prev != base.mid:
        raise invalid(f"it does not follow operation {base.seq} of {chain.handle}", "REG-02")
    named = (operation.handle, operation.subject_id, operation.registry)
    if named != (chain.handle, chain.subject_id, chain.registry):
        raise invalid("its handle, subject or registry is not its chain's", "REG-02")
    if operation.issued_at_ms < base.issued_at_ms:
        raise invalid("it is issued before the operation it follows", "REG-02")
    return base


def _nullify(chain: Chain, base: Link, link: Link) -> Chain:
    """The chain with everything that stood after `base` nullified by the RECOVER `link`."""
    assert base.state is not None  # noqa: S101 - something followed it
    later = [one for one in chain.live if one.seq > base.seq]
    if link.time_ms - later[0].time_ms > RECOVERY_MS:
        raise invalid("what it would nullify is more than 72 hours old", "REG-31")
    ranks = [key_id(key) for key in base.state.rotation_keys]
    rank = ranks.index(link.signer)
    # Whoever could sign the first could have brought in any key for the others.
    if rank >= ranks.index(later[0].signer):
        raise invalid("its key has no higher authority than the one it would overrule", "REG-30")
    brought = frozenset[str]().union(*(_keys(one.state) for one in later)) - _keys(base.state)
    signed = {one.signer for one in later} - set(ranks[: rank + 1])
    gone = {one.mid for one in later}
    history = tuple(replace(one, nullified=one.nullified or one.mid in gone) for one in chain.history)
    return replace(chain, history=history, barred=chain.barred | brought | signed)


def _keys(state: HandleState | None) -> frozenset[str]:
    if state is None:
        return frozenset()
    return frozenset(map(key_id, (*state.rotation_keys, *(key.public_key for key in state.agent_keys))))


def _check_barred(state: HandleState, barred: frozenset[str]) -> None:
    again = sorted(_keys(state) & barred) if barred else []
    if again:
        raise invalid(f"the key {again[0]} was nullified and is barred for good", "REG-32")


def _check_delegated(operation: registry_pb2.Operation, before: HandleState, state: HandleState) -> None:
    changed = before.delegations != state.delegations
    if changed != (operation.type == DELEGATE) and operation.type != RECOVER:
        raise invalid("a DELEGATE changes the delegations, and nothing else but a RECOVER does", "REG-35")


def _digest(before: bytes, link: Link) -> bytes:
    return hashlib.sha256(_DIGEST_DOMAIN + before + struct.pack(">Q", link.time_ms) + link.mid).digest()


def _sign_check(
    operation: registry_pb2.Operation,
    envelope: Envelope,
    rotation: Sequence[bytes],
    time_ms: int,
    state: HandleState | None,
) -> Link:
    # The key id only picks which of the handle's own keys to try: one verification, whatever a stranger
    # sends.
    named = envelope.signatures[0].keyid
    key = next((key for key in rotation if key_id(key) == named), None)
    if key is None:
        raise invalid(f"{quoted(named)} is not a rotation key of {operation.handle}", "REG-03")
    verify_signature(envelope, 0, key)
    issued = operation.issued_at_ms
    return Link(envelope.mid, operation.seq, operation.type, issued, named, time_ms, state)


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
        now_revoked = replace(old, revoked_at_ms=operation.issued_at_ms)
        if old.revoked_at_ms or new != now_revoked:
            raise invalid(f"the key {old.key_id} changed other than by being revoked now", "REG-05")
    for added in after.values():
        if added.revoked_at_ms or added.valid_from_ms < operation.issued_at_ms - MAX_BACKDATE_MS:
            raise invalid(f"the new key {added.key_id} is revoked or valid from over a day ago", "REG-05")
    if (revoked > 0) != (operation.type == REVOKE) and operation.type != RECOVER:
        raise invalid("a REVOKE revokes an agent key, and nothing else but a RECOVER does", "REG-06")


def _unfit(reason: Reason, message: str) -> ProtocolError:
    return ProtocolError(reason, message + ".", rule="REG-09")

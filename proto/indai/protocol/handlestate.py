"""Everything a handle is at one point of its history: keys, home node or node record, intents, delegations.

Values and their form only; how one state may follow another is in `indai.protocol.operations`. A state read
from the wire is checked whole, so code that holds a `HandleState` never checks it again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.handles import Handle
from indai.protocol.keys import PUBLIC_KEY_BYTES, key_id
from indai.protocol.logkeys import read_announcement
from indai.protocol.note import parse_vkey
from indai.protocol.quoting import quoted
from indai.v1 import registry_pb2

MAX_ROTATION_KEYS = 5
MAX_AGENT_KEYS = 10  # in use; revoked ones stay listed beside them
MAX_LISTED_KEYS = 50
MAX_WORDS = 32  # intents of a handle, scopes of a key
MAX_WORD = 30
MAX_VERSIONS = 8
MAX_TIME_MS = 1 << 53  # every integer up to here is exact in JSON too
SUBJECT_LENGTH = 36
MAX_DELEGATIONS = 32
MAX_BUDGETS = 8  # currencies of one delegation
MAX_DEPTH = 3  # delegations between a handle and the deepest of its sub-agents
MAX_VKEY = 512  # longer than any Ed25519 one

_WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CURRENCY = re.compile(r"[A-Z]{3}")
_ADDRESS = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9.-]{0,252})):([0-9]{1,5})")
_LOOPBACK = ("localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class AgentKey:
    """A key that signs messages; times in ms since the epoch, 0 for "no end" and "not revoked".

    `limits`: the most it may sign for in one commitment, by currency, in minor units; empty for no limit.
    """

    public_key: bytes
    valid_from_ms: int
    valid_until_ms: int = 0
    revoked_at_ms: int = 0
    scopes: tuple[str, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()

    def may_sign_for(self, amount_minor: int, currency: str) -> bool:
        """Whether one commitment may cost its signer this much."""
        return not self.limits or 0 <= amount_minor <= dict(self.limits).get(currency, -1)

    @property
    def key_id(self) -> str:
        """The text id of the key, e.g. `ed25519:...`."""
        return key_id(self.public_key)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """Where a node is (`host:port`), the hash of its TLS key (empty only on loopback), and its ledger.

    `ledger_key_change`: the note by which the ledger's former key and this one announce the change; empty for
    the first.
    """

    address: str
    tls_spki_sha256: bytes
    ledger_origin: str
    ledger_vkey: str
    ledger_key_change: bytes = b""

    @classmethod
    def from_proto(cls, message: registry_pb2.NodeRecord) -> NodeRecord:
        """The values of a message that is a node's own; nothing is checked."""
        return cls(
            message.address,
            message.tls_spki_sha256,
            message.ledger_origin,
            message.ledger_vkey,
            message.ledger_key_change,
        )


@dataclass(frozen=True, slots=True)
class Delegation:
    """What one sub-agent may do: kinds of intent, amounts by currency (minor units), until when, how deep.

    `depth` is how many levels it may delegate further. `allotment`: its budgets were debited when granted.
    """

    handle: str
    subject_id: str
    kinds: tuple[str, ...]
    valid_from_ms: int
    valid_until_ms: int
    budgets: tuple[tuple[str, int], ...] = ()
    depth: int = 0
    allotment: bool = False


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What a handle offers to strangers; `listed` lets searches show it. `envelope_bytes` 0: no own limit."""

    versions: tuple[int, ...]
    languages: tuple[str, ...] = ()
    doors: tuple[str, ...] = ()
    envelope_bytes: int = 0
    listed: bool = False


@dataclass(frozen=True, slots=True)
class HandleState:
    """The full state after one operation; rotation keys are raw public keys, highest authority first."""

    rotation_keys: tuple[bytes, ...]
    agent_keys: tuple[AgentKey, ...] = ()
    node: str = ""
    node_record: NodeRecord | None = None
    intents: tuple[str, ...] = ()
    delegations: tuple[Delegation, ...] = ()
    delegator: str = ""
    advertisement: Advertisement | None = None

    def agent_key(self, wanted: str) -> AgentKey | None:
        """The listed agent key with this id, revoked or not."""
        return next((key for key in self.agent_keys if key.key_id == wanted), None)

    def to_proto(self) -> registry_pb2.HandleState:
        """The message that carries this state."""
        record = self.node_record
        return registry_pb2.HandleState(
            rotation_keys=[registry_pb2.RotationKey(public_key=key) for key in self.rotation_keys],
            agent_keys=[_key_to_proto(key) for key in self.agent_keys],
            node=self.node,
            node_record=None
            if record is None
            else registry_pb2.NodeRecord(
                address=record.address,
                tls_spki_sha256=record.tls_spki_sha256,
                ledger_origin=record.ledger_origin,
                ledger_vkey=record.ledger_vkey,
                ledger_key_change=record.ledger_key_change,
            ),
            intents=self.intents,
            delegations=[_delegation_to_proto(one) for one in self.delegations],
            delegator=self.delegator,
            advertisement=_advertisement_to_proto(self.advertisement),
        )


def invalid(why: str, rule: str) -> ProtocolError:
    """The error for an operation that breaks a rule of handles."""
    return ProtocolError(Reason.INVALID_OPERATION, f"The operation is not valid: {why}.", rule=rule)


def state_from_proto(message: registry_pb2.HandleState, handle: str) -> HandleState:
    """Read and check the state of `handle`; raises ProtocolError(INVALID_OPERATION)."""
    rotation = tuple(key.public_key for key in message.rotation_keys)
    agents = tuple(_key_from_proto(key) for key in message.agent_keys)
    _check_keys(rotation, agents)
    if message.node and message.HasField("node_record"):
        raise invalid("a handle is a node or has a home node, never both", "REG-08")
    if message.node:
        _check_node(message.node, handle)
    record = _record(message.node_record, handle) if message.HasField("node_record") else None
    intents = _words(message.intents, "intents")
    delegations = _delegations(message.delegations, handle)
    if message.delegator and (
        Handle.parse(handle).parent is None or not _is_relative(message.delegator, handle)
    ):
        raise invalid("only a sub-handle names a delegator, which is its parent or a sub of it", "REG-36")
    advertisement = _advertisement(message, handle) if message.HasField("advertisement") else None
    return HandleState(
        rotation, agents, message.node, record, intents, delegations, message.delegator, advertisement
    )


def _advertisement_to_proto(one: Advertisement | None) -> registry_pb2.Advertisement | None:
    if one is None:
        return None
    return registry_pb2.Advertisement(
        versions=one.versions,
        languages=one.languages,
        doors=one.doors,
        envelope_bytes=one.envelope_bytes,
        listed=one.listed,
    )


def _advertisement(state: registry_pb2.HandleState, handle: str) -> Advertisement:
    message = state.advertisement
    if state.HasField("node_record") or Handle.parse(handle).parent is not None:
        raise invalid("a node or a sub-agent advertises nothing", "REG-42")
    versions = tuple(message.versions)
    if not 0 < len(versions) <= MAX_VERSIONS or list(versions) != sorted(set(versions)) or versions[0] < 1:
        raise invalid(f"an advertisement has 1 to {MAX_VERSIONS} versions, sorted, each once", "REG-42")
    languages, doors = _words(message.languages, "languages"), _words(message.doors, "doors")
    return Advertisement(versions, languages, doors, message.envelope_bytes, message.listed)


def _key_to_proto(key: AgentKey) -> registry_pb2.AgentKey:
    return registry_pb2.AgentKey(
        key_id=key.key_id,
        public_key=key.public_key,
        valid_from_ms=key.valid_from_ms,
        valid_until_ms=key.valid_until_ms,
        revoked_at_ms=key.revoked_at_ms,
        scopes=key.scopes,
        limits=_budgets_to_proto(key.limits),
    )


def _budgets_to_proto(amounts: Sequence[tuple[str, int]]) -> list[registry_pb2.Budget]:
    return [registry_pb2.Budget(currency=code, amount_minor=amount) for code, amount in amounts]


def _budgets(messages: Sequence[registry_pb2.Budget], what: str, rule: str) -> tuple[tuple[str, int], ...]:
    amounts = tuple((one.currency, one.amount_minor) for one in messages)
    if len(amounts) > MAX_BUDGETS or len({code for code, _ in amounts}) != len(amounts):
        raise invalid(f"the {what} are more than {MAX_BUDGETS} or repeat", rule)
    if not all(_CURRENCY.fullmatch(code) and 0 < amount <= MAX_TIME_MS for code, amount in amounts):
        raise invalid(f"one of the {what} is not an amount of a currency", rule)
    return amounts


def _key_from_proto(message: registry_pb2.AgentKey) -> AgentKey:
    if len(message.public_key) != PUBLIC_KEY_BYTES or message.key_id != key_id(message.public_key):
        raise invalid(f"the key id {quoted(message.key_id)} is not the id of its key", "REG-04")
    times = (message.valid_from_ms, message.valid_until_ms, message.revoked_at_ms)
    if not all(0 <= time <= MAX_TIME_MS for time in times) or 0 < times[1] <= times[0]:
        raise invalid(f"the times of key {message.key_id} are out of order or range", "REG-04")
    limits = _budgets(message.limits, f"limits of key {message.key_id}", "REG-04")
    return AgentKey(message.public_key, *times, _words(message.scopes, "scopes"), limits)


def _check_keys(rotation: tuple[bytes, ...], agents: tuple[AgentKey, ...]) -> None:
    if not 1 <= len(rotation) <= MAX_ROTATION_KEYS:
        raise invalid(f"a handle has 1 to {MAX_ROTATION_KEYS} rotation keys, not {len(rotation)}", "REG-04")
    if any(len(key) != PUBLIC_KEY_BYTES for key in rotation):
        raise invalid(f"a rotation key has {PUBLIC_KEY_BYTES} bytes", "REG-04")
    if len(agents) > MAX_LISTED_KEYS:
        raise invalid(f"more than {MAX_LISTED_KEYS} agent keys are listed", "REG-04")
    if sum(not key.revoked_at_ms for key in agents) > MAX_AGENT_KEYS:
        raise invalid(f"more than {MAX_AGENT_KEYS} agent keys are in use", "REG-04")
    if len({*rotation, *(key.public_key for key in agents)}) != len(rotation) + len(agents):
        raise invalid("a key is listed twice", "REG-04")


def _delegation_to_proto(one: Delegation) -> registry_pb2.Delegation:
    return registry_pb2.Delegation(
        handle=one.handle,
        subject_id=one.subject_id,
        kinds=one.kinds,
        budgets=_budgets_to_proto(one.budgets),
        valid_from_ms=one.valid_from_ms,
        valid_until_ms=one.valid_until_ms,
        depth=one.depth,
        allotment=one.allotment,
    )


def _delegations(messages: Sequence[registry_pb2.Delegation], handle: str) -> tuple[Delegation, ...]:
    named = {message.handle for message in messages}
    if len(messages) > MAX_DELEGATIONS or len(named) != len(messages):
        raise invalid(f"the delegations are more than {MAX_DELEGATIONS} or repeat", "REG-36")
    return tuple(_delegation_from_proto(message, handle) for message in messages)


def _delegation_from_proto(message: registry_pb2.Delegation, handle: str) -> Delegation:
    sub = message.handle
    if not _is_relative(sub, handle) or sub.count("/") != 2:
        raise invalid(f"{quoted(sub)} is not a sub-handle that {handle} can delegate to", "REG-36")
    if not message.subject_id.startswith("ind:") or len(message.subject_id) != SUBJECT_LENGTH:
        raise invalid(f"the delegation to {sub} does not say which subject it is for", "REG-36")
    kinds = _words(message.kinds, "kinds")
    times = (message.valid_from_ms, message.valid_until_ms)
    if not kinds or not 0 <= times[0] < times[1] <= MAX_TIME_MS or message.depth >= MAX_DEPTH:
        raise invalid(f"the delegation to {sub} has no kind or end, or is too deep", "REG-36")
    budgets = _budgets(message.budgets, f"budgets of {sub}", "REG-36")
    return Delegation(sub, message.subject_id, kinds, *times, budgets, message.depth, message.allotment)


def _is_relative(other: str, handle: str) -> bool:
    """Whether both are of one `authority/name`, and not the same."""
    try:
        parsed, own = Handle.parse(other), Handle.parse(handle)
    except InvalidInput:
        return False
    same = (parsed.authority, parsed.name) == (own.authority, own.name)
    return str(parsed) == other and same and bool(own.name) and parsed != own


def _check_node(node: str, handle: str) -> None:
    if node == handle:
        raise invalid("a handle is not its own home node", "REG-08")
    try:
        canonical = str(Handle.parse(node))
    except InvalidInput:
        canonical = ""
    if node != canonical:
        raise invalid(f"the home node {quoted(node)} is not a handle", "REG-08")


def _record(message: registry_pb2.NodeRecord, handle: str) -> NodeRecord:
    address, spki = message.address, message.tls_spki_sha256
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[2]) < 65_536:
        raise invalid(f"the node's address {quoted(address)} is not host:port", "REG-08")
    if len(spki) != 32 and not (spki == b"" and is_loopback(match[1])):
        raise invalid("a node that is not on loopback gives the SHA-256 of its TLS key", "REG-08")
    origin = message.ledger_origin
    if not re.fullmatch(re.escape(handle) + r"/ledger/[0-9]{4}", origin):
        raise invalid(f"the ledger {quoted(origin)} is not <handle>/ledger/<year>", "REG-08")
    if _vkey_name(message.ledger_vkey) != origin:
        raise invalid("the ledger's verifier key is not one for its origin", "REG-08")
    if message.ledger_key_change:
        _check_change(message.ledger_key_change, message.ledger_vkey)
    return NodeRecord.from_proto(message)


def _check_change(note: bytes, vkey: str) -> None:
    """That the former key and this one have announced it; which was the former, their histories tell."""
    try:
        _, new = read_announcement(note)
    except ProtocolError as error:
        raise invalid(f"the ledger's change of keys is not announced: {error.message}", "REG-08") from None
    if new.vkey != vkey:
        raise invalid("the ledger's change of keys leads to another key than the record's", "REG-08")


def is_loopback(host: str) -> bool:
    """Whether a host part (`[::1]` with its brackets) can only be this machine."""
    return host in _LOOPBACK or re.fullmatch(r"127(?:\.[0-9]{1,3}){3}", host) is not None


def _vkey_name(vkey: str) -> str:
    try:
        return parse_vkey(vkey).name if len(vkey) <= MAX_VKEY else ""
    except InvalidInput:
        return ""


def _words(values: Sequence[str], what: str) -> tuple[str, ...]:
    words = tuple(values)
    if len(words) > MAX_WORDS or len(set(words)) != len(words):
        raise invalid(f"the {what} are more than {MAX_WORDS} or repeat", "REG-04")
    for word in words:
        if len(word) > MAX_WORD or not _WORD.fullmatch(word):
            raise invalid(f"{quoted(word)} among the {what} is not a lower-case word", "REG-04")
    return words

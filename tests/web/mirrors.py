"""Mirrors of a registry for the auditor's page: one with every kind of operation, and one for each lie that a
registry could tell. Trees and heads are right in all of them: only who replays the operations finds it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from indai.protocol.envelope import Envelope, seal
from indai.protocol.handlestate import AgentKey, Delegation, HandleState, NodeRecord
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import announce
from indai.protocol.note import Signer, add_signatures, parse_vkey
from indai.protocol.operations import (
    CREATE,
    DELEGATE,
    PAYLOAD_TYPE,
    RECOVER,
    REVOKE,
    TOMBSTONE,
    TRANSFER,
    UPDATE,
    Type,
    build_operation,
)
from indai.protocol.registryleaf import LOG_KEY_KIND, RegistryLeaf, encode_registry_leaf
from indai.protocol.tlogpolicy import Group, TlogPolicy
from indai.v1 import envelope_pb2, registry_pb2

from tests.unit.audit.worlds import DAY, HOUR, NODE_A, NOW, REGISTRY_LOG, Mirror, key, sixteen, write

ASHA: Final = "ind.ai/asha"
FIRST, SECOND, HEIR, THIEF = (key(f"asha {name}") for name in ("first", "second", "heir", "thief"))
AGENT = AgentKey(key("asha agent").public_key, NOW)
RECORD = HandleState((FIRST.public_key, SECOND.public_key), (AGENT,), NODE_A)
ROOTS: Final = "right root of the map"
"""What the step about the map is called; all others are about the operations."""


def _grown(
    mirror: Mirror, kind: Type, state: HandleState | None, at: int, signer: SigningKey = FIRST, **more: Any
) -> Envelope:
    """The next operation of Asha's chain, as her own program makes it."""
    return build_operation(
        kind,
        mirror.chains.get(ASHA),
        state,
        signer,
        issued_at_ms=at,
        nonce=sixteen(f"{kind} {at}"),
        handle=ASHA,
        registry=REGISTRY_LOG,
        **more,
    )


def _add(
    mirror: Mirror, kind: Type, state: HandleState | None, at: int, *who: SigningKey, **more: Any
) -> None:
    mirror.append(_grown(mirror, kind, state, at, *who, **more), at)


def begun() -> Mirror:
    """Asha has a handle."""
    mirror = Mirror()
    _add(mirror, CREATE, RECORD, NOW)
    return mirror


def whole() -> Mirror:
    """A handle's life with each kind of operation, a node, and the log's next key."""
    mirror = begun()
    node = NodeRecord(
        "127.0.0.1:9", b"", f"{NODE_A}/ledger/2026", Signer(f"{NODE_A}/ledger/2026", HEIR).verifier.vkey
    )
    mirror.submit(CREATE, NODE_A, HandleState((key(f"{NODE_A} rotation").public_key,), (), "", node), NOW)
    ledger = Signer(node.ledger_origin, key("changed"))
    changed = HandleState(mirror.chains[NODE_A].state.rotation_keys)
    change = announce(ledger.name, HEIR, ledger.key)
    renamed = replace(node, ledger_vkey=ledger.verifier.vkey, ledger_key_change=change)
    mirror.submit(UPDATE, NODE_A, replace(changed, node_record=renamed), NOW)
    given = Delegation(f"{ASHA}/sub", "ind:" + "a" * 32, ("meet",), NOW, NOW + DAY, (("INR", 5000),))
    known = replace(RECORD, intents=("meet",))
    _add(mirror, UPDATE, known, NOW + 1)
    _add(mirror, DELEGATE, replace(known, delegations=(given,)), NOW + 2)
    revoked = replace(known, delegations=(given,), agent_keys=(replace(AGENT, revoked_at_ms=NOW + 3),))
    _add(mirror, REVOKE, revoked, NOW + 3)
    stands = mirror.chains[ASHA].history[-1]
    _add(mirror, UPDATE, replace(revoked, rotation_keys=(THIEF.public_key,)), NOW + HOUR, SECOND)
    _add(mirror, RECOVER, replace(revoked, rotation_keys=(FIRST.public_key,)), NOW + 2 * HOUR, after=stands)
    _add(mirror, TRANSFER, None, NOW + 3 * HOUR, successor=HEIR.public_key)
    later, theirs = NOW + 5 * DAY, HandleState((HEIR.public_key,), (), NODE_A)
    _add(mirror, CREATE, theirs, later, HEIR)
    _add(mirror, TOMBSTONE, None, later + 1, HEIR)
    note = announce(REGISTRY_LOG, mirror.log, key("next"))
    mirror.entries.append(
        encode_registry_leaf(RegistryLeaf(later + 2, mirror.tiles.root(), note, LOG_KEY_KIND))
    )
    return mirror


def _forged(
    signer: SigningKey = FIRST, at: int = NOW + 1, state: HandleState | None = RECORD, **changes: Any
) -> Callable[[Mirror], None]:
    """What a registry lets in that should not be: what follows Asha's first operation, but for `changes`."""

    def lie(mirror: Mirror) -> None:
        chain = mirror.chains[ASHA]
        message = registry_pb2.Operation(
            type=UPDATE,
            handle=ASHA,
            seq=1,
            prev=chain.last_mid,
            subject_id=chain.subject_id,
            issued_at_ms=NOW,
            registry=REGISTRY_LOG,
            state=state.to_proto() if state else None,
            nonce=sixteen("lie"),
        )
        for name, value in changes.items():
            setattr(message, name, value)
        envelope = seal(PAYLOAD_TYPE, message.SerializeToString(), [signer])
        mirror.entries.append(encode_registry_leaf(RegistryLeaf(at, mirror.tiles.root(), envelope.raw)))

    return lie


def _resigned(mirror: Mirror) -> None:
    """Asha's key is named, and another has signed."""
    honest = _grown(mirror, UPDATE, RECORD, NOW + 1)
    raw = envelope_pb2.Envelope.FromString(honest.raw)
    raw.signatures[0].sig = THIEF.sign(b"anything")
    leaf = RegistryLeaf(NOW + 1, mirror.tiles.root(), raw.SerializeToString(deterministic=True))
    mirror.entries.append(encode_registry_leaf(leaf))


def _another_map(mirror: Mirror) -> None:
    mirror.append(_grown(mirror, UPDATE, RECORD, NOW + 1), NOW + 1, b"\x00" * 32)


_OTHER = replace(
    RECORD,
    node="",
    node_record=NodeRecord(
        "127.0.0.1:9", b"", f"{NODE_A}/ledger/2026", Signer(f"{NODE_A}/ledger/2026", THIEF).verifier.vkey
    ),
)
_OWN = f"{ASHA}/ledger/2026"
_TO_ANOTHER_KEY = replace(
    _OTHER,
    node_record=NodeRecord(
        "127.0.0.1:9", b"", _OWN, Signer(_OWN, HEIR).verifier.vkey, announce(_OWN, THIEF, SECOND)
    ),
)
LIES: Final[tuple[tuple[str, Callable[[Mirror], None]], ...]] = (
    ("does not follow the operation before it", _forged(prev=b"\x01" * 32)),
    ("does not follow the operation before it", _forged(seq=2)),
    ("holds no rotation key of the handle", _forged(THIEF)),
    ("its signature does not verify", _resigned),
    ("a key left its list", _forged(state=replace(RECORD, agent_keys=()))),
    (
        "a key left its list",
        _forged(state=replace(RECORD, agent_keys=(replace(AGENT, valid_until_ms=NOW + 9),))),
    ),
    (
        "revokes keys and does not say so",
        _forged(state=replace(RECORD, agent_keys=(replace(AGENT, revoked_at_ms=NOW),))),
    ),
    ("somebody's already", _forged(type=CREATE, seq=0, prev=b"", subject_id="")),
    ("its time is before the entry it follows", _forged(at=NOW - 1)),
    ("another registry", _forged(registry="ind.ai/other")),
    ("its ledger is not its own", _forged(state=_OTHER)),
    ("its ledger is not its own", _forged(state=_TO_ANOTHER_KEY)),
    (ROOTS, _another_map),
)


def told(folder: Path, mirror: Mirror, name: str) -> tuple[Path, Path]:
    """The mirror's file, and the policy by which its log is the right one."""
    policy = folder / "mirrors.policy"
    policy.write_text(mirror.trust.format())
    return write(folder / f"{name}.jsonl", mirror.records()), policy


def witnessed(mirror: Path, cosigning: int, quorum: int) -> tuple[Path, Path]:
    """The mirror with its newest head cosigned by some of three witnesses, and the policy that asks for
    `quorum` of them."""
    signers = {name: Signer(f"{name}.example", SigningKey.generate(), 1_800_000_000) for name in "abc"}
    *lines, _ = mirror.read_text().splitlines()
    at = max(place for place, line in enumerate(lines) if '"type":"checkpoint"' in line)
    head = json.loads(lines[at])
    head["note"] = add_signatures(head["note"].encode(), list(signers.values())[:cosigning]).decode()
    lines[at] = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    body = "".join(f"{line}\n" for line in lines)
    end = json.loads(mirror.read_text().splitlines()[-1])
    end["sha256"] = hashlib.sha256(body.encode()).hexdigest()
    made, trust = mirror.with_name("witnessed.jsonl"), mirror.with_name("witnessed.policy")
    made.write_text(body + json.dumps(end, separators=(",", ":")) + "\n")
    log = parse_vkey(json.loads(lines[0])["vkey"])
    witnesses = {name: signer.verifier for name, signer in signers.items()}
    policy = TlogPolicy((log,), witnesses, {"three": Group(quorum, tuple(witnesses))}, "three")
    trust.write_text(policy.format())
    return made, trust

"""The rules of the protocol as data: code raises with an id, and tests cite it (checked both ways)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its id, what it says, and the section of the protocol's design it comes from."""

    id: str
    text: str
    section: str


_ENVELOPE = "The signed envelope"
_HEADER = "The signed envelope: header"
_HANDLES = "Handles and the registry"
_LOGS = "Logs"

_RULES = (
    Rule("HND-01", "A handle is authority/name, authority/name/sub, or a domain name of its own.", _HANDLES),
    Rule("HND-02", "A name is 3 to 30 of a-z, 0-9 and single inner hyphens.", _HANDLES),
    Rule(
        "HND-03",
        "A handle is ASCII even before it is lower-cased: no confusables.",
        _HANDLES,
    ),
    Rule("HND-04", "Reserved names cannot be claimed.", _HANDLES),
    Rule(
        "REG-01",
        "An operation is one canonical handle, type, time, nonce, registry and state, in at most 8 KiB.",
        _HANDLES,
    ),
    Rule(
        "REG-02",
        "A chain starts with CREATE; every other operation follows exactly the one before it.",
        _HANDLES,
    ),
    Rule(
        "REG-03",
        "An operation is signed once, by a rotation key of the state before it (CREATE: its own).",
        _HANDLES,
    ),
    Rule(
        "REG-04",
        "A handle has 1 to 5 rotation keys and up to 10 agent keys in use, each listed once under its id.",
        _HANDLES,
    ),
    Rule(
        "REG-05",
        "An agent key never leaves the list or changes, except that it is revoked, once, at that time.",
        _HANDLES,
    ),
    Rule("REG-06", "A REVOKE revokes an agent key, and no other operation does.", _HANDLES),
    Rule("REG-07", "A TOMBSTONE carries no state, and nothing follows it.", _HANDLES),
    Rule("REG-08", "A handle is a node with a well-formed record, or has a home node, never both.", _HANDLES),
    Rule(
        "REG-09", "An agent key signs while it is listed, valid, unrevoked, and within its scopes.", _HANDLES
    ),
    Rule(
        "REG-10",
        "A map proof is minimal and leads from the handle's value, or from its absence, to the root.",
        _HANDLES,
    ),
    Rule("REG-11", "A registry leaf is version 1, kind 2, time, map root and operation.", _HANDLES),
    Rule("ENV-01", "An envelope or payload over 64 KiB is refused before it is read.", _ENVELOPE),
    Rule("ENV-02", "Bytes a lenient parser could read in two ways are refused.", _ENVELOPE),
    Rule("ENV-03", "The payload type is one this version knows.", _ENVELOPE),
    Rule(
        "ENV-04",
        "A signature is over the PAE and verifies by libsodium's rule.",
        _ENVELOPE,
    ),
    Rule("ENV-05", "The message id is SHA-256 of the PAE: signatures do not change it.", _ENVELOPE),
    Rule(
        "ENV-06",
        "The bytes received are kept; a signed payload is never serialised again.",
        _ENVELOPE,
    ),
    Rule("HDR-01", "Every field of a header has its length and canonical form.", _HEADER),
    Rule("HDR-02", "A message names the network of its receiver.", _HEADER),
    Rule("HDR-03", "A message names its receiver's handle and subject.", _HEADER),
    Rule("HDR-04", "A message issued more than 120 s ahead of the receiver's clock is refused.", _HEADER),
    Rule(
        "HDR-05",
        "A message first seen more than 120 s after its expiry is refused.",
        _HEADER,
    ),
    Rule("LOG-01", "An inclusion proof leads from the leaf to the root of the stated size.", _LOGS),
    Rule("LOG-02", "A consistency proof joins two non-empty sizes; from size 0 there is none.", _LOGS),
    Rule("LOG-03", "A note has one reading, and every signature by a known key on it verifies.", _LOGS),
    Rule("LOG-04", "A checkpoint is signed by its log under the log's origin.", _LOGS),
    Rule("LOG-05", "A receipt holds its index, path and checkpoint, and nothing else.", _LOGS),
    Rule("LOG-06", "A checkpoint is believed only when its cosignatures reach the policy's quorum.", _LOGS),
    Rule("LOG-07", "A ledger leaf has 42 bytes and opens only to the envelope it was made for.", _LOGS),
    Rule("LOG-08", "A tile holds 1 to 256 hashes or entries, all of them.", _LOGS),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _RULES}

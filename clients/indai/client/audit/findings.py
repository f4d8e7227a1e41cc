"""The checks of the audit by name, and the list that a run collects its findings in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from indai.client.audit.report import Finding, Place, Severity

MAX_MESSAGE = 500  # what a hostile file can make us quote

# What each check shows. A finding carries the name; the tests show for each that no other check does its
# work.
CHECKS: Mapping[str, str] = MappingProxyType(
    {
        "file": "every line of an export can be read, and none was changed by accident",
        "registry-head": "the registry's head is signed by the log that is trusted",
        "registry-tree": "the registry's entries make the tree of every head",
        "registry-chain": "every operation follows from its handle's history, signed by its rotation key",
        "registry-map": "every entry carries the root of the map handle -> latest operation",
        "ledger-identity": "the ledger is the one its node's registry record names",
        "ledger-head": "every head of a ledger is signed by a key in its node's record that it still had",
        "ledger-tree": "a ledger's leaves make the tree of every head",
        "split-view": "no log has signed two heads that contradict each other",
        "evidence": "evidence of two histories is signed by the log it accuses, and settled",
        "leaf": "a leaf has the form of its version, and leaf times do not step back",
        "opening": "every content shown opens its leaf",
        "content": "a content is what its leaf's kind says, under its own id and owner",
        "twice": "an owner has one leaf for one message and kind",
        "same-bytes": "both parties hold the same bytes",
        "parties": "a commitment names its parties and carries a signature for each, in their order",
        "signature": "every signature verifies with the key that the registry shows for its signer",
        "key": "every key was published, valid and not revoked when it signed",
        "receipt": "the offerer signed that the commitment stands",
        "receipt-place": "the receipt names the leaf of the commitment in the offerer's ledger",
        "contradiction": "no offerer has signed two different words on one commitment",
        "held": "every party whose ledger is supplied holds the commitment",
        "late": "an offer is committed before its life and grace are over",
        "transcript": "every thread is a legal, hash-linked sequence of signed messages of its owner",
        "policy": "a policy version is what its hash says",
        "decision": "every recorded decision follows from its recorded facts under its policy version",
        "permitted": "a party's policy, or the party itself, permitted what was signed",
        "order": "the events of a ledger stand in order",
        "event-chain": "the first party numbers the events of a commitment, each after the one before it",
        "event-signer": "every event is signed by a party who may say it",
        "event-rule": "every event is one that the terms and the time allowed",
        "succession": "a commitment, or one time of it, is superseded once by each of its parties",
        "event-held": "every party whose ledger is supplied holds every event",
        "erased": "what is said of an erased leaf fits what the other ledgers show",
        "unopened": "every commitment in a whole node's export is shown",
    }
)


class Findings:
    """Collects in the order of discovery."""

    def __init__(self) -> None:
        self.found: list[Finding] = []

    def add(self, severity: Severity, check: str, place: Place, message: str, mid: bytes = b"") -> None:
        """One finding; `check` is a name of `CHECKS`."""
        assert check in CHECKS, check  # noqa: S101 - our own names
        shown = message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "..."
        self.found.append(Finding(severity, check, place, shown, mid.hex()))

"""Checking a receipt offline, in either encoding: with the registry's key history, at any later time.

A receipt outlives the key that signed it. What counts is which keys the log's node has published under the
log's name, so a rotation since then takes nothing from it. When the entry was made is the leaf's word,
bounded above by the cosignatures of a tlog-proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from indai.protocol.cosereceipt import CoseReceipt
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.leaf import LedgerLeaf
from indai.protocol.note import parse_vkey
from indai.protocol.tlogproof import TlogProof

_TLOG_PROOF = b"c2sp.org/tlog-proof@"


@dataclass(frozen=True, slots=True)
class Proved:
    """What a receipt shows: that `log` has `leaf` at `index`. `size` is that of the tree it was proved in; a
    COSE receipt's own signature does not cover it.
    """

    log: str
    index: int
    size: int
    leaf: LedgerLeaf


def verify_receipt(receipt: bytes, leaf: bytes, keys: Iterable[tuple[str, str]]) -> Proved:
    """Check a tlog-proof or COSE receipt of a ledger's leaf (42 bytes).

    `keys` are (origin, verifier key) of every ledger that the node's record has ever named, as
    `KeyHistory.ledgers` gives them. Raises ProtocolError: MALFORMED, UNKNOWN_KEY when there is none to try,
    else BAD_SIGNATURE, BAD_PROOF or BAD_CHECKPOINT of the last that was tried.
    """
    read = TlogProof.parse if receipt.startswith(_TLOG_PROOF) else CoseReceipt.parse
    parsed, shown = read(receipt), LedgerLeaf.parse(leaf)
    failure = ProtocolError(Reason.UNKNOWN_KEY, "The registry shows no ledger of this node.")
    for _, vkey in keys:
        try:
            log, size = _check(parsed, leaf, vkey)
        except ProtocolError as error:
            failure = error
        else:
            return Proved(log, parsed.index, size, shown)
    raise failure


def _check(receipt: CoseReceipt | TlogProof, leaf: bytes, vkey: str) -> tuple[str, int]:
    """The log's origin and its size, if `vkey` is the key that signed."""
    verifier = parse_vkey(vkey)
    if isinstance(receipt, TlogProof):
        checkpoint, _ = receipt.verify(leaf, verifier)
        return checkpoint.origin, checkpoint.size
    receipt.verify(leaf, verifier.name, verifier.public_key)
    return receipt.log, receipt.size

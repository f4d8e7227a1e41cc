"""Which keys a ledger has had, in their order, and whether its heads keep to it.

A node's record names its ledger's key, and a later one another. What a key signs after the next one has
signed counts for nothing: whoever has stolen a key that was given up can't go on with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from indai.client.audit.registry import KeyHistory
from indai.client.audit.trees import Head, Tied
from indai.client.exports import Header, ledger_node
from indai.client.keytie import KeyTie, announced, follows, recorded
from indai.protocol.errors import IndaiError
from indai.protocol.handlestate import NodeRecord
from indai.protocol.logkeys import read_announcement
from indai.protocol.note import Verifier, parse_note, parse_vkey


class LedgerKeys:
    """The keys of the ledger that an export's first line names; without a history, that line's key alone."""

    def __init__(self, header: Header, history: KeyHistory | None) -> None:
        records = [] if history is None else list(history.records(header.node))
        self._records = [record for record in records if record.ledger_origin == header.log]
        self._own = header.vkey
        self.published = history is not None

    @property
    def all(self) -> list[str]:
        """Each after the one that it followed."""
        named = [record.ledger_vkey for record in self._records]
        changed = [vkey for before, vkey in pairwise(["", *named]) if vkey != before]
        return changed if self._own in changed else [*changed, self._own]

    def of(self, note: bytes) -> str:
        """The key that claims to have signed a head; empty for one that is not known, the export's for what
        can't be read. Nothing is verified."""
        try:
            signed = {(one.name, one.key_hash) for one in parse_note(note)[1]}
            known = [parse_vkey(vkey) for vkey in (self._own, *self.all)]
        except IndaiError:
            return self._own
        return next((one.vkey for one in known if (one.name, one.key_hash) in signed), "")

    def relapses(self, heads: Sequence[Head]) -> Iterator[Head]:
        """Heads by a key that the ledger had given up before: a smaller one is by a later key."""
        place, keys = 0, self.all
        for head in sorted(heads, key=lambda head: head.checkpoint.size):
            later = [number for number in range(place, len(keys)) if keys[number] == head.vkey]
            if later:
                place = later[0]
            else:
                yield head

    def unannounced(self) -> Iterator[tuple[str, str]]:
        """(former key, next key) of each change that the former key has not signed."""
        for before, after in pairwise(self._records):
            if before.ledger_vkey != after.ledger_vkey and _former(after) != before.ledger_vkey:
                yield before.ledger_vkey, after.ledger_vkey


def tied(history: KeyHistory | None) -> Tied:
    """What ties two keys of a ledger, as the registry shows it; the mirror is read again once for a node."""
    read: dict[str, tuple[tuple[int, bytes], ...]] = {}

    def tie(one: Verifier, other: Verifier) -> tuple[Verifier, KeyTie] | None:
        if history is None or one.name != other.name:
            return None
        node = ledger_node(one.name)
        records = [record for record in history.records(node) if record.ledger_origin == one.name]
        both = follows(one, other, [record.ledger_vkey for record in records])
        if both is None:
            return None
        former, later = both
        way = announced([record.ledger_key_change for record in records], former, later)
        if way is not None:
            return former, way
        if node not in read:
            read[node] = tuple(history.operations(node))
        way = recorded(former, later, read[node])
        return (former, way) if way is not None else None

    return tie


def _former(record: NodeRecord) -> str:
    try:
        return read_announcement(record.ledger_key_change)[0].vkey
    except IndaiError:
        return ""

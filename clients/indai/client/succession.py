"""The newest head of an export, by the key in its first line or one that the log itself has announced since.

A registry's log announces its next key in a leaf, signed by both keys (`indai.protocol.logkeys`). The next
key counts once a head of the one before covers that leaf. Nobody else is believed, and no quorum asked for:
whom to trust is for who audits.
"""

from __future__ import annotations

from contextlib import suppress

from indai.client.exports import CheckpointLine, EntryLine, Header, Record
from indai.protocol.checkpoint import Checkpoint, open_checkpoint, read_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason
from indai.protocol.logkeys import read_announcement
from indai.protocol.note import Verifier, parse_note, parse_vkey
from indai.protocol.registryleaf import LOG_KEY_KIND, parse_registry_leaf


class NewestHead:
    """Give it the records of an export in their order, `grown` the tree after each entry, then ask `open`."""

    def __init__(self) -> None:
        self._vkey = ""
        self._notes: list[bytes] = []
        self._announced: list[tuple[int, Verifier, Verifier]] = []
        self._heads: dict[int, bytes] = {}

    @property
    def note(self) -> bytes:
        """The newest head as it stands; empty before the first."""
        return self._notes[-1] if self._notes else b""

    def take(self, record: Record) -> None:
        """The next record; raises ProtocolError for a head that is none."""
        if isinstance(record, Header):
            self._vkey = record.vkey
        elif isinstance(record, CheckpointLine):
            self._notes.append(record.note.encode())
            head = read_checkpoint(self.note)
            self._heads[head.size] = head.root
        elif isinstance(record, EntryLine):
            with suppress(IndaiError):  # what is no leaf announces nothing
                leaf = parse_registry_leaf(record.entry)
                if leaf.kind == LOG_KEY_KIND:
                    self._announced.append((record.index, *read_announcement(leaf.body)))

    def wants(self, size: int) -> bool:
        """Whether a head is of so many leaves."""
        return size in self._heads

    def grown(self, size: int, root: bytes) -> None:
        """What the first leaves make; raises ProtocolError (BAD_PROOF) if a head of that size differs."""
        if self._heads.get(size, root) != root:
            message = f"The first {size} entries do not make the tree of the head that was signed."
            raise ProtocolError(Reason.BAD_PROOF, message, rule="LOG-08")

    def open(self) -> Checkpoint:
        """The newest head, verified; raises InvalidInput for none, ProtocolError (BAD_SIGNATURE)."""
        if not self._notes:
            raise InvalidInput(
                Reason.INVALID_EXPORT, "The export has no signed head.", hint="export it again"
            )
        key = parse_vkey(self._vkey)
        changes = {old: (index, new) for index, old, new in reversed(self._announced)}  # the first counts
        for note in self._notes[:-1]:
            if key in changes and (key.name, key.key_hash) in {
                (s.name, s.key_hash) for s in parse_note(note)[1]
            }:
                index, new = changes[key]
                key = new if open_checkpoint(note, key)[0].size > index else key
        return open_checkpoint(self.note, key)[0]

"""The last head a log signed, kept outside its database.

A database restored from yesterday's backup looks sound to itself, and a log that went on from it would sign a
second history. The file is what the database can't roll back: it holds the log's newest signed note. It is
written before a signature leaves the process, and every new head must be an extension of it.

If the file is lost, any newest checkpoint of the log (a witness, a peer or a mirror has one) can be put in
its place: it is a plain signed note.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from indai.protocol.checkpoint import Checkpoint, open_checkpoint, read_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.protocol.note import Verifier, parse_note
from indai.storage.cluster import write_private


class HeadFile:
    """`<directory>/<origin, percent-encoded>.head`; `verifiers` are the log's own key and those it had."""

    def __init__(self, directory: Path, *verifiers: Verifier) -> None:
        self.path = directory / f"{quote(verifiers[0].name, safe='')}.head"
        self._verifiers = verifiers

    def read(self) -> Checkpoint | None:
        """The head in it; None before the first. Raises InvalidInput for a file that is not this log's own
        note, and IndaiError (LOG_ROLLED_BACK) for one by a key that is not here.
        """
        try:
            note = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        log = self._verifiers[0].name
        try:
            return open_checkpoint(note, signer_of(note, self._verifiers))[0]
        except IndaiError as error:
            if self._by_another_key(note):
                raise self._keyless() from error
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{self.path} does not hold a checkpoint signed by {log}: {error.message}",
                hint="Put the newest checkpoint of this log there; its witnesses have it.",
            ) from error

    def write(self, note: bytes) -> None:
        """Replace the head; when this returns, the new one survives a power cut."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_private(self.path, note)
        except OSError as error:
            raise self._unusable(error) from error

    def _by_another_key(self, note: bytes) -> bool:
        """Whether it is a head of this log that none of the keys here claims to have signed."""
        with suppress(IndaiError):
            own = {(one.name, one.key_hash) for one in self._verifiers}
            signed = {(one.name, one.key_hash) for one in parse_note(note)[1]}
            return read_checkpoint(note).origin == self._verifiers[0].name and not own & signed
        return False

    def _keyless(self) -> IndaiError:
        log = self._verifiers[0].name
        return IndaiError(
            Reason.LOG_ROLLED_BACK,
            f"The last head of {log} is signed with a key that is not here any more.",
            hint=f"Restore the `keys` of when {self.path} was written; if they are lost, {_anew(log)}.",
        )

    def _unusable(self, error: OSError) -> Unavailable:
        return Unavailable(
            Reason.STORAGE_FULL,
            f"The log's head cannot be kept in {self.path}: {error.strerror}.",
            hint="Nothing is signed until it can.",
        )


def signer_of(note: bytes, verifiers: Sequence[Verifier]) -> Verifier:
    """Which of a log's keys claims to have signed the note; the first, if none. Raises ProtocolError."""
    signed = {(one.name, one.key_hash) for one in parse_note(note)[1]}
    return next((one for one in verifiers if (one.name, one.key_hash) in signed), verifiers[0])


def rolled_back(log: str, why: str, path: Path) -> IndaiError:
    """The database is not the one whose head was signed last."""
    return IndaiError(
        Reason.LOG_ROLLED_BACK,
        f"The log {log} was rolled back: {why}.",
        hint=f"Restore the newest database ({path} holds the head it must reach), or {_anew(log)}.",
    )


def _anew(log: str) -> str:
    """What is left when a log can't go on: nobody can sign a second history under its name."""
    stem, _, year = log.rpartition("/ledger/")
    return f"begin another ledger: indai up --ledger-year {int(year) + 1}" if stem else "begin a new log"

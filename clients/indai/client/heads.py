"""The newest registry head a client has verified, kept over restarts: what makes the log unable to take back.

Every head that is accepted is signed, not from the future, and proved to extend the one kept. Two heads that
cannot both belong to one log are kept, both, as evidence. When the log has announced another key, that one is
believed from then on, and remembered with the last head of the one before.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from indai.client.fraud import Evidence
from indai.client.network import Head, NetworkPolicy
from indai.client.statefile import replace_file
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason, Unavailable
from indai.protocol.logkeys import KeyChange, announced_by
from indai.protocol.merkle import verify_consistency
from indai.protocol.note import Verifier, parse_note, parse_vkey

MAX_SKEW_MS = 120_000
MAX_SEEN = 256
MAX_STORED = 64  # heads in the file: what peers said of them is compared after a restart too


@dataclass(frozen=True, slots=True)
class Retired:
    """A key that the log had, and the last head that counts under it."""

    log: Verifier
    note: bytes
    size: int


class HeadKeeper:
    """Holds one network's newest head; `kept` only ever moves forward.

    With `path`, the head is also in that file (written when the log has grown), and evidence of two histories
    in files beside it (`indai.client.fraud`). Raises InvalidInput at construction for a file of another
    network.
    """

    def __init__(self, policy: NetworkPolicy, clock: Callable[[], int], path: Path | None) -> None:
        self.policy = policy
        self._clock = clock
        self._path = path
        self._writing = asyncio.Lock()
        self._stored_size = 0
        # What was verified lately, by size: what others say of a head is compared with these.
        self._seen: OrderedDict[int, Head] = OrderedDict()
        self.retired: tuple[Retired, ...] = ()
        self.kept: Head | None = self._load()

    @property
    def size(self) -> int:
        """The size to ask a consistency proof from; 0 when nothing is known."""
        return self.kept.size if self.kept else 0

    def at(self, size: int) -> Head | None:
        """The head of that size, if it is one of those verified lately."""
        return self._seen.get(size)

    def accept(self, note: bytes, since: Head | None, proof: Sequence[bytes]) -> Head | None:
        """Verify a head that was asked for when `since` was kept.

        None when another head has been kept meanwhile which this one is not linked to: ask again. Raises
        ProtocolError: BAD_SIGNATURE, BAD_CHECKPOINT, SPLIT_VIEW or LOG_ROLLED_BACK; Unavailable(STALE_HEAD)
        for a head older than the one kept.
        """
        head = self.policy.open(note)
        if head.time_ms > self._clock() + MAX_SKEW_MS:
            message = "The registry's head is from the future: its clock or this machine's is wrong."
            raise ProtocolError(Reason.BAD_CHECKPOINT, message, rule="REG-13")
        if self.kept is not None and head.size == self.kept.size and head.root != self.kept.root:
            raise self._contradiction(Reason.SPLIT_VIEW, self.kept, head)
        if since is not None:
            self._check_extends(since, head, proof)
        linked = since is not None and self.kept is not None and since.size == self.kept.size
        if self.kept is not None and head.size != self.kept.size and not linked:
            return None
        if self.kept is None or head.size > self.kept.size or head.time_ms > self.kept.time_ms:
            self.kept = head
        self._seen[head.size] = head
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return head

    def is_of_another_key(self, note: bytes) -> bool:
        """Whether a head names the log, and was not signed with the key that is believed."""
        log = self.policy.log
        signatures = parse_note(note)[1]
        return any(one.name == log.name for one in signatures) and all(
            (one.name, one.key_hash) != (log.name, log.key_hash) for one in signatures
        )

    def follow(self, change: KeyChange, since: Head | None, proof: Sequence[bytes]) -> bool:
        """Believe the log's next key, if `change` is about the one believed now; whether it was followed.

        `proof` leads from `since` to the head of the change. Raises as `NetworkPolicy.follow` and `accept`.
        """
        if announced_by(change.leaf) != self.policy.log:
            return False
        head, policy = self.policy.follow(change)
        if self.accept(head.note, since, proof) is None:
            return False
        self.retired += (Retired(self.policy.log, head.note, head.size),)
        self.policy = policy
        self._stored_size = -1
        return True

    def open(self, note: bytes) -> tuple[Checkpoint, Verifier]:
        """A head that the log signed, with its key now or one it had; and that key. Raises ProtocolError."""
        signed = {(one.name, one.key_hash) for one in parse_note(note)[1]}
        keys = (self.policy.log, *(one.log for one in reversed(self.retired)))
        log = next((key for key in keys if (key.name, key.key_hash) in signed), self.policy.log)
        return open_checkpoint(note, log)[0], log

    def check_fresh(self, head: Head, max_age_ms: int) -> None:
        """Raises Unavailable(STALE_HEAD) when the head's time is more than `max_age_ms` ago."""
        age = self._clock() - head.time_ms
        if age > max_age_ms:
            raise Unavailable(
                Reason.STALE_HEAD,
                f"The registry's newest head is {age // 1000} s old; the limit is {max_age_ms // 1000} s.",
                hint="try again when the registry is back",
                metadata={"rule": "REG-13"},
            )

    async def save(self) -> None:
        """Write the head to its file if the log has grown since; raises Unavailable(STORAGE_FULL)."""
        async with self._writing:
            head = self.kept
            if self._path is None or head is None or head.size <= self._stored_size:
                return
            await asyncio.to_thread(replace_file, self._path, self._document(head))
            self._stored_size = head.size

    def _check_extends(self, since: Head, head: Head, proof: Sequence[bytes]) -> None:
        if head.size < since.size:
            # An older answer may be late or from a slow mirror; a smaller tree signed later is a broken word.
            if head.time_ms > since.time_ms:
                raise self._contradiction(Reason.LOG_ROLLED_BACK, since, head)
            message = f"The registry answered with a head of size {head.size}, older than the one known."
            raise Unavailable(Reason.STALE_HEAD, message, hint="try again", metadata={"rule": "REG-12"})
        if since.size == 0:
            return
        try:
            verify_consistency(since.size, since.root, head.size, head.root, proof)
        except ProtocolError:
            raise self._contradiction(Reason.SPLIT_VIEW, since, head, proof) from None

    def _contradiction(
        self, reason: Reason, one: Head, other: Head, proof: Sequence[bytes] = ()
    ) -> ProtocolError:
        where = ""
        same_key = {self.open(note)[1] for note in (one.note, other.note)}
        if self._path is not None and len(same_key) == 1:
            # At once, even in an event loop: it is one small file, once in the life of a network.
            path = Evidence.of(same_key.pop(), one.note, other.note, proof).write(self._path.parent)
            where = f"both signed notes are in {path}: give it to `indai audit`"
        what = "signed a smaller log later" if reason is Reason.LOG_ROLLED_BACK else "signed two histories"
        message = f"The registry {self.policy.origin} {what}: sizes {one.size} and {other.size} do not agree."
        return SplitView(reason, message, one.note, other.note, hint=where)

    def _document(self, head: Head) -> bytes:
        others = [seen for size, seen in self._seen.items() if size != head.size]
        notes = [one.note.decode("utf-8") for one in (head, *reversed(others[-MAX_STORED:]))]
        document: dict[str, object] = {"network": self.policy.network, "heads": notes}
        if self.retired:
            document["log"] = self.policy.log.vkey
            document["retired"] = [[one.log.vkey, one.note.decode("utf-8")] for one in self.retired]
        return json.dumps(document, indent=1).encode("utf-8")

    def _load(self) -> Head | None:
        if self._path is None or not self._path.exists():
            return None
        try:
            document = json.loads(self._path.read_bytes())
            network, notes = document["network"], [text.encode("utf-8") for text in document["heads"]]
            note = notes[0]
            log = parse_vkey(document["log"]) if "log" in document else None
            retired = [(parse_vkey(vkey), text.encode("utf-8")) for vkey, text in document.get("retired", ())]
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, IndaiError) as error:
            raise self._unusable("cannot be read") from error
        if network != self.policy.network:
            raise self._unusable(f"is of another network than {self.policy.network}")
        try:
            policy = self.policy
            if self.is_of_another_key(note):
                # The key was followed to by us before; or the policy is newer than this file.
                policy = policy.with_log(log or policy.first)
                self.policy = policy if log else self.policy
            head = policy.open(note)
            self.retired = tuple(
                Retired(key, text, open_checkpoint(text, key)[0].size) for key, text in retired
            )
            for seen in (self._opened(text) for text in (*reversed(notes[1:]), note)):
                self._seen[seen.size] = seen
        except IndaiError as error:
            raise self._unusable("does not verify") from error
        self._stored_size = head.size
        return head

    def _opened(self, note: bytes) -> Head:
        """A head of the file, under the key that the log had then."""
        signed = {(one.name, one.key_hash) for one in parse_note(note)[1]}
        keys = (self.policy.log, self.policy.first, *(one.log for one in self.retired))
        log = next((key for key in keys if (key.name, key.key_hash) in signed), self.policy.log)
        return self.policy.with_log(log).open(note)

    def _unusable(self, why: str) -> InvalidInput:
        return InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The file of the last registry head, {self._path}, {why}.",
            hint="if you are sure, remove it: what this client knows of the log's past is forgotten with it",
        )


class SplitView(ProtocolError):
    """The registry's log contradicts itself; `notes` are the two signed heads."""

    def __init__(self, reason: Reason, message: str, one: bytes, other: bytes, *, hint: str) -> None:
        super().__init__(reason, message, rule="REG-12", hint=hint)
        self.notes = (one, other)

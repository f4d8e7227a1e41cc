"""The witness: cosigns the heads of logs it knows, each only if it extends the last one (C2SP tlog-witness).

It needs no database: for each log the last cosigned head is one small file (`indai.tlog.headfile`). Check,
write and signature are one step under the log's lock, and the file is on the disk before anybody is
answered. One process owns the directory; a second one is refused, since two could cosign two histories.

A witness that was restored from a backup could cosign another history from there. So the last heads can be
kept in a second directory too, the *guard*, on a disk that is not restored with the first; nothing is
answered before both have a head. A start on other heads than the guard's is refused, and so is a log that
shows the witness its own signature on a head that it does not remember.

A log may be known by several keys, oldest first: once a head of one was cosigned, earlier ones count no more.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from indai.client.fraud import Evidence
from indai.protocol.checkpoint import Checkpoint, read_checkpoint
from indai.protocol.errors import IndaiError, ProtocolError, Reason, Refused
from indai.protocol.keys import SigningKey
from indai.protocol.note import Signer, Verifier, open_note, parse_note, signature_line
from indai.protocol.witnessing import MAX_REQUEST, SIZE_TYPE, UNKNOWN_LOG, AddCheckpoint, Refusal, judge
from indai.tlog.headfile import HeadFile, signer_of

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    """One log. The lock makes check and write one step: without it a slower request for a smaller size could
    roll a larger one back."""

    keys: tuple[Verifier, ...]
    file: HeadFile
    guard: HeadFile | None
    lock: asyncio.Lock
    head: Checkpoint | None = None
    note: bytes = b""


class Witness:
    """Cosigns as `name` with `key`; `clock` gives ms since the epoch. Use `Witness.open`."""

    def __init__(
        self,
        name: str,
        key: SigningKey,
        logs: Sequence[Verifier],
        directory: Path,
        clock: Callable[[], int],
        guard: Path | None = None,
    ) -> None:
        self.verifier = Signer(name, key, time=0).verifier
        self._name = name
        self._key = key
        self._clock = clock
        self._directory = directory
        self._guard = guard
        self._logs = {
            name: self._watched(tuple(log for log in logs if log.name == name))
            for name in dict.fromkeys(log.name for log in logs)
        }

    @classmethod
    @contextmanager
    def open(
        cls,
        name: str,
        key: SigningKey,
        logs: Sequence[Verifier],
        directory: Path,
        clock: Callable[[], int],
        guard: Path | None = None,
    ) -> Iterator[Witness]:
        """A witness that owns `directory`; raises Refused(LOG_FENCED) while another process does,
        InvalidInput for a head file that is not its log's, IndaiError(LOG_ROLLED_BACK) on older heads than
        the guard's."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(directory / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Refused(
                    Reason.LOG_FENCED,
                    f"Another process is the witness of {directory}.",
                    hint="stop one of the two",
                ) from None
            witness = cls(name, key, logs, directory, clock, guard)
            witness._load()
            yield witness
        finally:
            os.close(handle)

    async def add_checkpoint(self, raw: bytes) -> bytes | Refusal:
        """The signature line for a request's body, or the refusal; raises Unavailable when the disk fails."""
        try:
            request = AddCheckpoint.parse(raw)
            watched = self._logs.get(read_checkpoint(request.note).origin)
        except ProtocolError as error:
            return Refusal(400, error.message)
        if watched is None:
            return UNKNOWN_LOG
        async with watched.lock:
            return await self._answer(watched, request)

    async def _answer(self, watched: _Watched, request: AddCheckpoint) -> bytes | Refusal:
        known = {watched.head.origin: watched.head} if watched.head else {}
        log = _signing_log(watched, request.note)
        if self._has_forgotten(watched, request.note):
            _log.error("the witness has cosigned a head of %s that it does not remember", log.name)
            return Refusal(403, "This witness was restored from a backup.")
        head = judge(request, {log.name: log}, known)
        if isinstance(head, Refusal):
            if head.status in (409, 422):
                await self._keep_evidence(watched, log, request)
            return head
        if head != watched.head:
            await asyncio.to_thread(watched.file.write, request.note)
            watched.head, watched.note = head, request.note
        if watched.guard is not None:
            await asyncio.to_thread(_write_once, watched.guard, request.note, head)
        watched.note = request.note
        text, _ = parse_note(request.note)
        return signature_line(text, Signer(self._name, self._key, time=self._clock() // 1000))

    def _has_forgotten(self, watched: _Watched, note: bytes) -> bool:
        """Whether the note has our own signature on a head beyond the last one that we know of."""
        try:
            mine = open_note(note, [self.verifier])
        except ProtocolError:
            return False
        return Checkpoint.parse(mine.text).size > (watched.head.size if watched.head else 0)

    async def _keep_evidence(self, watched: _Watched, log: Verifier, request: AddCheckpoint) -> None:
        """A signed head that contradicts the last one is evidence against its log; the first is kept."""
        if not watched.note or any(self._directory.glob("fraud-*.jsonl")):
            return
        try:
            evidence = Evidence.of(log, watched.note, request.note, request.proof)
            if evidence.is_proof:
                path = await asyncio.to_thread(evidence.write, self._directory)
                _log.error("the log %s has signed two histories; the proof is in %s", log.name, path)
        except IndaiError:
            return  # an honest log that was merely behind

    def _watched(self, keys: tuple[Verifier, ...]) -> _Watched:
        guard = HeadFile(self._guard, *keys) if self._guard else None
        return _Watched(keys, HeadFile(self._directory, *keys), guard, asyncio.Lock())

    def _load(self) -> None:
        for watched in self._logs.values():
            watched.head = watched.file.read()
            watched.note = watched.file.path.read_bytes() if watched.head else b""
            if watched.guard is not None:
                self._check_guard(watched, watched.guard)

    def _check_guard(self, watched: _Watched, guard: HeadFile) -> None:
        """The guard may be behind, after a crash between the two writes, and never ahead. A mark beside the
        head file says that there is one, so that a witness restored without its guard refuses too."""
        mark = watched.file.path.with_suffix(".guarded")
        last, size = guard.read(), watched.head.size if watched.head else 0
        name = watched.keys[0].name
        if last is None and watched.head is not None and mark.exists():
            raise forgotten(name, "what its guard kept is gone", guard.path)
        if last is not None and (last.size > size or (last.size == size and last != watched.head)):
            raise forgotten(name, f"{last.size} leaves were cosigned and {size} are known", guard.path)
        if watched.note and last != watched.head:
            guard.write(watched.note)
        mark.touch(0o600)


def forgotten(log: str, why: str, path: Path) -> IndaiError:
    """This witness does not remember what it has cosigned."""
    return IndaiError(
        Reason.LOG_ROLLED_BACK,
        f"The witness has forgotten what it cosigned of {log}: {why}.",
        hint=f"Retire it, and let a new witness with a new key take its place; {path} is its guard.",
    )


def _write_once(guard: HeadFile, note: bytes, head: Checkpoint) -> None:
    if guard.read() != head:
        guard.write(note)


def _signing_log(watched: _Watched, note: bytes) -> Verifier:
    """The key to judge a note with: none that is older than the one of the last head."""
    last = watched.keys.index(signer_of(watched.note, watched.keys)) if watched.note else 0
    return signer_of(note, watched.keys[last:])


def witness_routes(witness: Witness) -> list[web.RouteDef]:
    """`POST /add-checkpoint`."""

    async def add_checkpoint(request: web.Request) -> web.Response:
        raw = await request.content.read(MAX_REQUEST + 1)
        while len(raw) <= MAX_REQUEST and (more := await request.content.read(MAX_REQUEST + 1 - len(raw))):
            raw += more
        try:
            answer = await witness.add_checkpoint(raw)
        except IndaiError as error:
            return web.Response(status=503, text=f"{error.message}\n")
        if isinstance(answer, Refusal):
            kind = "text/plain" if answer.size is None else SIZE_TYPE
            return web.Response(status=answer.status, body=answer.body, content_type=kind)
        return web.Response(body=answer, content_type="text/plain", charset="utf-8")

    return [web.post("/add-checkpoint", add_checkpoint)]

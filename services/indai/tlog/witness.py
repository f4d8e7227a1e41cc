"""The witness: cosigns the heads of logs it knows, each only if it extends the last one (C2SP tlog-witness).

It needs no database: for each log the last cosigned head is one small file (`indai.tlog.headfile`). Check,
write and signature are one step under the log's lock, and the file is on the disk before anybody is
answered. One process owns the directory; a second one is refused, since two could cosign two histories.
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
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason, Refused
from indai.protocol.keys import SigningKey
from indai.protocol.note import Signer, Verifier, parse_note, signature_line
from indai.protocol.witnessing import MAX_REQUEST, SIZE_TYPE, UNKNOWN_LOG, AddCheckpoint, Refusal, judge
from indai.tlog.headfile import HeadFile

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    """One log. The lock makes check and write one step: without it a slower request for a smaller size could
    roll a larger one back."""

    file: HeadFile
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
    ) -> None:
        self.verifier = Signer(name, key, time=0).verifier
        self._name = name
        self._key = key
        self._clock = clock
        self._directory = directory
        self._keys = {log.name: log for log in logs}
        if len(self._keys) != len(logs):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A witness knows each log by one key.")
        self._logs = {log.name: _Watched(HeadFile(directory, log), asyncio.Lock()) for log in logs}

    @classmethod
    @contextmanager
    def open(
        cls,
        name: str,
        key: SigningKey,
        logs: Sequence[Verifier],
        directory: Path,
        clock: Callable[[], int],
    ) -> Iterator[Witness]:
        """A witness that owns `directory`; raises Refused(LOG_FENCED) while another process does, and
        InvalidInput for a head file that is not its log's."""
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
            witness = cls(name, key, logs, directory, clock)
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
        head = judge(request, self._keys, known)
        if isinstance(head, Refusal):
            if head.status in (409, 422):
                await self._keep_evidence(watched, request)
            return head
        if head != watched.head:
            await asyncio.to_thread(watched.file.write, request.note)
            watched.head, watched.note = head, request.note
        text, _ = parse_note(request.note)
        return signature_line(text, Signer(self._name, self._key, time=self._clock() // 1000))

    async def _keep_evidence(self, watched: _Watched, request: AddCheckpoint) -> None:
        """A signed head that contradicts the last one is evidence against its log; the first is kept."""
        log = self._keys[read_checkpoint(request.note).origin]
        if not watched.note or any(self._directory.glob("fraud-*.jsonl")):
            return
        try:
            evidence = Evidence.of(log, watched.note, request.note, request.proof)
            if evidence.is_proof:
                path = await asyncio.to_thread(evidence.write, self._directory)
                _log.error("the log %s has signed two histories; the proof is in %s", log.name, path)
        except IndaiError:
            return  # an honest log that was merely behind

    def _load(self) -> None:
        for watched in self._logs.values():
            watched.head = watched.file.read()
            watched.note = watched.file.path.read_bytes() if watched.head else b""


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

"""Asking a log's witnesses for their cosignatures (the client's side of C2SP tlog-witness).

All are asked at once, and the answer is there as soon as the quorum is: one that is slow or down delays
nobody as long as the others suffice. A witness is asked one thing at a time; what it has cosigned last is
remembered, and learned from its 409 when it is not. Its word counts only after its signature was verified.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import aiohttp
from indai.client.tasks import end_tasks
from indai.protocol.checkpoint import Checkpoint, read_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason, Unavailable
from indai.protocol.note import Verifier, open_note, parse_note
from indai.protocol.tlogpolicy import TlogPolicy
from indai.protocol.witnessing import AddCheckpoint, read_size

TIMEOUT_S = 5.0
MAX_ANSWER = 16 * 1024
ATTEMPTS = 3

_log = logging.getLogger(__name__)

Proof = Callable[[int, int], Awaitable[list[bytes]]]
"""The consistency proof between two sizes of the log."""


@dataclass(slots=True)
class _Witness:
    """One witness, and the size that it has cosigned last as far as we know."""

    name: str
    verifier: Verifier
    url: str
    size: int = 0
    cosigned: int = 0  # the largest that it has signed for us, verified
    free: asyncio.Lock = field(default_factory=asyncio.Lock)  # one question at a time, or both get a 409


class Cosigners:
    """The witnesses of one log. `policy` names them with their URLs and the quorum; `log` is its key."""

    def __init__(
        self, policy: TlogPolicy, log: Verifier, proof: Proof, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        without = [name for name in policy.witnesses if name not in policy.urls]
        if without:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"The witness {without[0]} has no URL in the policy file.",
                hint="witness <name> <vkey> <url>",
            )
        self._policy = replace(policy, logs=(log,))
        self._proof = proof
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._witnesses = [
            _Witness(name, verifier, policy.urls[name].rstrip("/"))
            for name, verifier in policy.witnesses.items()
        ]
        self._session: aiohttp.ClientSession | None = None
        self._asking: set[asyncio.Task[bytes]] = set()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await end_tasks(*self._asking)
        if self._session is not None:
            await self._session.close()

    def change_log(self, log: Verifier) -> None:
        """The log signs with another key from now on."""
        self._policy = replace(self._policy, logs=(log,))

    async def cosign(self, note: bytes) -> bytes:
        """The note with the lines of a quorum; raises Unavailable(STALE_HEAD) when it isn't reached in time.

        Those who are slower than the quorum are heard out in the background.
        """
        head = read_checkpoint(note)
        pending = {asyncio.create_task(self._ask(witness, note, head)) for witness in self._witnesses}
        self._asking |= pending
        for task in pending:
            task.add_done_callback(self._asking.discard)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            note += b"".join(sorted(task.result() for task in done))
            if self._is_enough(note):
                return note
        raise Unavailable(
            Reason.STALE_HEAD,
            f"The witnesses of {head.origin} do not reach their quorum.",
            hint="try again when they are back",
        )

    def _is_enough(self, note: bytes) -> bool:
        try:
            self._policy.open(note)
        except ProtocolError:
            return False
        return True

    async def _ask(self, witness: _Witness, note: bytes, head: Checkpoint) -> bytes:
        """The witness's line, or nothing; never raises but when cancelled."""
        try:
            async with asyncio.timeout(self._timeout.total), witness.free:
                return await self._ask_until_clear(witness, note, head)
        except (IndaiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.warning("the witness %s did not cosign: %s", witness.name, error or type(error).__name__)
        return b""

    async def _ask_until_clear(self, witness: _Witness, note: bytes, head: Checkpoint) -> bytes:
        for _ in range(ATTEMPTS):
            if witness.size > head.size:
                return b""  # it has cosigned a later head of ours meanwhile
            known = 0 < witness.size < head.size
            proof = await self._proof(witness.size, head.size) if known else []
            status, answer = await self._post(witness, AddCheckpoint(witness.size, tuple(proof), note))
            newest = read_size(answer) if status == 409 else None
            if newest is not None and newest < witness.cosigned:
                _log.error("the witness %s has forgotten what it cosigned: restored?", witness.name)
                return b""
            if newest is None or newest == witness.size:
                return self._line(witness, note, head, status, answer)
            witness.size = newest
        return b""

    async def _post(self, witness: _Witness, request: AddCheckpoint) -> tuple[int, bytes]:
        if self._session is None:
            raise Unavailable(Reason.UNREACHABLE, "The witnesses are asked only while the log runs.")
        url = f"{witness.url}/add-checkpoint"
        async with self._session.post(url, data=request.encode(), allow_redirects=False) as response:
            body = b""
            while len(body) <= MAX_ANSWER and (more := await response.content.read(MAX_ANSWER)):
                body += more
            return response.status, body[:MAX_ANSWER]

    def _line(self, witness: _Witness, note: bytes, head: Checkpoint, status: int, answer: bytes) -> bytes:
        """The verified line of this witness out of its answer; others' lines in it are dropped."""
        if status != 200:
            level = logging.ERROR if status in (409, 422) else logging.WARNING
            _log.log(level, "the witness %s refuses a head of %s: %s", witness.name, head.origin, status)
            return b""
        text, _ = parse_note(note)
        bare = text.encode() + b"\n"
        mine = [line + b"\n" for line in answer.split(b"\n") if line.split(b" ")[1:2] == [_name(witness)]]
        open_note(bare + b"".join(mine), [witness.verifier])
        witness.size = head.size
        witness.cosigned = max(witness.cosigned, head.size)
        return b"".join(mine)


def _name(witness: _Witness) -> bytes:
    return witness.verifier.name.encode()

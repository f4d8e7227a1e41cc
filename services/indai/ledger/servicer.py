"""`indai.v1.LedgerService`: heads, proofs and exports of one node's ledger.

It reads what the node's transactions committed and signs it. Who may ask for whose entries is the node's
to decide before it calls: this service has no peers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import asyncpg
import grpc
from indai.ledger.earlier import EarlierLedgers, keys_of
from indai.ledger.export import LedgerIdentity, export_lines
from indai.ledger.fsck import Checked, Subject, check
from indai.ledger.keys import LedgerKeys
from indai.ledger.vault import Sealed, Vault, entry_name
from indai.protocol.checkpoint import open_checkpoint, read_checkpoint
from indai.protocol.cosereceipt import CoseReceipt, sign_receipt
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.protocol.handles import Handle
from indai.protocol.header import MID_BYTES
from indai.protocol.keys import SigningKey
from indai.protocol.leaf import LeafKind
from indai.protocol.note import Signer, Verifier
from indai.protocol.quoting import quoted
from indai.protocol.tlogproof import TlogProof
from indai.storage.pool import transaction
from indai.tlog.headfile import HeadFile, signer_of
from indai.tlog.reader import LogReader
from indai.tlog.signer import LogSigner
from indai.v1 import ledger_pb2 as pb
from indai.v1 import ledger_pb2_grpc

_CHUNK = 256 * 1024

_FIND = """
    SELECT entry.idx, leaf.leaf, content.content, content_key.key
    FROM tlog.entry AS entry
    JOIN tlog.leaf AS leaf ON leaf.log = entry.log AND leaf.idx = entry.idx
    LEFT JOIN ledger.contents AS content ON content.log = entry.log AND content.idx = entry.idx
    LEFT JOIN ledger.content_keys AS content_key
      ON content_key.log = entry.log AND content_key.idx = entry.idx
    WHERE entry.log = $1 AND entry.owner = $2 AND entry.mid = $3 AND entry.kind = $4
"""

_ELSEWHERE = """
    SELECT entry.log FROM tlog.entry AS entry
    WHERE entry.log = ANY ($3) AND entry.owner = $1 AND entry.mid = $2 AND entry.kind = $4 LIMIT 1
"""


class LedgerService(ledger_pb2_grpc.LedgerServiceServicer):
    """Serves the ledger that `signer` signs with the current one of `keys`. `clock`: ms since the epoch."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        signer: LogSigner,
        identity: LedgerIdentity,
        vault: Vault,
        clock: Callable[[], int],
        keys: LedgerKeys,
    ) -> None:
        self._pool = pool
        self._keys = keys
        self._next, self._change = _vkey(identity.log, keys.next), keys.change
        self._changing = asyncio.Lock()
        self._vault = vault
        self._signer = signer
        self._identity = identity
        self._clock = clock
        self._earlier = EarlierLedgers(pool, identity.node, identity.log)

    async def GetCheckpoint(
        self,
        request: pb.GetCheckpointRequest,
        context: grpc.aio.ServicerContext[pb.GetCheckpointRequest, pb.GetCheckpointResponse],
    ) -> pb.GetCheckpointResponse:
        """The head of everything committed."""
        async with self._changing:
            return pb.GetCheckpointResponse(
                checkpoint=await self._signer.publish(),
                origin=self._identity.log,
                vkey=self._signer.verifier.vkey,
                content_key_id=self._vault.key_id,
                next_vkey=self._next,
                key_change=self._change,
            )

    async def PrepareLedgerKey(
        self,
        request: pb.PrepareLedgerKeyRequest,
        context: grpc.aio.ServicerContext[pb.PrepareLedgerKeyRequest, pb.PrepareLedgerKeyResponse],
    ) -> pb.PrepareLedgerKeyResponse:
        """The next key, and how this one announces it."""
        async with self._changing:
            key, announcement = await asyncio.to_thread(self._keys.prepare)
            self._next = _vkey(self._identity.log, key)
            return pb.PrepareLedgerKeyResponse(
                vkey=self._signer.verifier.vkey, next_vkey=self._next, announcement=announcement
            )

    async def ChangeLedgerKey(
        self,
        request: pb.ChangeLedgerKeyRequest,
        context: grpc.aio.ServicerContext[pb.ChangeLedgerKeyRequest, pb.ChangeLedgerKeyResponse],
    ) -> pb.ChangeLedgerKeyResponse:
        """The next key signs from now on; repeated, nothing changes. Raises NotFound for any other key."""
        async with self._changing:
            if request.vkey != self._signer.verifier.vkey:
                # Refused where another process signs: then no key is taken here.
                await self._signer.publish()
                keys = await asyncio.to_thread(self._keys.take, request.vkey)
                await self._signer.change(keys)
                self._next, self._change = "", await asyncio.to_thread(lambda: self._keys.change)
        return pb.ChangeLedgerKeyResponse(checkpoint=await self._signer.publish())

    async def GetReceiptProof(
        self,
        request: pb.GetReceiptProofRequest,
        context: grpc.aio.ServicerContext[pb.GetReceiptProofRequest, pb.GetReceiptProofResponse],
    ) -> pb.GetReceiptProofResponse:
        """The proof of a commitment's leaf, with its opening unless that is erased; in whichever ledger of
        the node it lies."""
        owner = _handle(request.owner)
        if len(request.mid) != MID_BYTES:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"A mid has {MID_BYTES} bytes.", fields={"mid": "wrong length"}
            )
        log, index, leaf, envelope, opening = await self._find(owner, request.mid)
        reader, is_current = LogReader(self._pool, log), log == self._identity.log
        checkpoint = await reader.signed_at(index + 1)
        if checkpoint is None:  # hashed perhaps, and not signed yet: then whoever is signing is waited for
            if not is_current:
                message = f"No signed head of {log} covers leaf {index}."
                hint = "its keys were gone when the next began: what came after the last head has no proof"
                raise NotFound(Reason.NOT_FOUND, message, hint=hint)
            await self._signer.publish()
            checkpoint = await reader.checkpoint_at(index + 1)
        path = await reader.inclusion_proof(index, read_checkpoint(checkpoint).size)
        receipt: CoseReceipt | TlogProof | None = TlogProof(index, tuple(path), checkpoint, opening)
        if request.format == pb.RECEIPT_FORMAT_COSE and is_current:
            receipt = self._signer.cose_receipt(index, path, checkpoint)
        elif request.format == pb.RECEIPT_FORMAT_COSE:
            receipt = await asyncio.to_thread(self._cose, log, index, path, checkpoint)
        proof = receipt.encode() if receipt else b""
        return pb.GetReceiptProofResponse(proof=proof, leaf=leaf, opening=opening or b"", envelope=envelope)

    async def GetConsistencyProof(
        self,
        request: pb.GetConsistencyProofRequest,
        context: grpc.aio.ServicerContext[pb.GetConsistencyProofRequest, pb.GetConsistencyProofResponse],
    ) -> pb.GetConsistencyProofResponse:
        """The proof that the log only grew between two sizes."""
        checkpoint = b"" if request.new_size else await self._signer.publish()
        new_size = request.new_size or read_checkpoint(checkpoint).size
        hashes = await LogReader(self._pool, self._identity.log).consistency_proof(request.old_size, new_size)
        return pb.GetConsistencyProofResponse(hashes=hashes, checkpoint=checkpoint)

    async def ExportLedger(
        self,
        request: pb.ExportLedgerRequest,
        context: grpc.aio.ServicerContext[pb.ExportLedgerRequest, pb.ExportLedgerResponse],
    ) -> AsyncIterator[pb.ExportLedgerResponse]:
        """The whole log, with the contents of one owner or of all."""
        scope = _handle(request.owner) if request.owner else ""
        owners = [scope] if scope else [_handle(owner) for owner in request.owners]
        log = await self._earlier.find(request.log) if request.log else self._identity.log
        if log == self._identity.log:
            # The key is read where nothing can change it between the signature and here.
            async with self._changing:
                note = await self._signer.publish()
                identity = replace(self._identity, vkey=self._signer.verifier.vkey)
        else:
            note, key = await self._earlier.head(log, request.vkeys)
            identity = replace(self._identity, log=log, vkey=key.vkey)
        chunk = bytearray()
        lines = export_lines(self._pool, identity, note, owners, scope, self._clock(), self._vault)
        async for line in lines:
            chunk += line
            if len(chunk) >= _CHUNK:
                yield pb.ExportLedgerResponse(lines=bytes(chunk))
                chunk.clear()
        yield pb.ExportLedgerResponse(lines=bytes(chunk))

    async def CheckLedger(
        self,
        request: pb.CheckLedgerRequest,
        context: grpc.aio.ServicerContext[pb.CheckLedgerRequest, pb.CheckLedgerResponse],
    ) -> AsyncIterator[pb.CheckLedgerResponse]:
        """The live ledger against itself: how far it is, then what was found."""
        signer = self._signer
        log = await self._earlier.find(request.log) if request.log else self._identity.log
        given = keys_of(log, request.vkeys) if log != self._identity.log else ()

        def subject() -> Subject:
            keys: Sequence[Verifier] = given or (signer.verifier, *signer.former)
            path = HeadFile(signer.head_file.parent, *keys).path
            return Subject(keys[0], self._vault, path, tuple(keys[1:]))

        owners = [_handle(owner) for owner in request.owners]
        done: asyncio.Queue[int | None] = asyncio.Queue()
        work = asyncio.create_task(check(self._pool, subject(), owners, done.put_nowait, subject))
        work.add_done_callback(lambda _: done.put_nowait(None))
        try:
            while (leaves := await done.get()) is not None:
                yield pb.CheckLedgerResponse(leaves=leaves)
        finally:
            work.cancel()  # a caller who has gone needs no answer; nothing happens to one that is done
        yield _checked(await work)

    def _cose(self, log: str, index: int, path: Sequence[bytes], note: bytes) -> CoseReceipt | None:
        """Of a leaf of an earlier ledger, under a head that was signed; None where its keys are gone."""
        keys = self._keys.of_earlier(log)
        if keys is None:
            return None
        with suppress(IndaiError):  # a key that was made anew in the place of a lost one signs nothing
            head, _ = open_checkpoint(note, signer_of(note, (keys.current.verifier, *keys.former)))
            return sign_receipt(log, keys.current.key, head.size, head.root, index, tuple(path))
        return None

    async def _find(self, owner: str, mid: bytes) -> tuple[str, int, bytes, bytes, bytes | None]:
        """Ledger, index, leaf, envelope and opening of an owner's commitment; NotFound also for somebody
        else's."""
        log, kind = self._identity.log, int(LeafKind.COMMITMENT)
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(_FIND, log, owner, mid, kind)
        if row is None:
            earlier = await self._earlier.origins()
            async with transaction(self._pool, [owner]) as connection:
                log = await connection.fetchval(_ELSEWHERE, owner, mid, earlier, kind) or log
                row = await connection.fetchrow(_FIND, log, owner, mid, kind)
        if row is None:
            message = f"The ledger of {owner} holds no commitment {mid.hex()[:12]}."
            raise NotFound(Reason.NOT_FOUND, message, hint="see `indai threads` for those it holds")
        if row["key"] is None:
            return log, row["idx"], row["leaf"], b"", None
        name = entry_name(owner, mid, LeafKind.COMMITMENT)
        envelope, opening = self._vault.open(name, Sealed(row["content"], row["key"]))
        return log, row["idx"], row["leaf"], envelope, opening


def _checked(found: Checked) -> pb.CheckLedgerResponse:
    return pb.CheckLedgerResponse(
        leaves=found.leaves,
        finished=True,
        opened=found.opened,
        erased=found.erased,
        tiles=found.tiles,
        heads=found.heads,
        findings=[pb.LedgerFinding(place=one.place, message=one.message) for one in found.findings],
    )


def _vkey(log: str, key: SigningKey | None) -> str:
    return Signer(log, key).verifier.vkey if key else ""


def _handle(text: str) -> str:
    try:
        return str(Handle.parse(text))
    except InvalidInput as error:
        raise InvalidInput(
            error.reason, f"{quoted(text)} is not an owner's handle.", fields={"owner": error.message}
        ) from None

"""What a node hands out for an audit: its ledger's lines, completed with the threads' signed messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from indai.client.exports import IN, OUT, ExportWriter, MessageLine, PeerCheckpointLine
from indai.node.agents import Agents
from indai.node.store import Store
from indai.v1 import ledger_pb2, owner_pb2

if TYPE_CHECKING:
    from indai.v1.ledger_pb2_grpc import LedgerServiceAsyncStub

PAGE = 500
CHUNK = 256 * 1024
_HEADS = (b'{"type":"header"', b'{"type":"checkpoint"')
_END = b'{"type":"end"'

_HEARD = """
SELECT h.note FROM node.peer_heads h
WHERE h.size = (SELECT max(n.size) FROM node.peer_heads n WHERE n.log = h.log)
   OR EXISTS (SELECT FROM node.peer_heads n WHERE n.log = h.log AND n.size = h.size AND n.root <> h.root)
ORDER BY h.log, h.size, h.root
"""
_MESSAGES = """
SELECT thread, owner, mid, outgoing, envelope, position FROM node.messages
WHERE owner = ANY($1) AND envelope <> '' AND (owner, thread, position) > ($2, $3, $4)
ORDER BY owner, thread, position LIMIT $5
"""


class Exporter:
    """Streams an export. `owner` is a handle, or "" for the whole node; `ledger` an earlier one of the
    node's, or "". `named`: verifier keys of ledgers that the node's records have named, oldest first."""

    def __init__(
        self,
        ledger: LedgerServiceAsyncStub,
        store: Store,
        agents: Agents,
        named: Callable[[], Awaitable[Sequence[str]]],
    ) -> None:
        self._named = named
        self._ledger = ledger
        self._store = store
        self._agents = agents

    async def lines(self, owner: str, ledger: str = "") -> AsyncIterator[bytes]:
        """Chunks of whole lines, ready to be written to a file."""
        owners = [owner] if owner else self._agents.recorded
        writer, chunk = ExportWriter(), bytearray()
        async for line in self._all(writer, owner, owners, ledger):
            chunk += line
            if len(chunk) >= CHUNK:
                yield bytes(chunk)
                chunk.clear()
        yield bytes(chunk + writer.end())

    async def receipt(self, owner: str, mid: bytes) -> owner_pb2.GetReceiptResponse:
        """That the ledger holds the owner's commitment, or event of one; raises NotFound."""
        tlog, cose = [
            await self._ledger.GetReceiptProof(
                ledger_pb2.GetReceiptProofRequest(owner=owner, mid=mid, format=encoding)
            )
            for encoding in (ledger_pb2.RECEIPT_FORMAT_TLOG_PROOF, ledger_pb2.RECEIPT_FORMAT_COSE)
        ]
        return owner_pb2.GetReceiptResponse(
            tlog_proof=tlog.proof,
            cose=cose.proof,
            leaf=tlog.leaf,
            opening=tlog.opening,
            envelope=tlog.envelope,
        )

    async def check(self, ledger: str = "") -> AsyncIterator[ledger_pb2.CheckLedgerResponse]:
        """The ledger checked against itself, with everybody who lives here."""
        vkeys = await self._named() if ledger else ()
        request = ledger_pb2.CheckLedgerRequest(owners=self._agents.recorded, log=ledger, vkeys=vkeys)
        async for response in self._ledger.CheckLedger(request):
            yield response

    async def _all(
        self, writer: ExportWriter, owner: str, owners: list[str], ledger: str
    ) -> AsyncIterator[bytes]:
        vkeys = await self._named() if ledger else ()
        request = ledger_pb2.ExportLedgerRequest(
            owner=owner, owners=[] if owner else owners, log=ledger, vkeys=vkeys
        )
        heard = False
        async for response in self._ledger.ExportLedger(request):
            for line in response.lines.splitlines(keepends=True):
                if not heard and not line.startswith(_HEADS):
                    heard = True
                    async for head in self._heard():
                        yield writer.line(head)
                if not line.startswith(_END):
                    yield writer.copy(line)
        async for message in self._messages(owners):
            yield writer.line(message)

    async def _heard(self) -> AsyncIterator[PeerCheckpointLine]:
        """Heads of other nodes' ledgers, the newest of each and every one that contradicts another."""
        async with self._store.scope() as connection:
            rows = await connection.fetch(_HEARD)
        for row in rows:
            yield PeerCheckpointLine(row["note"].decode("utf-8"))

    async def _messages(self, owners: list[str]) -> AsyncIterator[MessageLine]:
        """Every thread's messages, oldest first, a page in memory at a time."""
        after: tuple[str, bytes, int] = ("", b"", 0)
        while True:
            async with self._store.scope(*owners) as connection:
                rows = await connection.fetch(_MESSAGES, owners, *after, PAGE)
            for row in rows:
                direction = OUT if row["outgoing"] else IN
                yield MessageLine(row["thread"], row["owner"], row["mid"], direction, row["envelope"])
            if len(rows) < PAGE:
                return
            after = (rows[-1]["owner"], rows[-1]["thread"], rows[-1]["position"])

"""Has the node's ledger sign with the key that the node's record in the registry names.

The record is what everybody else goes by, so it decides: whatever ends between the operation that names the
next key and the ledger's first head under it, the next look at the record completes the change.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeGuard

import structlog
from indai.client.resolver import Resolver
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.protocol.handlestate import NodeRecord
from indai.v1 import ledger_pb2, owner_pb2, registry_pb2

if TYPE_CHECKING:
    from indai.v1.ledger_pb2_grpc import LedgerServiceAsyncStub

log = structlog.get_logger(__name__)


class LedgerKey:
    """The key of the ledger of node `handle`. `said` is the ledger's answer when the node started."""

    def __init__(
        self,
        handle: str,
        ledger: LedgerServiceAsyncStub,
        resolver: Resolver,
        said: ledger_pb2.GetCheckpointResponse,
    ) -> None:
        self.handle = handle
        self._ledger, self._resolver = ledger, resolver
        self._said, self._place = said, ("", b"")
        self._one_at_a_time = asyncio.Lock()

    async def settle(self, address: str, tls_spki_sha256: bytes) -> registry_pb2.NodeRecord:
        """At a start: complete a change that was cut off; the node's record as it should stand from now on.

        Raises as `follow`, and IndaiError (LOG_ROLLED_BACK) when the registry names a key that the ledger
        took after those that are here, or a ledger that was begun after this one: a whole data directory of
        before signs no second history.
        """
        vkey, named = await self.follow(), await self._named()
        if named is not None and named.ledger_origin > self._said.origin:
            raise IndaiError(
                Reason.LOG_ROLLED_BACK,
                f"The registry names a later ledger, {named.ledger_origin}, than {self._said.origin}.",
                hint="restore the data directory of after it was begun, or begin one that is later still: "
                "indai up --ledger-year",
            )
        if self._is_ours(named) and named.ledger_key_change and named.ledger_vkey != vkey:
            raise IndaiError(
                Reason.LOG_ROLLED_BACK,
                f"The registry names a later key of {self._said.origin} than this node has.",
                hint="restore the data directory, `keys` and `heads` with it, of after the key was changed; "
                "if it is lost, begin another ledger: indai up --ledger-year",
            )
        self._place = (address, tls_spki_sha256)
        return self.record

    @property
    def record(self) -> registry_pb2.NodeRecord:
        """The node's record as it should stand in the registry while no other key is on its way."""
        return registry_pb2.NodeRecord(
            address=self._place[0],
            tls_spki_sha256=self._place[1],
            ledger_origin=self._said.origin,
            ledger_vkey=self._said.vkey,
            ledger_key_change=self._said.key_change,
        )

    async def named(self) -> list[str]:
        """Every key of a ledger that the node's records have named, oldest first. Raises as resolving."""
        chains, _ = await self._resolver.history(self.handle)
        states = [link.state for chain in chains for link in chain.history]
        return [one.node_record.ledger_vkey for one in states if one is not None and one.node_record]

    async def prepare(self) -> owner_pb2.OperatorServicePrepareLedgerKeyResponse:
        """The next key, made at the first call."""
        async with self._one_at_a_time:
            key = await self._ledger.PrepareLedgerKey(ledger_pb2.PrepareLedgerKeyRequest())
            self._said.next_vkey = key.next_vkey
        return owner_pb2.OperatorServicePrepareLedgerKeyResponse(handle=self.handle, key=key)

    async def follow(self) -> str:
        """Have the next key sign if the newest record that is known here names it; the key that signs now.

        Raises what resolving and the ledger raise.
        """
        async with self._one_at_a_time:
            vkey = self._said.next_vkey
            if vkey and (named := await self._record()) is not None and named.ledger_vkey == vkey:
                await self._ledger.ChangeLedgerKey(ledger_pb2.ChangeLedgerKeyRequest(vkey=vkey))
                self._said = await self._ledger.GetCheckpoint(ledger_pb2.GetCheckpointRequest())
                log.warning("the ledger signs with its next key now", vkey=vkey)
            return self._said.vkey

    async def look(self) -> None:
        """As `follow`, for who looks again later: what fails is logged."""
        try:
            await self.follow()
        except IndaiError as error:
            log.error("the ledger's key is not changed", reason=error.reason.name, error=error.message)

    async def _record(self) -> NodeRecord | None:
        """The node's record as the registry has it; None while it has none, or one of another ledger."""
        named = await self._named()
        return named if self._is_ours(named) else None

    def _is_ours(self, named: NodeRecord | None) -> TypeGuard[NodeRecord]:
        return named is not None and named.ledger_origin == self._said.origin

    async def _named(self) -> NodeRecord | None:
        """The node's record as the registry has it; None while it has none."""
        try:
            return (await self._resolver.resolve(self.handle)).state.node_record
        except NotFound:
            self._resolver.forget(self.handle)  # it may be claimed a moment later
            return None

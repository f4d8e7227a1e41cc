"""The registry's RPCs: reads requests, asks the `Registry`, packs answers. Raises IndaiError only."""

from __future__ import annotations

from typing import Any

from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.protocol.handlestate import is_loopback
from indai.registry.claims import ClaimDesk
from indai.registry.service import Registry, View
from indai.v1 import registry_pb2, registry_pb2_grpc

DEFAULT_PAGE = 500
MAX_PAGE = 1_000
DEFAULT_FOUND, MAX_FOUND = 20, 100
MAX_PAGE_BYTES = 2 << 20  # half of what a gRPC client takes without being told otherwise


class RegistryServicer(registry_pb2_grpc.RegistryServiceServicer):
    """Serves one registry."""

    def __init__(self, registry: Registry, desk: ClaimDesk | None = None) -> None:
        self._registry = registry
        self._desk = desk or ClaimDesk(registry)

    async def SubmitOperation(
        self, request: registry_pb2.SubmitOperationRequest, context: Any
    ) -> registry_pb2.SubmitOperationResponse:
        """Append one operation; answers when it is durable and under a signed head."""
        handle, index, warnings = await self._desk.submit(request, _caller(context))
        lookup = await self._look_up(handle, 0)
        return registry_pb2.SubmitOperationResponse(index=index, lookup=lookup, warnings=warnings)

    async def GetHandle(
        self, request: registry_pb2.GetHandleRequest, context: Any
    ) -> registry_pb2.GetHandleResponse:
        """A handle's chain and proofs, present or absent."""
        handle = str(Handle.parse(request.handle))
        return await self._look_up(handle, request.known_size, earlier=request.earlier)

    async def SearchHandles(
        self, request: registry_pb2.SearchHandlesRequest, context: Any
    ) -> registry_pb2.SearchHandlesResponse:
        """A page of those who asked to be found."""
        size = min(request.page_size or DEFAULT_FOUND, MAX_FOUND)
        found = await self._registry.search(request.intent, request.language, request.page_token, size + 1)
        listings = [
            registry_pb2.Listing(handle=handle, intents=intents, languages=languages)
            for handle, intents, languages in found[:size]
        ]
        token = listings[-1].handle if len(found) > size else ""
        return registry_pb2.SearchHandlesResponse(listings=listings, next_page_token=token)

    async def GetHead(
        self, request: registry_pb2.GetHeadRequest, context: Any
    ) -> registry_pb2.GetHeadResponse:
        """The newest signed head."""
        view = await self._registry.view()
        proof = await self._consistency(request.known_size, view)
        return registry_pb2.GetHeadResponse(checkpoint=view.note, consistency_proof=proof)

    async def ListLogKeys(
        self, request: registry_pb2.ListLogKeysRequest, context: Any
    ) -> registry_pb2.ListLogKeysResponse:
        """How the log came by its key."""
        reader, known, changes = self._registry.reader, request.known_size, []
        for one in self._registry.log_keys:
            size = one.last_size
            leaf = (await reader.entries(one.index, 1))[0]
            changes.append(
                registry_pb2.LogKeyChange(
                    index=one.index,
                    leaf=leaf,
                    inclusion_proof=await reader.inclusion_proof(one.index, size),
                    checkpoint=one.note,
                    consistency_proof=await reader.consistency_proof(known, size) if 0 < known < size else (),
                )
            )
            known = max(known, size)
        return registry_pb2.ListLogKeysResponse(changes=changes)

    async def ListEntries(
        self, request: registry_pb2.ListEntriesRequest, context: Any
    ) -> registry_pb2.ListEntriesResponse:
        """A page of the log, as far as it is signed."""
        view = await self._registry.view()
        if request.start > view.size:
            message = f"The log has {view.size} entries, and none from {request.start} on."
            raise InvalidInput(Reason.INVALID_ARGUMENT, message, fields={"start": "beyond the end"})
        count = min(request.page_size or DEFAULT_PAGE, MAX_PAGE, view.size - request.start)
        entries = await self._registry.reader.entries(request.start, count) if count else []
        page: list[bytes] = []
        total = 0
        for entry in entries:
            total += len(entry)
            if page and total > MAX_PAGE_BYTES:
                break
            page.append(entry)
        return registry_pb2.ListEntriesResponse(entries=page, next_start=request.start + len(page))

    async def _look_up(
        self, handle: str, known_size: int, *, earlier: bool = False
    ) -> registry_pb2.GetHandleResponse:
        found = await self._registry.look_up(handle)
        view, record = found.view, found.record
        past = await self._registry.earlier(found) if earlier else []
        if sum(len(raw) for raw, _ in past) > MAX_PAGE_BYTES:
            message = f"The earlier subjects of {handle} have too many operations for one answer."
            raise InvalidInput(Reason.TOO_LARGE, message, hint="mirror the log: indai registry mirror")
        return registry_pb2.GetHandleResponse(
            chain=record.raws if record else (),
            indexes=record.indexes if record else (),
            times_ms=record.times_ms if record else (),
            before=record.chain.before if record else b"",
            map_proof=registry_pb2.MapProof(bitmap=found.proof.bitmap, siblings=found.proof.siblings),
            last_leaf=view.last_leaf,
            last_leaf_proof=view.last_leaf_proof,
            checkpoint=view.note,
            consistency_proof=await self._consistency(known_size, view),
            domain=self._domain(handle),
            earlier=[raw for raw, _ in past],
            earlier_times_ms=[time_ms for _, time_ms in past],
        )

    def _domain(self, handle: str) -> registry_pb2.DomainStatus | None:
        status = self._desk.domains.status(handle) if self._desk.domains else None
        if status is None:
            return None
        return registry_pb2.DomainStatus(
            confirmed_at_ms=status.confirmed_at_ms, failing_since_ms=status.failing_since_ms
        )

    async def _consistency(self, known_size: int, view: View) -> list[bytes]:
        # A caller with a larger head than ours gets ours without a proof, and draws its own conclusions.
        if not 0 < known_size < view.size:
            return []
        return await self._registry.reader.consistency_proof(known_size, view.size)


def _caller(context: Any) -> str:
    """The caller's address (RFC 6874 zones left out), as one to limit; "" for this machine itself."""
    kind, _, rest = context.peer().partition(":")
    host = rest.rsplit(":", 1)[0].replace("%5B", "[").replace("%5D", "]")
    return "" if kind == "unix" or is_loopback(host) else host

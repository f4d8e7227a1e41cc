"""A registry's whole log as an export, so that an audit can judge keys without asking the registry again.

Nothing is proved here: an entry that does not belong, or one that is left out, is what the audit finds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from indai.client.exports import FORMAT, REGISTRY, CheckpointLine, EntryLine, ExportWriter, Header
from indai.client.network import NetworkPolicy
from indai.protocol.errors import Reason, Unavailable
from indai.v1 import registry_pb2

if TYPE_CHECKING:
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

PAGE = 500
_TIMEOUT_S = 30.0


async def mirror(stub: RegistryServiceAsyncStub, policy: NetworkPolicy, now_ms: int) -> AsyncIterator[bytes]:
    """The lines of the export, up to the registry's newest head, a page in memory at a time.

    Raises ProtocolError for a head that is not of the policy's registry, Unavailable when it stops short
    of its own head, and what the stub's channel raises.
    """
    answer = await stub.GetHead(registry_pb2.GetHeadRequest(), timeout=_TIMEOUT_S)
    head = policy.open(answer.checkpoint)
    writer = ExportWriter()
    header = Header(FORMAT, REGISTRY, "", "", policy.origin, policy.log.vkey, policy.network, now_ms)
    yield writer.line(header)
    yield writer.line(CheckpointLine(answer.checkpoint.decode("utf-8")))
    start = 0
    while start < head.size:
        request = registry_pb2.ListEntriesRequest(start=start, page_size=PAGE)
        page = await stub.ListEntries(request, timeout=_TIMEOUT_S)
        entries = page.entries[: head.size - start]
        if not entries:
            message = f"The registry {policy.origin} gives {start} of its {head.size} entries."
            raise Unavailable(Reason.UNREACHABLE, message, hint="try again later")
        for index, entry in enumerate(entries, start):
            yield writer.line(EntryLine(index, entry))
        start += len(entries)
    yield writer.end()

"""What an owner takes away to show to others: the receipt of a deal, and all that their ledger holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from indai.client.receiptfile import ReceiptFile
from indai.protocol.errors import InvalidInput, Reason
from indai.tools.desk import Desk, Desks
from indai.tools.files import FILES, Keep
from indai.tools.intents.common import WHEN, WITH, arguments, zone_of
from indai.tools.normalise import local_time, one_line
from indai.tools.people import People
from indai.tools.room import Room, unlimited
from indai.tools.values import Caller, Effect, Progress, Spec, Touch
from indai.tools.when import read_when
from indai.v1 import owner_pb2

PLAIN: Final = "text/plain"
"""What every channel takes; what is in it stands in the name of the file."""
MOST_BYTES: Final = 20 * 1024 * 1024
_PAGE: Final = 500


def _result(name: str) -> dict[str, Any]:
    properties = {name: {"type": "string", "x-importance": 3}, "files": FILES}
    return {"type": "object", "properties": properties, "required": [name]}


@dataclass(frozen=True, slots=True)
class Receipt:
    """Hands over the proof that the ledger holds a deal."""

    desks: Desks
    people: People
    keep: Keep
    room: Room = unlimited

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "receipt",
            "Send the owner the receipt of something agreed, as a file that proves it to anybody. Without"
            " more words it is the newest.",
            arguments((), **{"with": WITH, "when": {**WHEN, "x-label": "Of"}}),
            _result("receipt"),
            Effect.READ,
            frozenset({Touch.PRIVATE}),
            files=True,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk = self.desks(caller.owner)
        peer = await self.people.one(caller, desk, arguments["with"]) if arguments.get("with") else ""
        found = [each async for each in _agreed(desk) if peer in ("", each.peer)]
        if arguments.get("when"):
            when = read_when(arguments["when"], "", 1, caller.now_ms, zone_of(caller))
            spans = [(each.start_ms, each.end_ms) for each in when.windows]
            found = [each for each in found if any(start <= _about_ms(each) < end for start, end in spans)]
        if not found:
            raise InvalidInput(
                Reason.NOT_FOUND,
                f"Nothing like that was agreed{f' with {peer}' if peer else ''}.",
                metadata={"code": "NO_SUCH_DEAL"},
            )
        deal = max(found, key=lambda each: (each.update_time.ToMilliseconds(), each.thread_id))
        got = await desk.owner.GetReceipt(owner_pb2.GetReceiptRequest(thread_id=deal.thread_id))
        file = ReceiptFile(got.leaf, got.tlog_proof, got.cose, got.opening, got.envelope).encode()
        await self.room(caller.owner, file)
        name = f"{deal.thread_id[:12]}.receipt.json"
        return {"receipt": _named(caller, deal), "files": [await self.keep(name, PLAIN, file)]}


@dataclass(frozen=True, slots=True)
class Export:
    """Hands over the owner's part of the ledger."""

    desks: Desks
    keep: Keep
    room: Room = unlimited

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "export",
            "Send the owner their export: a file with all that was agreed and decided for them,"
            " for an audit.",
            arguments(()),
            _result("export"),
            Effect.READ,
            frozenset({Touch.PRIVATE}),
            timeout_s=30.0,
            files=True,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        whole, desk = bytearray(), self.desks(caller.owner)
        async for part in desk.owner.ExportOwner(owner_pb2.ExportOwnerRequest()):
            whole += part.lines
            if len(whole) > MOST_BYTES:
                raise InvalidInput(
                    Reason.TOO_LARGE,
                    f"Your export has over {MOST_BYTES >> 20} MB and is no file for a chat; "
                    "your node writes it with: indai ledger export.",
                )
        day = f"{datetime.fromtimestamp(caller.now_ms / 1000, zone_of(caller)):%Y-%m-%d}"
        name = f"{caller.owner.rpartition('/')[2]}-{day}.jsonl"
        file = bytes(whole)
        await self.room(caller.owner, file)
        return {"export": name, "files": [await self.keep(name, PLAIN, file)]}


async def _agreed(desk: Desk) -> AsyncIterator[owner_pb2.Thread]:
    token = ""
    while True:
        request = owner_pb2.ListCommitmentsRequest(page_size=_PAGE, page_token=token)
        page = await desk.owner.ListCommitments(request)
        for each in page.threads:
            if not each.erased:
                yield each
        if not (token := page.next_page_token):
            return


def _about_ms(deal: owner_pb2.Thread) -> int:
    """When a deal is, or was made."""
    return deal.start_time.ToMilliseconds() or deal.create_time.ToMilliseconds()


def _named(caller: Caller, deal: owner_pb2.Thread) -> str:
    """Which deal it is. What the other side calls it is their word, and no part of the name."""
    said = (deal.peer, local_time(_about_ms(deal), zone_of(caller)), one_line(deal.title, 80))
    return ", ".join(filter(None, said if deal.outgoing else said[:2]))

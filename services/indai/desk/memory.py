"""What the agent remembers: seen, corrected, forgotten, taken along."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from indai.desk.frame import ROLES, Frame
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import memory_pb2 as pb
from indai.web.visit import Visit

PAGE: Final = 50
TRUSTS: Final = {
    pb.TRUST_OWNER: "you said so",
    pb.TRUST_VERIFIED: "somebody known said so",
}


@dataclass(frozen=True, slots=True)
class Remembered:
    """A fact as it is shown: its value as text."""

    fact: pb.Fact
    value: str
    trust: str


class MemoryRoom:
    """Pages and acts of memory."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._memory = frame, frame.calls.memory

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, one = self._frame.site, "/desk/memory/{fact:[0-9A-Za-z-]{8,64}}"
        return (
            site.member("/desk/memory", ROLES, self.facts),
            site.member("/desk/memory/export.jsonl", ROLES, self.export),
            site.act(one + "/correct", ROLES, self.correct),
            site.act(one + "/forget", ROLES, self.forget),
            site.act("/desk/memory/forget-person", ROLES, self.forget_person),
        )

    async def facts(self, visit: Visit) -> web.StreamResponse:
        """Facts, a page at a time."""
        if not self._frame.calls.has_memory:
            return await self._frame.page(visit, "no_memory.html", "/desk/memory")
        query = visit.request.query
        request = pb.ListFactsRequest(
            key_prefix=query.get("about", "")[:100], page_size=PAGE, page_token=query.get("page", "")
        )
        answer = await self._memory.ListFacts(request, metadata=visit.metadata)
        return await self._frame.page(
            visit,
            "memory.html",
            "/desk/memory",
            facts=[_remembered(fact) for fact in answer.facts],
            more=answer.next_page_token,
            about=query.get("about", "")[:100],
        )

    async def correct(self, visit: Visit) -> web.StreamResponse:
        """Another value; the old one is superseded."""
        value = visit.said("value", most=2_000)
        request = pb.CorrectFactRequest(id=visit.named("fact"), value_json=json.dumps(value))
        await self._memory.CorrectFact(request, metadata=visit.metadata)
        return visit.go("/desk/memory", "saved")

    async def forget(self, visit: Visit) -> web.StreamResponse:
        """One fact, for good."""
        request = pb.ForgetRequest(id=visit.named("fact"))
        answer = await self._memory.Forget(request, metadata=visit.metadata)
        if not any(answer.removed.values()):
            raise NotFound(
                Reason.NOT_FOUND,
                "There is no such fact: it was forgotten already, or is not yours.",
                hint="load the page again",
            )
        return visit.go("/desk/memory", "forgotten")

    async def forget_person(self, visit: Visit) -> web.StreamResponse:
        """All that is known about somebody, for good."""
        person = visit.said("person", most=200)
        if not person:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "Nobody is named.", hint="write their handle")
        await self._memory.Forget(pb.ForgetRequest(person=person), metadata=visit.metadata)
        return visit.go("/desk/memory", "forgotten")

    async def export(self, visit: Visit) -> web.StreamResponse:
        """Everything, as lines of the open format."""
        if not self._frame.calls.has_memory:
            raise NotFound(Reason.NOT_FOUND, "This node keeps no memory.")
        parts = self._memory.Export(pb.ExportRequest(), metadata=visit.metadata)
        return await self._frame.site.streamed(
            visit, (part.lines async for part in parts), "memory.jsonl", "application/jsonl"
        )


def _remembered(fact: pb.Fact) -> Remembered:
    try:
        value = json.loads(fact.value_json)
    except ValueError:
        value = fact.value_json
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Remembered(fact, text, TRUSTS.get(fact.trust, "a stranger said so"))

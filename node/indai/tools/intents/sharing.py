"""Sharing: ask a peer for a field or a document, offer one of the owner's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from indai.protocol.errors import InvalidInput, Reason
from indai.tools.desk import Desk, Desks, request_id, settle
from indai.tools.intents.asking import question_result, start_question
from indai.tools.intents.common import ACTS, TIMEOUT_S, WHEN, WITH, arguments, shown, with_more, zone_of
from indai.tools.normalise import local_time, one_line
from indai.tools.people import People
from indai.tools.values import Act, Caller, Effect, Progress, Spec
from indai.tools.when import read_when
from indai.v1 import intents_pb2, owner_pb2, sharing_pb2

DAY_MS: Final = 86_400_000
MAX_SHOWN: Final = 4_000
_WHAT: Final = "[A-Za-z0-9._ -]+"
_FIELD: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "pattern": f"^{_WHAT}$",
    "description": "What: email, phone, address, availability, hours, price, or another field's name.",
    "x-label": "What",
}
_DOCUMENT: Final = {
    "type": "string",
    "maxLength": 128,
    "description": "A document's id instead of a field.",
    "x-label": "Document",
}
_PURPOSE: Final = {
    "type": "string",
    "maxLength": 200,
    "description": "What for; both sides sign it.",
    "x-label": "For",
}
_DAYS: Final = {"type": "integer", "minimum": 1, "maximum": 1000, "x-label": "Days it may be read"}
_QUESTIONS: Final = {"price": "What is your price?", "hours": "What are your opening hours?"}
_SHARED: Final = with_more(
    content={"type": "string", "x-untrusted": True, "x-importance": 3, "x-label": "they said"},
    media_type={"type": "string", "x-importance": 1},
    answer={"type": "string", "x-untrusted": True, "x-importance": 3, "x-label": "they said"},
    free={"type": "array", "items": {"type": "string"}, "x-label": "free", "x-importance": 3},
    sure_percent={"type": "integer", "x-importance": 1},
)


@dataclass(frozen=True, slots=True)
class AskFor:
    """Asks a peer for a profile field or a document, under a consent, and reads it once it is agreed."""

    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "ask-for",
            "Ask somebody for a detail of theirs (email, phone, address, availability) or a document.",
            arguments(
                ("with",),
                **{"with": WITH, "when": WHEN},
                field=_FIELD,
                document=_DOCUMENT,
                purpose=_PURPOSE,
                days=_DAYS,
            ),
            _SHARED,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        desk = self.desks(caller.owner)
        peer = await self.people.one(caller, desk, arguments["with"])
        made: dict[str, Any] = _consented(arguments, f"To answer a question of {caller.owner}") | {
            "with": peer
        }
        what = made["document"] or made["field"]
        if made["field"] == "availability":
            when = read_when(arguments.get("when") or "this week", "", 30, caller.now_ms, zone_of(caller))
            made |= {"start_ms": when.whole.start_ms, "end_ms": when.whole.end_ms}
            return Act(made, f"Ask {peer} which times would suit {when.words}")
        return Act(
            made,
            _terms(f"Ask {peer} for {what}", made),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, peer, field = self.desks(caller.owner), arguments["with"], arguments["field"]
        await progress(f"asking {peer} for {arguments['document'] or field}")
        if field == "availability":
            return await _availability(caller, desk, arguments)
        if field in _QUESTIONS and not arguments["document"]:
            thread = await start_question(caller, desk, peer, _QUESTIONS[field], field, progress)
            return await question_result(caller, desk, thread)
        request = sharing_pb2.AskForShareRequest(
            request_id=request_id(caller, "ask-for", peer, field, arguments["document"], arguments["days"]),
            peer=peer,
            consent=_consent(arguments, caller.now_ms),
        )
        _name(request, arguments)
        thread = await settle(desk, (await desk.sharing.AskForShare(request)).thread, progress)
        result = await shown(caller, desk, thread)
        return result | (await _read(desk, thread) if result["state"] == "agreed" else {})


@dataclass(frozen=True, slots=True)
class Share:
    """Offers a peer a field or a document of the owner's own, under a consent."""

    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "share",
            "Share a detail of the owner's own (email, phone, resume) or a document with somebody.",
            arguments(
                ("with",), **{"with": WITH}, field=_FIELD, document=_DOCUMENT, purpose=_PURPOSE, days=_DAYS
            ),
            _SHARED,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        peer = await self.people.one(caller, self.desks(caller.owner), arguments["with"])
        made = _consented(arguments, f"Shared by {caller.owner}") | {"with": peer}
        what = made["document"] or made["field"]
        return Act(
            made,
            _terms(f"Share {what} with {peer}", made),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, peer = self.desks(caller.owner), arguments["with"]
        await progress(f"offering {arguments['document'] or arguments['field']} to {peer}")
        once = request_id(caller, "share", peer, arguments["field"], arguments["document"], arguments["days"])
        request = sharing_pb2.OfferShareRequest(
            request_id=once, peer=peer, consent=_consent(arguments, caller.now_ms)
        )
        _name(request, arguments)
        thread = await settle(desk, (await desk.sharing.OfferShare(request)).thread, progress)
        return await shown(caller, desk, thread)


def _terms(head: str, made: Mapping[str, Any]) -> str:
    return f"{head}\n  for: {made['purpose']}\n  to be read once within {made['days']} days"


def _consented(arguments: Mapping[str, Any], purpose: str) -> dict[str, Any]:
    field = "-".join(arguments.get("field", "").lower().split())
    document = arguments.get("document", "")
    if not (field or document):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "Which detail or document is meant?", metadata={"code": "MISSING"}
        )
    return {
        "field": "" if document else field,
        "document": document,
        "purpose": one_line(arguments.get("purpose") or purpose, 200),
        "days": arguments.get("days", 30),
    }


def _name(
    request: sharing_pb2.AskForShareRequest | sharing_pb2.OfferShareRequest, arguments: Mapping[str, Any]
) -> None:
    if arguments["document"]:
        request.document = arguments["document"]
    else:
        request.field = arguments["field"]


def _consent(arguments: Mapping[str, Any], now_ms: int) -> intents_pb2.Consent:
    return intents_pb2.Consent(
        purpose_code="101",
        purpose_text=arguments["purpose"],
        mode=intents_pb2.CONSENT_MODE_STORE,
        fetch=intents_pb2.FETCH_TYPE_ONETIME,
        data_life_unit=intents_pb2.SPAN_UNIT_DAY,
        data_life_value=arguments["days"],
        from_ms=now_ms,
        to_ms=now_ms + arguments["days"] * DAY_MS,
    )


async def _read(desk: Desk, thread: owner_pb2.Thread) -> dict[str, Any]:
    """What was agreed, read: the first read fetches it."""
    read = await desk.sharing.ReadShared(sharing_pb2.ReadSharedRequest(thread_id=thread.thread_id))
    found: dict[str, Any] = {"media_type": read.media_type}
    if read.media_type.startswith("text/"):
        found["content"] = read.content.decode("utf-8", "replace")[:MAX_SHOWN]
    return found


async def _availability(caller: Caller, desk: Desk, arguments: Mapping[str, Any]) -> dict[str, Any]:
    within = intents_pb2.Window(start_ms=arguments["start_ms"], end_ms=arguments["end_ms"])
    request = sharing_pb2.QueryPeerRequest(peer=arguments["with"], within=within, duration_minutes=30)
    answer, zone = await desk.sharing.QueryPeer(request), zone_of(caller)
    free = [
        f"{local_time(each.start_ms, zone)} to {local_time(each.end_ms, zone)}" for each in answer.windows[:8]
    ]
    return {"state": "answered", "with": arguments["with"], "about": "availability", "free": free}

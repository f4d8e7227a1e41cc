"""The events of a turn as server-sent events (WHATWG HTML, section 9.2).

An event's id is its number within the turn, so that a broken stream goes on after the last one that arrived.
Sentences come from the runtime after the guardrails have seen them; nothing here is released earlier.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from aiohttp import web
from indai.page.front import FileLink
from indai.page.rendering import files, html
from indai.protocol.errors import IndaiError
from indai.v1 import conversation_pb2 as pb
from indai.web.site import Site
from indai.web.visit import Visit

BEAT: Final = b": still here\n\n"


async def stream(site: Site, visit: Visit, events: AsyncIterator[Any], link: FileLink) -> web.StreamResponse:
    """Send them until the end of the turn, or until the visitor leaves: the turn goes on without them.

    `events` are responses of SendMessage or WatchTurn, the first of which is awaited before anything is
    sent. Raises IndaiError for what is refused; what fails later is told in the stream.
    """
    first = await anext(events, None)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    site.protect(response)
    await response.prepare(visit.request)
    try:
        if first is not None:
            await response.write(_told(first, link))
        async for each in events:
            await response.write(_told(each, link))
    except ConnectionError:
        pass  # the visitor left, and may come back for the rest
    except IndaiError as error:
        await _last(response, error)
    return response


async def _last(response: web.StreamResponse, error: IndaiError) -> None:
    said = {"message": error.message, "hint": error.hint}
    try:
        await response.write(_event("", "failed", said))
    except ConnectionError:
        return


def _told(response: pb.SendMessageResponse | pb.WatchTurnResponse, link: FileLink) -> bytes:
    if not response.HasField("event"):
        return BEAT
    event = response.event
    kind = event.WhichOneof("event") or "none"
    return _event(str(event.seq), kind, {"turn": event.turn_id, **_shown(event, kind, link)})


def _event(number: str, kind: str, value: dict[str, Any]) -> bytes:
    head = f"id: {number}\n" if number else ""
    # JSON escapes line breaks: the data is one line whatever stands in it.
    return f"{head}event: {kind}\ndata: {json.dumps(value)}\n\n".encode()


def _shown(event: pb.TurnEvent, kind: str, link: FileLink) -> dict[str, Any]:
    match kind:
        case "accepted":
            return {"door": event.accepted.door}
        case "stage":
            return {"stage": event.stage.stage}
        case "sentence":
            return {"html": html(event.sentence.text)}
        case "tool":
            return {"words": event.tool.words, "done": event.tool.done, "failed": event.tool.failed}
        case "approval" if event.approval.terms:
            return {"terms": event.approval.terms, "code": event.approval.code}
        case "finished":
            return finished(event.finished, link)
    return {}


def finished(end: pb.TurnFinished, link: FileLink) -> dict[str, Any]:
    """The end of a turn: the whole answer takes the place of its sentences, with its files below."""
    choices = [{"id": each.id, "title": each.title} for each in end.reply.choices]
    shown = {"html": html(end.reply.text), "choices": choices, "language": end.reply.language}
    shown["files"] = files(end.reply.media, link)
    return shown | {"stopped": end.stopped, "degraded": end.degraded, "reason": end.reason}

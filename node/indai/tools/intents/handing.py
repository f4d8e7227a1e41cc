"""What is handed over with a negotiation that was agreed: the invitation, the link to pay by.

Each is made of what the node keeps of the thread, so that looking again, after a kill or a year, gives the
same; where it can't be made, what was said stands without it.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from typing import Any, Final

import segno
from indai.protocol.errors import IndaiError
from indai.tools.desk import Desk
from indai.tools.files import CALENDAR, PICTURE, Keep
from indai.v1 import calendar_pb2, commerce_pb2

INVITATION: Final = "meeting.ics"
CALLED_OFF: Final = "called-off.ics"
_UPI: Final = "upi:"
_PIXELS: Final = 8
"""Of one module of a code."""


async def with_files(desk: Desk, keep: Keep, kind: str, result: dict[str, Any]) -> dict[str, Any]:
    """The result of a thread of that kind, whoever began it, with what belongs to it."""
    if kind != "pay":
        return await with_invitation(desk, keep, result)
    result.pop("when", None)
    if result["state"] != "agreed":
        return result
    return result if await _is_paid(desk, result["thread_id"]) else await with_link(desk, keep, result)


async def with_invitation(
    desk: Desk, keep: Keep, result: dict[str, Any], called_off: str = ""
) -> dict[str, Any]:
    """The result of a thread with what any calendar program takes of it: the invitation of a meeting that was
    agreed, and the end of the one in the thread `called_off`."""
    files = []
    if result["state"] == "agreed" and "start_ms" in result:
        files += await _message(desk, keep, INVITATION, result["thread_id"])
    if called_off:
        files += await _message(desk, keep, CALLED_OFF, called_off, calendar_pb2.INVITATION_METHOD_CANCEL)
    return result | {"files": files} if files else result


async def _message(
    desk: Desk,
    keep: Keep,
    name: str,
    thread: str,
    method: calendar_pb2.InvitationMethod.ValueType = calendar_pb2.INVITATION_METHOD_UNSPECIFIED,
) -> list[Mapping[str, Any]]:
    """One file; none where nothing of the thread is in the calendar: what was said stands without it."""
    try:
        found = await desk.calendars.GetInvitation(
            calendar_pb2.GetInvitationRequest(id=thread, method=method)
        )
    except IndaiError:
        return []
    return [await keep(name, CALENDAR, found.ics)]


async def with_link(desk: Desk, keep: Keep, result: dict[str, Any]) -> dict[str, Any]:
    """The result of an agreed payment, for the one who pays, with the link to pay by, and its picture."""
    if result["state"] != "agreed" or not (link := await _link(desk, result["thread_id"])):
        return result
    if not link.startswith(_UPI):
        return result | {"pay_link": link}
    picture = await asyncio.to_thread(_code, link)
    return result | {"pay_link": link, "files": [await keep("pay.png", PICTURE, picture)]}


async def _is_paid(desk: Desk, thread: str) -> bool:
    """Whether the owner is the one who gets the money: it goes to their own address."""
    own = (await desk.commerce.GetPayAccount(commerce_pb2.GetPayAccountRequest())).account.payee
    try:
        said = await desk.commerce.GetPayLink(commerce_pb2.GetPayLinkRequest(thread_id=thread))
    except IndaiError:
        return False
    return bool(own) and said.payee == own


def _code(link: str) -> bytes:
    """A link as a QR code (ISO/IEC 18004) that another telephone reads: PNG, with its quiet zone."""
    picture = io.BytesIO()
    segno.make(link, error="m", micro=False).save(picture, kind="png", scale=_PIXELS, border=4)
    return picture.getvalue()


async def _link(desk: Desk, thread: str) -> str:
    """The link by which an agreed payment is made; empty where the payee's way has none."""
    try:
        found = await desk.commerce.GetPayLink(commerce_pb2.GetPayLinkRequest(thread_id=thread))
    except IndaiError:
        return ""  # what is agreed stands without it
    return found.upi_link or found.page_url

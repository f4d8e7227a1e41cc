"""The owner's rules: as sentences, as text, tried on the last month before they are saved.

Saving takes two steps on purpose: the first shows what the rules mean and what they would have answered, the
second activates exactly the text that was shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from google.protobuf.timestamp_pb2 import Timestamp
from indai.desk.frame import ROLES, Frame
from indai.policy.templates import fill, template, templates
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import desk_pb2, owner_pb2
from indai.web.visit import Visit

MONTH_S: Final = 30 * 86_400
MAX_TEXT: Final = 65_536


class RulesRoom:
    """Pages and acts of rules."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._calls = frame, frame.calls

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk/rules", ROLES, self.rules),
            site.act("/desk/rules/preview", ROLES, self.preview),
            site.act("/desk/rules/save", ROLES, self.save),
        )

    async def rules(self, visit: Visit) -> web.StreamResponse:
        """What decides now, and the text to change."""
        now = await active(self._frame, visit)
        rules = now.rules if now else []
        name = visit.request.query.get("template", "")
        text = now.version.yaml if now else ""
        if name:
            text = fill(template(name), now.version.time_zone if now else "")
        return await self._frame.page(
            visit,
            "rules.html",
            "/desk/rules",
            own=[rule for rule in rules if rule.startswith("owner/")],
            others=[rule for rule in rules if not rule.startswith("owner/")],
            text=text,
            chosen=name,
            templates=[one for one in templates() if one.layer == "owner"],
        )

    async def preview(self, visit: Visit) -> web.StreamResponse:
        """What the text means, and would have answered in the last 30 days."""
        text = visit.said("yaml", most=MAX_TEXT).replace("\r\n", "\n") + "\n"
        since = Timestamp(seconds=self._frame.site.clock() // 1000 - MONTH_S)
        request = desk_pb2.PreviewPolicyRequest(yaml=text, since_time=since)
        answer = await self._calls.steering.PreviewPolicy(request, metadata=visit.metadata)
        return await self._frame.page(visit, "preview.html", "/desk/rules", text=text, seen=answer)

    async def save(self, visit: Visit) -> web.StreamResponse:
        """Activate the text that was shown."""
        text = visit.said("yaml", most=MAX_TEXT).replace("\r\n", "\n") + "\n"
        if not text.strip():
            raise InvalidInput(Reason.INVALID_POLICY, "There are no rules in this.", hint="choose a template")
        request = owner_pb2.ActivatePolicyRequest(yaml=text)
        await self._calls.owner.ActivatePolicy(request, metadata=visit.metadata)
        return visit.go("/desk/rules", "saved")


async def active(frame: Frame, visit: Visit) -> owner_pb2.GetActivePolicyResponse | None:
    """The owner's active rules; None for somebody without any."""
    request = owner_pb2.GetActivePolicyRequest()
    try:
        return await frame.calls.owner.GetActivePolicy(request, metadata=visit.metadata)
    except NotFound:
        return None

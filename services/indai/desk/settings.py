"""Settings: the language of the pages on every device, the tone in which the agent speaks, and the owner's
day (see `indai.desk.day`).

Languages of the eighth schedule that the project has only begun are drafts: rooms, buttons and states. They
are shown to who chooses them, and to nobody by their browser's wish.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from indai.desk.day import Day
from indai.desk.frame import ROLES, Frame
from indai.desk.show import DAYS
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import desk_pb2 as pb
from indai.web.accounts import Accounts
from indai.web.catalog import DRAFTS, NAMES, direction_of, is_offered, words_in
from indai.web.site import LANGUAGE
from indai.web.visit import Visit

TONES: Final = (
    (pb.TONE_UNSPECIFIED, "As its persona speaks"),
    (pb.TONE_BRIEF, "Brief and plain"),
    (pb.TONE_WARM, "Warm"),
    (pb.TONE_FORMAL, "Formal"),
)


class Settings:
    """The page and acts of settings."""

    def __init__(self, frame: Frame, accounts: Accounts) -> None:
        self._frame, self._steering, self._accounts = frame, frame.calls.steering, accounts
        self._day = Day(frame)

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk/settings", ROLES, self.page),
            site.act("/desk/settings/language", ROLES, self.language),
            site.act("/desk/settings/tone", ROLES, self.tone),
            *self._day.routes(),
        )

    async def page(self, visit: Visit) -> web.StreamResponse:
        """What is chosen, and what there is."""
        manner = await self._steering.GetManner(pb.GetMannerRequest(), metadata=visit.metadata)
        names = NAMES | DRAFTS
        return await self._frame.page(
            visit,
            "settings.html",
            "/desk/settings",
            offered=[(code, name, direction_of(code), words_in(code)) for code, name in names.items()],
            drafts=DRAFTS,
            tones=TONES,
            tone=manner.tone,
            days=DAYS,
            **await self._day.shown(visit),
        )

    async def language(self, visit: Visit) -> web.StreamResponse:
        """For every device; what this browser had chosen for itself gives way to it."""
        chosen = visit.said("language")
        if not is_offered(chosen):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "The pages are not in that language.")
        account = await self._accounts.of_owner(visit.signed_in.scope)
        await self._accounts.choose(account, language=chosen)
        answer = visit.go("/desk/settings", "saved")
        self._frame.site.remember(answer, LANGUAGE, "", 0)
        return answer

    async def tone(self, visit: Visit) -> web.StreamResponse:
        """How the agent speaks, to its owner and to everybody."""
        chosen = visit.said("tone")
        if chosen not in {str(tone) for tone, _ in TONES}:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "There is no such tone.")
        request = pb.SetMannerRequest(tone=pb.Tone.ValueType(int(chosen)))
        await self._steering.SetManner(request, metadata=visit.metadata)
        return visit.go("/desk/settings", "saved")

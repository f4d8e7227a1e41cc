"""Keys, devices and sub-agents: who may speak for the handle, where its owner is signed in, and whether the
owner could get it back."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from indai.desk.frame import ROLES, Frame
from indai.desk.names import Names
from indai.desk.people_in import HOME as LET_IN
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import desk_pb2
from indai.web.accounts import TENANT_ROLES
from indai.web.passkeys import Passkeys
from indai.web.visit import Visit

ACTS: Final = 30
ANYBODY: Final = (*ROLES, *TENANT_ROLES)


class Access:
    """Pages and acts of keys and devices."""

    def __init__(self, frame: Frame, passkeys: Passkeys) -> None:
        self._frame, self._calls, self._passkeys = frame, frame.calls, passkeys

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk/access", ROLES, self.access),
            site.act("/desk/access/sessions/{session:[0-9a-f-]{36}}/end", ROLES, self.end),
            site.act("/desk/access/passkeys/{key:[0-9a-f]{64}}/remove", ROLES, self.remove),
            site.act("/desk/access/drill", ROLES, self.drill),
            site.act("/desk/passkey/offer", ANYBODY, self.offer),
            site.act("/desk/passkey/add", ANYBODY, self.add),
        )

    async def access(self, visit: Visit) -> web.StreamResponse:
        """Everything that can act for the handle."""
        handle = await self._calls.steering.GetOwnHandle(
            desk_pb2.GetOwnHandleRequest(), metadata=visit.metadata
        )
        sessions = await self._calls.desk.ListDeskSessions(
            desk_pb2.ListDeskSessionsRequest(), metadata=visit.metadata
        )
        acts = await self._calls.desk.ListActs(
            desk_pb2.ListActsRequest(page_size=ACTS, page_token=visit.request.query.get("page", "")),
            metadata=visit.metadata,
        )
        me = visit.signed_in
        return await self._frame.page(
            visit,
            "access.html",
            "/desk/access",
            handle=handle,
            sessions=sessions.sessions,
            passkeys=await self._passkeys.listed(me.scope, me.account),
            names=Names(visit.words),
            acts=acts.acts,
            more=acts.next_page_token,
            challenge=self._challenge(visit),
        )

    async def end(self, visit: Visit) -> web.StreamResponse:
        """End a session somewhere else."""
        request = desk_pb2.RevokeDeskSessionRequest(session_id=visit.named("session"))
        await self._calls.desk.RevokeDeskSession(request, metadata=visit.metadata)
        return visit.go("/desk/access", "removed")

    async def remove(self, visit: Visit) -> web.StreamResponse:
        """A passkey that signs in no more."""
        me = visit.signed_in
        await self._passkeys.remove(me.scope, me.account, bytes.fromhex(visit.named("key")))
        return visit.go("/desk/access", "removed")

    async def drill(self, visit: Visit) -> web.StreamResponse:
        """Whether the owner holds a rotation key: they sign today's challenge on the machine that has it."""
        try:
            signature = base64.urlsafe_b64decode(visit.said("signature", most=200) + "==")
        except (binascii.Error, ValueError):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "That is no signature.", hint="copy the line that was printed, whole"
            ) from None
        request = desk_pb2.CheckDrillRequest(challenge=self._challenge(visit), signature=signature)
        found = await self._calls.steering.CheckDrill(request, metadata=visit.metadata)
        return await self._frame.page(visit, "drilled.html", "/desk/access", found=found)

    async def offer(self, visit: Visit) -> web.StreamResponse:
        """What a browser makes a passkey from."""
        options = await self._passkeys.offer(visit.signed_in, self._frame.site.place())
        return web.json_response(text=options)

    async def add(self, visit: Visit) -> web.StreamResponse:
        """The passkey that the browser made."""
        name = visit.said("name", most=60) or visit.signed_in.device
        await self._passkeys.add(
            visit.signed_in, self._frame.site.place(), visit.said("value", most=20_000), name
        )
        home = "/desk/access" if visit.signed_in.role in ROLES else LET_IN
        return web.json_response({"go": f"{home}?said=saved"})

    def _challenge(self, visit: Visit) -> str:
        """The same for a session all day, so that the key may be fetched from where it lies."""
        day = self._frame.site.clock() // 86_400_000
        text = json.dumps([visit.signed_in.id, day]).encode()
        made = hmac.new(visit.csrf.encode(), text, hashlib.sha256).hexdigest()
        return f"drill-{made[:16]}"

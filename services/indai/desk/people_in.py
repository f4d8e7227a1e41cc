"""The desk of those who are no owner: who is let in at their tenant, or on the whole node, and what was done.

An admin of a tenant lets in its people; the operator of the node lets in anybody but an owner. Operators and
auditors of a tenant read. Which of it somebody may do is decided by `DeskService`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from indai.desk.calls import Calls
from indai.desk.names import Names
from indai.desk.show import Show
from indai.desk.tenant_frame import TenantFrame
from indai.protocol.errors import Refused
from indai.v1 import desk_pb2 as pb
from indai.web.accounts import EVERYWHERE, OPERATOR, TENANT_ROLES
from indai.web.passkeys import Passkeys
from indai.web.site import Site
from indai.web.visit import Visit

HOME: Final = "/desk/let-in"
ACTS: Final = 50


class PeopleIn:
    """Pages and acts of accounts."""

    def __init__(self, site: Site, calls: Calls, passkeys: Passkeys) -> None:
        self._site, self._desk, self._passkeys = site, calls.desk, passkeys
        self._frame = TenantFrame(site, calls)
        for role in TENANT_ROLES:
            site.homes.setdefault(role, HOME)

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, roles = self._site, TENANT_ROLES
        return (
            site.member(HOME, roles, self.page),
            site.act(f"{HOME}/grant", roles, self.grant),
            site.act(f"{HOME}/revoke", roles, self.revoke),
            site.act(f"{HOME}/code", roles, self.code),
            site.act(f"{HOME}/end", roles, self.end),
            site.act(f"{HOME}/passkeys/{{key:[0-9a-f]{{64}}}}/remove", roles, self.remove),
        )

    async def page(self, visit: Visit) -> web.StreamResponse:
        """Who is let in, where they are signed in, what was done."""
        return await self._page(visit)

    async def grant(self, visit: Visit) -> web.StreamResponse:
        """Let somebody in."""
        request = pb.GrantAccountRequest(
            scope=visit.signed_in.scope, role=visit.said("role"), name=visit.said("name")
        )
        await self._desk.GrantAccount(request, metadata=visit.metadata)
        return visit.go(HOME, "saved")

    async def revoke(self, visit: Visit) -> web.StreamResponse:
        """Let somebody in no more."""
        request = pb.RevokeAccountRequest(scope=visit.signed_in.scope, name=visit.said("name"))
        await self._desk.RevokeAccount(request, metadata=visit.metadata)
        return visit.go(HOME, "removed")

    async def code(self, visit: Visit) -> web.StreamResponse:
        """A code for somebody, shown once, on the answer itself."""
        request = pb.CreateSignInCodeRequest(scope=visit.signed_in.scope, name=visit.said("name"))
        made = await self._desk.CreateSignInCode(request, metadata=visit.metadata)
        return await self._page(visit, made=made)

    async def end(self, visit: Visit) -> web.StreamResponse:
        """End a session."""
        request = pb.RevokeDeskSessionRequest(
            scope=visit.signed_in.scope if _governs(visit) else "", session_id=visit.said("session")
        )
        await self._desk.RevokeDeskSession(request, metadata=visit.metadata)
        return visit.go(HOME, "removed")

    async def remove(self, visit: Visit) -> web.StreamResponse:
        """One's own passkey, which signs in no more."""
        me = visit.signed_in
        await self._passkeys.remove(me.scope, me.account, bytes.fromhex(visit.named("key")))
        return visit.go(HOME, "removed")

    async def _page(self, visit: Visit, made: pb.CreateSignInCodeResponse | None = None) -> web.Response:
        me, call, zone = visit.signed_in, visit.metadata, await self._frame.hall(visit)
        governs = _governs(visit)
        accounts: Sequence[pb.DeskAccount] = ()
        acts = pb.ListActsResponse()
        try:
            found = await self._desk.ListAccounts(pb.ListAccountsRequest(), metadata=call)
            accounts = found.accounts
            request = pb.ListActsRequest(page_size=ACTS, page_token=visit.request.query.get("page", ""))
            acts = await self._desk.ListActs(request, metadata=call)
        except Refused:
            pass  # staff read neither
        where = pb.ListDeskSessionsRequest(scope=me.scope if governs else "")
        sessions = await self._desk.ListDeskSessions(where, metadata=call)
        roles = ("operator", "auditor") if me.scope == EVERYWHERE else TENANT_ROLES
        return visit.page(
            "desk/let_in.html",
            show=Show(visit.words, zone, self._site.clock()),
            zone=zone.key,
            names=Names(visit.words),
            me=me,
            governs=governs,
            roles=roles,
            accounts=accounts,
            sessions=sessions.sessions,
            acts=acts.acts,
            more=acts.next_page_token,
            made=made,
            passkeys=await self._passkeys.listed(me.scope, me.account),
        )


def _governs(visit: Visit) -> bool:
    """Whether the page shows what lets people in; the service decides."""
    me = visit.signed_in
    return me.role == "admin" or (me.role == OPERATOR and me.scope == EVERYWHERE)

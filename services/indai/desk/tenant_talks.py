"""Conversations of an organisation: who waits for a person, take over, answer, hand back; guardrails."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence

from aiohttp import web
from indai.desk.tenant_frame import ROLES, TENANT, WORKERS, TenantFrame
from indai.v1 import tenant_pb2 as pb
from indai.web.live import Live
from indai.web.visit import Visit

ID = "{session:[0-9a-f]{32}}"


class TenantTalks:
    """Pages and acts of conversations."""

    def __init__(self, frame: TenantFrame, live: Live) -> None:
        self._frame, self._desk, self._live = frame, frame.calls.tenant, live

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, room, talks = self._frame.site, self._frame.room, f"/tenant/{TENANT}/talks"
        return (
            site.member(talks, ROLES, room(self.talks)),
            site.member(f"{talks}/{ID}", ROLES, room(self.talk)),
            site.member(f"/tenant/{TENANT}/guardrails", ROLES, room(self.guardrails)),
            site.member(f"/tenant/{TENANT}/live", ROLES, self.live),
            site.act(f"{talks}/{ID}/take", WORKERS, self.take),
            site.act(f"{talks}/{ID}/back", WORKERS, self.back),
            site.act(f"{talks}/{ID}/say", WORKERS, self.say),
        )

    async def talks(self, visit: Visit) -> web.StreamResponse:
        """Who waits, then the newest."""
        request = pb.ListTenantConversationsRequest(
            tenant=self._frame.tenant(visit), page_token=visit.request.query.get("page", "")
        )
        found = await self._desk.ListTenantConversations(request, metadata=visit.metadata)
        return await self._frame.page(
            visit, "tenant_talks.html", "/talks", talks=found.conversations, more=found.next_page_token
        )

    async def talk(self, visit: Visit) -> web.StreamResponse:
        """One of them, with what its turns found out."""
        turn = visit.request.query.get("turn", "")
        request = pb.GetTenantConversationRequest(
            tenant=self._frame.tenant(visit),
            session_id=visit.named("session"),
            page_token=visit.request.query.get("page", ""),
            turn_id=turn,
        )
        found = await self._desk.GetTenantConversation(request, metadata=visit.metadata)
        return await self._frame.page(
            visit,
            "tenant_talk.html",
            "/talks",
            talk=found.conversation,
            messages=found.messages,
            more=found.next_page_token,
            turns={one.turn_id: one for one in found.turns},
            events=found.events,
            shown_turn=turn,
            request_id=str(uuid.uuid4()),
        )

    async def guardrails(self, visit: Visit) -> web.StreamResponse:
        """What was stopped or changed, each with its turn."""
        request = pb.ListGuardrailEventsRequest(
            tenant=self._frame.tenant(visit), page_token=visit.request.query.get("page", "")
        )
        found = await self._desk.ListGuardrailEvents(request, metadata=visit.metadata)
        return await self._frame.page(
            visit, "tenant_guardrails.html", "/guardrails", events=found.events, more=found.next_page_token
        )

    async def live(self, visit: Visit) -> web.StreamResponse:
        """An event at first and at each change."""
        request = pb.WatchTenantRequest(tenant=self._frame.tenant(visit))

        async def events() -> AsyncIterator[str]:
            # At once too: the page may be older than the watch.
            async for _ in self._desk.WatchTenant(request, metadata=visit.metadata):
                yield "changed"

        return await self._live.answer(visit, events())

    async def take(self, visit: Visit) -> web.StreamResponse:
        """Answer in the agent's place."""
        request = pb.TakeOverConversationRequest(
            tenant=self._frame.tenant(visit), session_id=visit.named("session")
        )
        await self._desk.TakeOverConversation(request, metadata=visit.metadata)
        return visit.go(self._at(visit), "taken")

    async def back(self, visit: Visit) -> web.StreamResponse:
        """Let the agent answer again."""
        request = pb.HandBackConversationRequest(
            tenant=self._frame.tenant(visit), session_id=visit.named("session")
        )
        await self._desk.HandBackConversation(request, metadata=visit.metadata)
        return visit.go(self._at(visit), "handed-back")

    async def say(self, visit: Visit) -> web.StreamResponse:
        """A person's own words. Sent twice, they are said once."""
        request = pb.AnswerConversationRequest(
            tenant=self._frame.tenant(visit),
            session_id=visit.named("session"),
            text=visit.said("text", most=4_000),
            request_id=visit.said("request_id", most=40),
        )
        await self._desk.AnswerConversation(request, metadata=visit.metadata)
        return visit.go(self._at(visit), "said")

    def _at(self, visit: Visit) -> str:
        return self._frame.at(visit, f"/talks/{visit.named('session')}")

"""`indai.v1.ConversationService` between the roles of one cell: the caller says who wrote, and has proved it.

At the owner's port the sender is the authenticated owner (`indai.node.owner_conversation_service`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.protocol.quoting import quoted
from indai.runtime.bindings import Bindings
from indai.runtime.conversations.doors import PERSONAL, PUBLIC_BINDING, Routed, choose
from indai.runtime.conversations.handover import Handover
from indai.runtime.conversations.hub import Channel, Hub
from indai.runtime.conversations.intake import Intake, check_message
from indai.runtime.conversations.limits import Limits
from indai.runtime.conversations.notices import Notices
from indai.runtime.conversations.outbound import Outbound
from indai.runtime.conversations.people import ALPHABET, People, written
from indai.runtime.conversations.reading import Reading, Sight
from indai.runtime.conversations.runner import Ended, Runner, Think
from indai.runtime.conversations.turns import TurnStore
from indai.runtime.conversations.values import CHANNELS, HANDLE, Clock, Place, read_id
from indai.runtime.words import say
from indai.v1 import conversation_pb2 as pb
from indai.v1 import conversation_pb2_grpc

KEEP_ALIVE_S: Final = 2.0
LOOK_EVERY: Final = 5
"""Silences between looks at what another process may have stored of a turn."""
_LINK: Final = re.compile(
    rf"\s*(?:link|जोड़ो|jodo)\s*:?\s+([{ALPHABET}]{{4}}[ -]?[{ALPHABET}]{{4}})\s*[.!]?\s*", re.IGNORECASE
)
_EVERYTHING: Final = Sight()
MOST_SUGGESTED: Final = 3
# What may be said first, with the tools of which one must be there.
SUGGESTED: Final[Mapping[str, frozenset[str]]] = {
    "meet": frozenset(
        {"meet-owner", "meet-owner-here", "schedule-demo", "schedule-visit", "schedule-consult"}
    ),
    "buy": frozenset({"search-catalog"}),
    "able": frozenset(),
}


class ConversationServicer(conversation_pb2_grpc.ConversationServiceServicer):
    """See the contract. `here`: handles that live on this node; `intents`: kinds that it serves."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        clock: Clock,
        epoch: int,
        bindings: Bindings,
        here: Container[str],
        think: Think,
        ended: Ended,
        intents: tuple[str, ...],
        outbound: Outbound,
    ) -> None:
        self._bindings, self._here, self._intents = bindings, here, intents
        self._clock, self._limits = clock, Limits()
        self._store, self._hub = TurnStore(pool, clock, epoch), Hub()
        self._intake, self.people = Intake(pool, clock), People(pool, clock)
        self.outbound, self._notices = outbound, Notices(pool, outbound)
        self._runner = Runner(pool, self._store, self._hub, think, ended)
        self.reading = Reading(pool)
        self._handover = Handover(pool, self.outbound, self._runner.stop_session)

    async def start(self) -> None:
        """Take over what an earlier node left half done."""
        await self._runner.start(self._bindings.hearing)

    async def close(self) -> None:
        """Stop; what runs is taken over by the next start."""
        await self._runner.close()

    async def SendMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.SendMessageResponse]:
        """See the contract."""
        message = request.message
        check_message(message)
        routed = await self._routed(message)
        note, trouble = await self._linked(message)

        def place(person: Any) -> Place:
            try:
                chosen = choose(message.handle, person.handles, self._here, routed)
            except NotFound:
                if trouble is not None:
                    raise trouble from None
                raise
            self._limits.take(person.id, chosen, self._clock())
            return chosen

        taken = await self._intake.take(message, place, note)
        channel = self._hub.join(taken.turn)
        # Before anything is told: whoever leaves after the first word has written all the same.
        self._runner.submit(taken.owner, taken.session)
        try:
            yield pb.SendMessageResponse(event=taken.accepted)
            after = 1
            if taken.repeated:
                state, events = await self._store.follow(message.sender, taken.turn, 1)
                for event in events:
                    yield pb.SendMessageResponse(event=event)
                    after = event.seq
                if state == "finished":
                    return
            async for told in self._followed(taken.turn, channel, after, message.sender):
                yield pb.SendMessageResponse(event=told)
        finally:
            self._hub.leave(taken.turn)

    async def WatchTurn(
        self, request: pb.WatchTurnRequest, context: Any
    ) -> AsyncIterator[pb.WatchTurnResponse]:
        """See the contract."""
        turn = read_id(request.turn_id, "turn")
        channel = self._hub.join(turn)
        try:
            state, events = await self._store.follow(request.sender, turn, request.after_seq)
            after = request.after_seq
            for event in events:
                yield pb.WatchTurnResponse(event=event)
                after = event.seq
            if state == "finished":
                return
            async for told in self._followed(turn, channel, after, request.sender):
                yield pb.WatchTurnResponse(event=told)
        finally:
            self._hub.leave(turn)

    async def _followed(
        self, turn: UUID, channel: Channel, after: int, sender: pb.Identity
    ) -> AsyncIterator[pb.TurnEvent | None]:
        """The events to come, None in a silence. Another process may run the turn, or have taken it over:
        what it has stored is looked up in the first silence, and then in one of five."""
        silent = 0
        async for told in channel.after(after, KEEP_ALIVE_S):
            if told is None:
                if silent % LOOK_EVERY == 0:
                    _, stored = await self._store.follow(sender, turn, after)
                    for event in stored:
                        yield event
                        after = event.seq
                    if stored and stored[-1].HasField("finished"):
                        return
                silent += 1
                yield None
            elif told.seq > after:
                silent, after = 0, told.seq
                yield told

    async def StopTurn(self, request: pb.StopTurnRequest, context: Any) -> pb.StopTurnResponse:
        """See the contract."""
        turn = read_id(request.turn_id, "turn")
        person = await self.people.find(request.sender)
        owner, _, state = await self._store.place_of(turn, [person.id])
        stopped = state != "finished" and await self._runner.stop(owner, turn)
        return pb.StopTurnResponse(stopped=stopped)

    async def GetPublicProfile(
        self, request: pb.GetPublicProfileRequest, context: Any
    ) -> pb.GetPublicProfileResponse:
        """See the contract."""
        sender = pb.Identity(channel="web", kind="web_session")
        routed = await self._routed(pb.InboundMessage(handle=request.handle, sender=sender))
        if routed is not None and routed.door != "private":
            handle, tenant, binding = routed.handle, routed.tenant, routed.binding
        elif request.handle in self._here:
            handle, tenant, binding = request.handle, PERSONAL, PUBLIC_BINDING
        else:
            raise NotFound(Reason.NOT_FOUND, f"{quoted(request.handle)} has no agent here.")
        found = await self._bindings.of(tenant, binding)
        human = found.human
        texts = human.greetings
        wanted = (*request.languages, *human.languages)
        language = next((each for each in wanted if each.partition("-")[0] in texts), "en")
        return pb.GetPublicProfileResponse(
            handle=handle,
            display_name=human.name,
            about=texts.get(language.partition("-")[0], human.identity),
            languages=human.languages,
            intents=self._intents if handle else (),
            suggestions=_suggestions(found.tools, language),
            paused=not found.binding.active or await self._bindings.is_paused(tenant),
        )

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Any) -> pb.ListSessionsResponse:
        """See the contract."""
        return await self.reading.sessions(await self._sight(request), request)

    async def ListSessionMessages(
        self, request: pb.ListSessionMessagesRequest, context: Any
    ) -> pb.ListSessionMessagesResponse:
        """See the contract."""
        session = read_id(request.session_id, "session")
        return await self.reading.messages(await self._sight(request), session, request)

    async def GetTurn(self, request: pb.GetTurnRequest, context: Any) -> pb.GetTurnResponse:
        """See the contract."""
        return await self.reading.turn(_EVERYTHING, read_id(request.turn_id, "turn"))

    async def CreateLinkCode(
        self, request: pb.CreateLinkCodeRequest, context: Any
    ) -> pb.CreateLinkCodeResponse:
        """See the contract."""
        code, expires_ms = await self.people.make_code(request.identity)
        made = pb.CreateLinkCodeResponse(code=code)
        made.expire_time.FromMilliseconds(expires_ms)
        return made

    async def LinkIdentity(self, request: pb.LinkIdentityRequest, context: Any) -> pb.LinkIdentityResponse:
        """See the contract."""
        return pb.LinkIdentityResponse(channels=await self.people.link(request.identity, request.code))

    async def AdoptSession(self, request: pb.AdoptSessionRequest, context: Any) -> pb.AdoptSessionResponse:
        """See the contract."""
        adopted = await self.people.adopt(request.visitor, request.known, request.handle)
        return pb.AdoptSessionResponse(adopted=adopted)

    async def UnlinkIdentity(
        self, request: pb.UnlinkIdentityRequest, context: Any
    ) -> pb.UnlinkIdentityResponse:
        """See the contract."""
        await self.people.unlink(request.identity)
        return pb.UnlinkIdentityResponse()

    async def TakeOverSession(
        self, request: pb.TakeOverSessionRequest, context: Any
    ) -> pb.TakeOverSessionResponse:
        """See the contract."""
        session = read_id(request.session_id, "session")
        owner, _ = await self.reading.session(_EVERYTHING, session)
        await self._handover.take(owner, session, request.by)
        return pb.TakeOverSessionResponse(session=(await self.reading.session(_EVERYTHING, session))[1])

    async def HandBackSession(
        self, request: pb.HandBackSessionRequest, context: Any
    ) -> pb.HandBackSessionResponse:
        """See the contract."""
        session = read_id(request.session_id, "session")
        owner, _ = await self.reading.session(_EVERYTHING, session)
        await self._handover.give_back(owner, session, request.by)
        return pb.HandBackSessionResponse(session=(await self.reading.session(_EVERYTHING, session))[1])

    async def SendAsHuman(self, request: pb.SendAsHumanRequest, context: Any) -> pb.SendAsHumanResponse:
        """See the contract."""
        session = read_id(request.session_id, "session")
        owner, _ = await self.reading.session(_EVERYTHING, session)
        return pb.SendAsHumanResponse(message=await self._handover.say(owner, request, session))

    async def WatchOutbound(
        self, request: pb.WatchOutboundRequest, context: Any
    ) -> AsyncIterator[pb.WatchOutboundResponse]:
        """See the contract."""
        if unknown := set(request.channels) - CHANNELS:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"There is no channel {quoted(sorted(unknown)[0])}.")
        async for message in self.outbound.watch(request.channels):
            yield pb.WatchOutboundResponse(message=message)

    async def AcknowledgeOutbound(
        self, request: pb.AcknowledgeOutboundRequest, context: Any
    ) -> pb.AcknowledgeOutboundResponse:
        """See the contract."""
        owner, door = await self.outbound.acknowledge(request, read_id(request.outbound_id, "message"))
        if request.failure and door == "public":
            await self._notices.tell(owner, f"dead {request.outbound_id}", say("notice_dead"))
        return pb.AcknowledgeOutboundResponse()

    async def _routed(self, message: pb.InboundMessage) -> Routed | None:
        """The binding that the account, or the named host or handle, leads to."""
        for key in dict.fromkeys((message.account, message.handle)):
            found = await self._bindings.at(key, message.sender.value) if key else None
            if found is not None:
                tenant, slug, composed = found
                binding = composed.binding
                if not binding.active or message.sender.channel not in (*binding.channels, "cli", "a2a"):
                    continue
                keys = binding.routing_keys
                handle = next((each for each in keys if each in self._here), "")
                return Routed(tenant, slug, binding.door, handle)
        return None

    async def _linked(self, message: pb.InboundMessage) -> tuple[dict[str, str], IndaiError | None]:
        """A code that is said joins its identity before anybody is asked whose agent answers: the shared
        number does not know a new owner otherwise. What came of it is for the turn to say."""
        match = _LINK.fullmatch(message.text)
        if match is None or not message.sender.verified or message.sender.kind == HANDLE:
            return {}, None
        try:
            channels = await self.people.link(message.sender, written(match[1]))
        except IndaiError as error:
            return {"link_failed": error.message}, error
        return {"linked": ", ".join(channels)}, None

    async def _sight(self, request: Any) -> Sight:
        """Of the person that is named, or everything: the caller is of this cell."""
        if not request.HasField("person"):
            return _EVERYTHING
        person: UUID = (await self.people.find(request.person)).id
        return Sight(person=person)


def _suggestions(tools: Sequence[str], language: str) -> list[pb.Choice]:
    """What a stranger may say first, by what the agent can do for them."""
    able = [key for key, needed in SUGGESTED.items() if not needed or needed & set(tools)]
    words = [say(f"suggest_{key}", language) for key in able]
    return [pb.Choice(id=each, title=each) for each in words[:MOST_SUGGESTED]]

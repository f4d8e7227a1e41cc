"""A turn from the message to the answer, stage by stage, each timed in the trace.

    perceive → classify → recall → plan → (respond → execute → reflect)* → respond → update

The route is known before anything is looked up, so that what needs no memory and no model costs neither.
Everything is stored by the runner, with the answer, before the end is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import asyncpg
from indai.runtime.bindings import Bindings
from indai.runtime.checks import Facts
from indai.runtime.composed import Composed, spoken_language
from indai.runtime.conversations.notices import Notices
from indai.runtime.conversations.people import People
from indai.runtime.conversations.talk import Talk
from indai.runtime.conversations.values import Clock, Session, Thought, Turn
from indai.runtime.goals.store import for_prompt
from indai.runtime.prompt import Dynamic
from indai.runtime.proposals.learning import learn
from indai.runtime.tierstore import TierStore
from indai.runtime.turn import banking, handing, supervisor, working
from indai.runtime.turn.afterwards import drafts_only, is_owner, person_of, tell_owner
from indai.runtime.turn.attaching import media_of
from indai.runtime.turn.consistent import Stand, recorded
from indai.runtime.turn.execute import Executor
from indai.runtime.turn.gates import Refuses, never, shut
from indai.runtime.turn.history import history
from indai.runtime.turn.perceive import MAX_READ, Perceived, perceive
from indai.runtime.turn.plan import slots_of
from indai.runtime.turn.profile import profile
from indai.runtime.turn.quarantine import quarantined
from indai.runtime.turn.recall import recall
from indai.runtime.turn.release import Release
from indai.runtime.turn.respond import Responder, Spoken, scope_of
from indai.runtime.turn.state import Answer, Context
from indai.runtime.turn.toolloop import disabled
from indai.runtime.turn.trace import Trace
from indai.runtime.words import say
from indai.tools.files import Attached
from indai.tools.values import Caller, Outcome, Toolbox, Touch
from indai.v1 import conversation_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

USUAL_ZONE: Final = "Asia/Kolkata"
DAY_MS: Final = 86_400_000

ZoneOf = Callable[[str], str]
"""The time zone of an owner who lives here; empty for others."""


MannerOf = Callable[[str], Awaitable[str]]
"""How an owner wants their agent to speak: a sentence for the prompt, or nothing."""
SendCode = Callable[[Turn], Awaitable[bool]]
"""Sends a code for the desk to the verified owner who wrote for one; False where it can't be sent."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a pipeline works with."""

    pool: asyncpg.Pool
    clock: Clock
    bindings: Bindings
    people: People
    tiers: TierStore
    toolbox: Toolbox
    zone_of: ZoneOf
    notices: Notices
    manner_of: MannerOf
    send_code: SendCode
    llm: LlmServiceAsyncStub | None = None
    memory: MemoryServiceAsyncStub | None = None
    refuses: Refuses = never


class Pipeline:
    """See the module; `think` is what the runner runs."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._responder = Responder(around.llm)
        self._specialists: Mapping[str, supervisor.Specialist] = {
            "greet": supervisor.greet,
            "thank": supervisor.thank,
            "feedback": supervisor.feedback,
            "deflect": supervisor.deflect,
            "banking": banking.ask_mode,
        }

    async def think(self, turn: Turn, talk: Talk) -> Thought:
        """One turn."""
        trace = Trace(talk.stage)
        with trace.part("tier_resolve"):
            place = turn.session.place
            composed = await self._around.bindings.of(place.tenant, place.binding, str(turn.session.person))
        with trace.stage("perceive"):
            coded = bool({"linked", "link_failed"} & turn.note.keys())
            perceived = perceive(turn.request, turn.session.language, coded=coded)
            spoken = spoken_language(composed, perceived.language)
            perceived = replace(perceived, language=spoken)
            context = self._context(turn, composed, perceived)
            release = self._release(context, talk)
        with trace.part("gates"):
            around = self._around
            closed = await shut(
                around.pool, around.bindings, around.refuses, turn, composed, perceived.language
            )
        if closed is not None:
            release.say(closed.words)
            shut_out = Spoken(release.end(), ending="failed", reason=closed.reason)
            return self._ended(context, release, trace, shut_out, {})
        if "left_out" in turn.note:
            release.say(say("left_out", perceived.language))
        if (words := await self._ours(context)) is not None:
            release.say(words)
            return self._ended(context, release, trace, Spoken(release.end()), {})
        if wish := await learn(
            around.pool, around.clock, place.tenant, composed.binding.human, turn.session.id, perceived.text
        ):
            trace.note(wish=wish)
        thought = await self._answered(context, talk, release, trace)
        await tell_owner(self._around.notices, context, thought)
        return thought

    async def _answered(self, context: Context, talk: Talk, release: Release, trace: Trace) -> Thought:
        with trace.stage("classify"):
            route = supervisor.route(context)
            trace.note(route=route.name, why=route.why, mood=context.perceived.mood)
        executor = self._executor(context, talk, trace)
        if route.name == "decision":
            words, files = await self._decided(context, executor)
            release.say(words)
            return self._ended(context, release, trace, Spoken(words), {}, files=files)
        if route.name in self._specialists:
            answer = await supervisor.consult(self._specialists[route.name], context)
            release.say(answer.text)
            return self._ended(context, release, trace, Spoken(release.end()), {}, answer)
        with trace.stage("recall"):
            context, release.stand = await self._recalled(context, trace)
            executor.read(context.caller)
        with trace.stage("plan"):
            mode = banking.mode_of(context) if banking.is_payment(context) else ""
            trace.note(slots=context.slots.tool, mode=mode)
        failures: dict[str, int] = dict(context.working.get("failures", {}))
        before = disabled(failures)
        spoken = await self._responder.respond(context, executor, release, trace, failures)
        if newly := sorted(disabled(failures) - before):
            trace.note(disabled=newly)
        if not release.sentences:
            release.say(say("not_understood", context.perceived.language))
            spoken.text = release.end()
        release.stand.close(spoken.text)
        trace.note(
            tools=executor.noted(),
            consistency=release.stand.noted(),
            models=spoken.models,
            problems=spoken.problems,
            untrusted=executor.done.untrusted or _was_told_by_outsiders(context),
        )
        changes: dict[str, tuple[Any, int]] = {
            "failures": (failures or None, DAY_MS),
            "slots": (spoken.slots.as_plain(), working.SLOTS_MS),
        }
        if mode:
            changes["pay_mode"] = (mode, DAY_MS)
        if executor.done.hand_to:
            return await self._handed(context, executor.done.hand_to, release, trace, spoken, changes)
        if executor.done.outcomes:
            changes["result"] = (executor.done.remembered[:2_000], working.HOUR_MS)
            changes["tainted"] = (executor.done.untrusted or None, working.HOUR_MS)
        return self._ended(context, release, trace, spoken, changes, files=executor.done.files)

    def _executor(self, context: Context, talk: Talk, trace: Trace) -> Executor:
        scope, question = scope_of(context.turn), context.perceived.text

        async def extract(outcome: Outcome) -> Outcome:
            return await quarantined(self._around.llm, scope, question, outcome)

        tools = context.composed.tools
        return Executor(self._around.toolbox, context.caller, tools, talk, trace, extract)

    def _context(self, turn: Turn, composed: Composed, perceived: Perceived) -> Context:
        session, now_ms = turn.session, self._around.clock()
        place, channel = session.place, turn.request.sender.channel
        caller = Caller(
            tenant=place.tenant,
            binding=place.binding,
            owner=place.handle,
            session=session.id.hex,
            person=person_of(turn),
            door=place.door,
            channel=channel,
            verified=turn.request.sender.verified,
            language=perceived.language,
            time_zone=self._zone(turn, session),
            now_ms=now_ms,
            turn=turn.id.hex,
            autonomy=composed.agent.autonomy,
            approvals=frozenset(composed.agent.approval_tools),
            team=composed.binding.team,
            human=composed.binding.human,
            called=turn.request.sender.display_name[:100],
            # The owner's own conversation is private from its first word.
            context=frozenset({Touch.PRIVATE}) if place.door == "private" else frozenset({Touch.UNTRUSTED}),
        )
        known = working.alive(session.state, now_ms)
        tools = self._around.toolbox.offered(composed.tools, place.door, channel)
        hand_over = handing.spec(composed) if place.door != "private" else None
        return Context(
            turn,
            composed,
            caller,
            (*tools, hand_over) if hand_over is not None else tools,
            perceived,
            known,
            slots_of(known),
        )

    def _zone(self, turn: Turn, session: Session) -> str:
        """The person's, or the owner's, or the usual one."""
        own = self._around.zone_of(session.place.handle) if session.place.door == "private" else ""
        for name in (turn.request.time_zone, session.time_zone, own):
            try:
                if name:
                    return ZoneInfo(name).key
            except (ZoneInfoNotFoundError, ValueError, OSError):
                continue
        return USUAL_ZONE

    def _release(self, context: Context, talk: Talk) -> Release:
        facts = Facts(
            turns_since_price=context.working.get("price_turns"),
            said=context.perceived.text,
            languages=context.composed.human.languages,
            prompt=context.composed.leaks,
            own=context.composed.own,
        )
        tell = _kept_back if drafts_only(context) else talk.sentence
        return Release(context.composed, facts, context.perceived.language, tell)

    async def _ours(self, context: Context) -> str | None:
        """Words for what is no question for an agent; None for everything else."""
        perceived, note, language = context.perceived, context.turn.note, context.perceived.language
        if "linked" in note:
            return say("linked", language, channels=note["linked"])
        if "link_failed" in note:
            return note["link_failed"]
        if perceived.unlink and context.turn.request.sender.kind != "handle":
            await self._around.people.unlink(context.turn.request.sender)
            return say("unlinked", language)
        if perceived.sign_in and is_owner(context.turn) and await self._around.send_code(context.turn):
            return say("sign_in_sent", language)
        if not perceived.text:
            return say("unreadable" if context.turn.request.media else "empty", language)
        if len(perceived.text) > MAX_READ:
            return say("too_long", language, limit=f"{MAX_READ:,}")
        return None

    async def _decided(self, context: Context, executor: Executor) -> tuple[str, Sequence[Attached]]:
        """The owner's word on something that waits for it; gives words, and files that came of it."""
        decision = context.perceived.decision
        assert decision is not None  # noqa: S101 - the route says so
        if not is_owner(context.turn):
            return say("not_yours", context.perceived.language), ()
        outcome: Outcome = await self._around.toolbox.answer(
            context.caller, decision.code, approve=decision.approve
        )
        return outcome.words or say("not_understood", context.perceived.language), outcome.files

    async def _recalled(self, context: Context, trace: Trace) -> tuple[Context, Stand]:
        turn, composed, perceived = context.turn, context.composed, context.perceived
        own = turn.owner if context.caller.door == "private" else ""
        before, goals, manner, looked_up = await asyncio.gather(
            history(self._around.pool, turn),
            for_prompt(self._around.pool, own),
            self._around.manner_of(turn.owner),
            recall(self._around.memory, turn, composed, perceived.text, simple=perceived.simple),
        )
        trace.note(recalled=len(looked_up.hits) + len(looked_up.facts), missing=list(looked_up.notes))
        moods = context.working.get("moods", [])
        answers = tuple(each.text for each in before.said if each.speaker == "agent")
        guidance = working.guidance(perceived.mood, moods, context.working.get("price_turns"), answers)
        dynamic = Dynamic(
            profile=profile(turn, composed.agent, perceived.language),
            working=working.words(context.working, before.summary, goals),
            guidance="\n".join(filter(None, (manner, guidance))),
            facts=looked_up.facts,
            recall=looked_up.hits,
            graph=looked_up.graph,
            opinions=looked_up.opinions_for(perceived.text),
        )
        caller = context.caller
        if looked_up.untrusted or before.tainted or context.working.get("tainted"):
            caller = replace(caller, context=caller.context | {Touch.UNTRUSTED})
        stand = Stand(
            perceived.language,
            opinions=filter(None, (recorded(*each) for each in looked_up.opinions)),
            last=answers[-1:],
            said=perceived.text,
            calm=perceived.mood == "stressed",
            emoji=composed.human.voice.emoji,
        )
        return replace(context, history=before.said, dynamic=dynamic, caller=caller), stand

    async def _handed(
        self,
        context: Context,
        to: str,
        release: Release,
        trace: Trace,
        spoken: Spoken,
        changes: Mapping[str, tuple[Any, int]],
    ) -> Thought:
        """To a person, or to another team's binding; the person is told, and nobody asks them again."""
        language, composed = context.perceived.language, context.composed
        escalation = composed.team.escalation
        binding = ""
        if to != handing.PERSON:
            binding = await handing.binding_of(self._around.tiers, context.turn, composed, to)
        if binding:
            release.say(say("handed_on", language))
        else:  # a team that nobody serves is a matter for a person
            release.say(say("handed_to_human", language, name=escalation.to if escalation else to))
        spoken.text = " ".join(release.sentences)
        shared = f"{composed.team.name}: {context.perceived.text[:300]}"
        whole = {**changes, "shared": (shared, DAY_MS)}
        trace.note(handed_to=binding or handing.PERSON)
        thought = self._ended(context, release, trace, spoken, whole)
        return replace(thought, hand_over=not binding, hand_to=binding)

    def _ended(
        self,
        context: Context,
        release: Release,
        trace: Trace,
        spoken: Spoken,
        changes: Mapping[str, tuple[Any, int]],
        answer: Answer | None = None,
        files: Sequence[Attached] = (),
    ) -> Thought:
        perceived = context.perceived
        with trace.stage("update"):
            price = context.working.get("price_turns")
            counted = 0 if release.tells_price else None if price is None else price + 1
            state = working.kept(
                context.turn.session.state,
                self._around.clock(),
                {
                    "moods": (working.moods(context.working.get("moods", []), perceived.mood), DAY_MS),
                    "price_turns": (counted, DAY_MS),
                    **changes,
                },
            )
        if answer is not None and answer.tags:
            trace.note(tags=list(answer.tags))
        text = spoken.text
        if drafts_only(context) and spoken.ending == "answered":
            trace.note(draft=text)
            text, files = say("waiting_for_owner", perceived.language, name=context.composed.human.name), ()
        reply = pb.Reply(text=text, language=perceived.language, media=media_of(files))
        if answer is not None:
            reply.choices.extend(pb.Choice(id=each, title=title) for each, title in answer.choices)
        return Thought(
            reply,
            ending=spoken.ending,
            reason=spoken.reason,
            language=perceived.language,
            state=state,
            stage_ms=trace.close(),
            trace=trace.found,
            breaches=tuple(release.breaches),
            cost_micros=spoken.cost_micros,
        )


def _was_told_by_outsiders(context: Context) -> bool:
    """Whether the owner's agent has read words of outsiders; at the other doors a visitor's are expected."""
    return context.caller.door == "private" and Touch.UNTRUSTED in context.caller.context


def _kept_back(_: str) -> None:
    """A draft goes to nobody sentence by sentence."""

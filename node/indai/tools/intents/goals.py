"""Goals as tools: what an owner wants kept up is set, listed and ended in conversation.

They call `GoalService` as the owner, as the desk does; whose goals they are comes from the caller alone. A
goal is the owner's own order, so it is set at their own door only, and not unasked once words of outsiders
were read: whoever could write one there would act for the owner every week.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.tools.desk import Desks, request_id
from indai.tools.intents.common import ACTS, MINUTES, WITH, arguments
from indai.tools.normalise import one_line
from indai.tools.people import People
from indai.tools.values import Act, Caller, Effect, Progress, Spec, Touch
from indai.tools.words import said
from indai.v1 import goals_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.goals_pb2_grpc import GoalServiceAsyncStub

GoalsOf = Callable[[str], "GoalServiceAsyncStub"]
"""The goals of an owner, by handle."""

_MOST: Final = 200
_SHOWN: Final = 20
_KINDS: Final = {
    "meet": pb.GOAL_KIND_MEET,
    "follow-up": pb.GOAL_KIND_FOLLOW_UP,
    "remind": pb.GOAL_KIND_REMIND,
}
_HOURS: Final = {"hour": 1, "day": 24, "week": 168, "fortnight": 336, "month": 720, "year": 8_760}
_EVERY: Final = re.compile(rf"(?:every )?(?:(\d{{1,4}}) )?({'|'.join(_HOURS)})s?")
_OWN: Final = {"type": "string", "x-importance": 3}
_EVERY_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 40,
    "description": "How often, or after how long: day, week, month, 2 weeks, 36 hours.",
    "x-label": "Every",
}


@dataclass(frozen=True, slots=True)
class SetGoal:
    """Keeps something up over time."""

    goals: GoalsOf
    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        kind = {"type": "string", "enum": list(_KINDS), "x-label": "Goal"}
        task = {
            "type": "string",
            "maxLength": 200,
            "description": "What to be reminded of, or what the meeting is about.",
            "x-label": "About",
        }
        act = {
            "type": "boolean",
            "description": "Ask for the meeting without asking the owner first. Only if they said so.",
            "x-label": "By itself",
        }
        wish = {"kind": kind, "with": WITH, "every": _EVERY_SCHEMA, "task": task, "minutes": MINUTES}
        return Spec(
            "set-goal",
            "Keep something up for the owner: meet somebody so often, remind them so often, or tell them "
            "what has waited so long for an answer.",
            arguments(("kind", "every"), **wish, act=act),
            {
                "type": "object",
                "properties": {
                    "kept_up": {**_OWN, "x-label": "from now on"},
                    "goal_id": {"type": "string", "x-hidden": True},
                },
                "required": ["kept_up"],
            },
            Effect.ACT,
            ACTS,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`: whom a name means, and how many hours there are between two times."""
        made = dict(arguments)
        made["every"] = f"{_hours(arguments['every'])} hours"
        if arguments["kind"] == "remind" and not one_line(arguments.get("task", ""), 200):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "What shall I remind you of?", metadata={"code": "NO_TASK"}
            )
        if arguments["kind"] == "meet":
            name = arguments.get("with", "")
            if not name:
                raise InvalidInput(
                    Reason.INVALID_ARGUMENT,
                    "Whom do you want to meet?",
                    metadata={"code": "UNKNOWN_PERSON"},
                )
            made["with"] = await self.people.one(caller, self.desks(caller.owner), name)
        return Act(made, f"Keep up: {_in_words(_wish(made), 'en')}")

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. Raises Refused(ALREADY_EXISTS) for what is kept up already."""
        wish, stub = _wish(arguments), self.goals(caller.owner)
        for goal in await _all(stub):
            # One of this very turn is the same goal, which the service finds again.
            before = goal.create_time.ToMilliseconds() < caller.now_ms
            if before and _same(goal, wish):
                raise Refused(
                    Reason.ALREADY_EXISTS,
                    f"You have that goal already: {_in_words(goal, 'en')}.",
                    hint="end the other one first",
                )
        request = pb.CreateGoalRequest(request_id=request_id(caller, "set-goal", wish), goal=wish)
        goal = (await stub.CreateGoal(request)).goal
        return {"kept_up": _in_words(goal, caller.language), "goal_id": goal.goal_id}


@dataclass(frozen=True, slots=True)
class Goals:
    """Reads them."""

    goals: GoalsOf

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        goal = {"type": "object", "properties": {"goal": _OWN, "state": {"type": "string"}}}
        return Spec(
            "goals",
            "List what the owner wants kept up over time.",
            arguments(()),
            {
                "type": "object",
                "properties": {"goals": {"type": "array", "items": goal}, "count": {"type": "integer"}},
                "required": ["goals", "count"],
            },
            touches=frozenset({Touch.PRIVATE}),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`; oldest first."""
        found = await _all(self.goals(caller.owner))
        shown = [_shown(each, caller.language) for each in found[:_SHOWN]]
        return {"goals": shown, "count": len(found)}


@dataclass(frozen=True, slots=True)
class ChangeGoal:
    """Ends, pauses or takes up again."""

    goals: GoalsOf
    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        goal = {
            "type": "string",
            "maxLength": 200,
            "description": "Whom or what it is about. Leave out when there is only one.",
            "x-label": "Goal",
        }
        change = {"type": "string", "enum": ["end", "pause", "resume"], "x-label": "What"}
        state = {"type": "string", "x-importance": 3}
        return Spec(
            "change-goal",
            "End, pause or resume something that the owner wanted kept up.",
            arguments(("change",), goal=goal, change=change),
            {
                "type": "object",
                "properties": {"ended": state, "paused": state, "resumed": state},
            },
            Effect.ACT,
            ACTS,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. Raises InvalidInput(AMBIGUOUS_GOAL) with a question, NotFound for none that fits."""
        stub, change = self.goals(caller.owner), arguments["change"]
        goal = await self._meant(caller, await _all(stub), arguments.get("goal", ""))
        words = _in_words(goal, caller.language)
        if change == "end":
            await stub.DeleteGoal(pb.DeleteGoalRequest(goal_id=goal.goal_id))
            return {"ended": words}
        paused = change == "pause"
        await stub.UpdateGoal(pb.UpdateGoalRequest(goal_id=goal.goal_id, paused=paused))
        return {"paused" if paused else "resumed": words}

    async def _meant(self, caller: Caller, goals: Sequence[pb.Goal], text: str) -> pb.Goal:
        fits = [each for each in goals if _fits(each, text)]
        if not fits and text:
            # A name of another script, or one that is written otherwise than its handle.
            try:
                handle = await self.people.one(caller, self.desks(caller.owner), text)
            except IndaiError:
                handle = ""
            fits = [each for each in goals if handle and each.person == handle]
        if len(fits) == 1:
            return fits[0]
        if fits:
            named = "; ".join(_in_words(each, "en") for each in fits[:6])
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"Which goal: {named}?", metadata={"code": "AMBIGUOUS_GOAL"}
            )
        raise NotFound(
            Reason.NOT_FOUND,
            said("You have no such goal." if goals else "You have no goals.", caller.language),
            metadata={"code": "NO_SUCH_GOAL"},
        )


async def _all(stub: GoalServiceAsyncStub) -> Sequence[pb.Goal]:
    return (await stub.ListGoals(pb.ListGoalsRequest(page_size=_MOST))).goals


def _wish(given: Mapping[str, Any]) -> pb.Goal:
    """The goal of prepared arguments. What does not belong to its kind is left out, never refused: a model
    that says for whom a reminder is has said nothing wrong."""
    meets = given["kind"] == "meet"
    return pb.Goal(
        kind=_KINDS[given["kind"]],
        person=given.get("with", "") if meets else "",
        words="" if given["kind"] == "follow-up" else one_line(given.get("task", ""), 200),
        every_hours=_hours(given["every"]),
        minutes=given.get("minutes", 0) if meets else 0,
        may_act=meets and given.get("act", False),
    )


def _hours(every: str) -> int:
    found = _EVERY.fullmatch(" ".join(every.casefold().split()))
    hours = int(found[1] or 1) * _HOURS[found[2]] if found else 0
    if not 1 <= hours <= _HOURS["year"]:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "How often? From every hour to every year.",
            hint="week, 2 days, month",
        )
    return hours


def _same(goal: pb.Goal, wish: pb.Goal) -> bool:
    return (goal.kind, goal.person, goal.words) == (wish.kind, wish.person, wish.words)


def _fits(goal: pb.Goal, text: str) -> bool:
    """Whether every word of a text stands in a goal; no text fits any."""
    words = set(re.findall(r"\w+", f"{_in_words(goal, 'en')} {goal.words}".casefold()))
    return set(re.findall(r"\w+", text.casefold())) <= words or text == goal.goal_id


def _shown(goal: pb.Goal, language: str) -> dict[str, str]:
    state = {"state": said("paused", language)} if goal.paused else {}
    return {"goal": _in_words(goal, language), **state}


def _in_words(goal: pb.Goal, language: str) -> str:
    """A goal as words for its owner; `language` is BCP 47."""
    hours = goal.every_hours
    often = said(
        "{count} days" if hours % 24 == 0 else "{count} hours",
        language,
        count=str(hours // 24 if hours % 24 == 0 else hours),
    )
    if goal.kind == pb.GOAL_KIND_FOLLOW_UP:
        return said("tell you what has waited {often} for an answer", language, often=often)
    if goal.kind == pb.GOAL_KIND_REMIND:
        return said("remind you every {often}: {task}", language, often=often, task=goal.words)
    by_itself = "meet {person} every {often}, asked for without asking you first"
    form = by_itself if goal.may_act else "meet {person} every {often}"
    return said(form, language, often=often, person=goal.person)

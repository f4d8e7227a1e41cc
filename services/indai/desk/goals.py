"""Goals: what the owner wants kept up over time, how far their agent goes for it, and what it did.

The agent looks at goals by itself. Whether it may do anything unasked is one switch; whether it may ask for a
meeting, or only tell its owner, is said for each goal.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from indai.desk.day import clock_of, gates_of
from indai.desk.frame import ROLES, Frame
from indai.desk.show import Show, Tag
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import goals_pb2 as pb
from indai.web.visit import Visit

PATH: Final = "/desk/goals"
PAGE: Final = 30
UNITS: Final = (("24", "days"), ("168", "weeks"), ("1", "hours"))
KINDS: Final = (
    (pb.GOAL_KIND_MEET, "Meet somebody"),
    (pb.GOAL_KIND_REMIND, "Be reminded"),
    (pb.GOAL_KIND_FOLLOW_UP, "Hear of what waits for an answer"),
)
DID: Final = {
    "told": Tag("you were told", "good"),
    "acted": Tag("done", "good"),
    "asked": Tag("waits for you", "warn"),
    "held": Tag("held back", "accent"),
    "met": Tag("nothing to do"),
    "failed": Tag("failed", "bad"),
    "begun": Tag("begun", "accent"),
}
"""What became of one occasion."""
WHY: Final = {
    "NOT_ALLOWED": "You have stopped it.",
    "PAUSED": "The agent is paused.",
    "QUIET_HOURS": "These are your quiet hours.",
    "ENOUGH_TODAY": "It was enough for one day.",
    "OVER_BUDGET": "The day's allowance is spent.",
    "NO_CONVERSATION": "There is no conversation to tell you in: write to your agent once.",
}
"""Why something was held back or failed; other words are the agent's own."""


class GoalsRoom:
    """Pages and acts of goals."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._goals = frame, frame.calls.goals

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member(PATH, ROLES, self.page),
            site.act("/desk/goals/add", ROLES, self.add),
            site.act("/desk/goals/consent", ROLES, self.consent),
            site.act(
                "/desk/goals/{goal:[0-9a-f-]{36}}/{way:pause|resume|act|tell|remove}", ROLES, self.change
            ),
        )

    async def page(self, visit: Visit) -> web.StreamResponse:
        """All of them, and what was done lately."""
        goals = await self._goals.ListGoals(pb.ListGoalsRequest(page_size=200), metadata=visit.metadata)
        acts = await self._goals.ListGoalActs(
            pb.ListGoalActsRequest(page_size=PAGE, page_token=visit.request.query.get("page", "")),
            metadata=visit.metadata,
        )
        gates = await gates_of(self._frame, visit)
        show = await self._frame.show(visit)
        called = {goal.goal_id: sentence(show, goal) for goal in goals.goals}
        return await self._frame.page(
            visit,
            "goals.html",
            PATH,
            show=show,
            goals=[(goal, called[goal.goal_id]) for goal in goals.goals],
            acts=[(act, called.get(act.goal_id, ""), _tag(show, act), _why(show, act)) for act in acts.acts],
            more=acts.next_page_token,
            gates=gates,
            quiet=(clock_of(gates.quiet_from_minute), clock_of(gates.quiet_until_minute)),
            meet=pb.GOAL_KIND_MEET,
            kinds=KINDS,
            units=UNITS,
            number=str(uuid.uuid4()),
        )

    async def add(self, visit: Visit) -> web.StreamResponse:
        """One more; the same form sent twice is one goal."""
        kind, unit, often = visit.said("kind"), visit.said("unit"), visit.said("every", most=20)
        wrong = {} if kind in {str(each) for each, _ in KINDS} else {"kind": "choose one of the list"}
        if unit not in {hours for hours, _ in UNITS} or not _is_small(often):
            wrong["every"] = "a number of hours, days or weeks"
        minutes = visit.said("minutes", most=20) or "0"
        if not _is_small(minutes):
            wrong["minutes"] = "a whole number"
        if wrong:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "The goal is wrong.", hint="go back", fields=wrong)
        meets = kind == str(int(pb.GOAL_KIND_MEET))
        wish = pb.Goal(
            kind=pb.GoalKind.ValueType(int(kind)),
            person=visit.said("person", most=200) if meets else "",
            words=visit.said("words"),
            every_hours=int(often) * int(unit),
            minutes=int(minutes) if meets else 0,
            may_act=meets and visit.said("act") == "yes",
        )
        request = pb.CreateGoalRequest(request_id=visit.said("id"), goal=wish)
        await self._goals.CreateGoal(request, metadata=visit.metadata)
        return visit.go(PATH, "saved")

    async def consent(self, visit: Visit) -> web.StreamResponse:
        """Whether anything at all may be done unasked."""
        if (way := visit.said("way")) not in ("on", "off"):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "It is either allowed or stopped.")
        gates = await gates_of(self._frame, visit)
        gates.allowed = way == "on"
        await self._goals.SetGoalGates(pb.SetGoalGatesRequest(gates=gates), metadata=visit.metadata)
        return visit.go(PATH, "saved")

    async def change(self, visit: Visit) -> web.StreamResponse:
        """Pause one or let it go on, say how far the agent goes for it, or remove it."""
        goal, way = visit.named("goal"), visit.named("way")
        if way == "remove":
            await self._goals.DeleteGoal(pb.DeleteGoalRequest(goal_id=goal), metadata=visit.metadata)
            return visit.go(PATH, "removed")
        request = pb.UpdateGoalRequest(goal_id=goal)
        if way in ("pause", "resume"):
            request.paused = way == "pause"
        else:
            request.may_act = way == "act"
        await self._goals.UpdateGoal(request, metadata=visit.metadata)
        return visit.go(PATH, "saved")


def sentence(show: Show, goal: pb.Goal) -> str:
    """What the goal is, for its owner."""
    words, often = show.words, every(show, goal.every_hours)
    if goal.kind == pb.GOAL_KIND_MEET:
        return words("Meet {peer} {often}", peer=goal.person, often=often)
    if goal.kind == pb.GOAL_KIND_REMIND:
        return words("Remind me {often}: {text}", text=goal.words, often=often)
    return words("Tell me what has waited for an answer, {often}", often=often)


def every(show: Show, hours: int) -> str:
    """`every week`, `every 3 days`."""
    words = show.words
    if hours % 168 == 0:
        return words("every week") if hours == 168 else words("every {n} weeks", n=hours // 168)
    if hours % 24 == 0:
        return words("every day") if hours == 24 else words("every {n} days", n=hours // 24)
    return words("every hour") if hours == 1 else words("every {n} hours", n=hours)


def _is_small(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4


def _tag(show: Show, act: pb.GoalAct) -> Tag:
    found = DID.get(act.did, Tag("unknown"))
    return Tag(show.words(found.text), found.look)


def _why(show: Show, act: pb.GoalAct) -> str:
    return show.words(WHY[act.words]) if act.words in WHY else act.words

"""GoalService at the owner's port: an owner's goals and gates. Whose they are comes from the token alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID, uuid5

import asyncpg
from indai.node import views
from indai.node.auth import caller
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.runtime.conversations.values import Clock
from indai.runtime.goals.store import GoalStore
from indai.runtime.goals.values import HOUR_MS, MINUTES_A_DAY, Gates, Goal
from indai.v1 import goals_pb2 as pb
from indai.v1 import goals_pb2_grpc

MAX_WORDS: Final = 200
MAX_HOURS: Final = 8_760
USUAL_MINUTES: Final = 30
_PAGE: Final = (50, 200)
_GOALS: Final = UUID("b3c7a1de-50a5-5b55-8ab4-0f2f1f0c6e21")
_KINDS: Final = {
    pb.GOAL_KIND_MEET: "meet",
    pb.GOAL_KIND_FOLLOW_UP: "follow_up",
    pb.GOAL_KIND_REMIND: "remind",
}
_NAMES: Final = {name: kind for kind, name in _KINDS.items()}


class GoalServicer(goals_pb2_grpc.GoalServiceServicer):
    """See the contract. `changed`: the engine looks at once."""

    def __init__(self, store: GoalStore, clock: Clock, changed: Callable[[], None]) -> None:
        self._store, self._clock, self._changed = store, clock, changed

    async def CreateGoal(self, request: pb.CreateGoalRequest, context: Any) -> pb.CreateGoalResponse:
        """The id is made of the owner and the request, so the same request finds the same goal."""
        owner = caller(context).owner
        goal = await self._store.add(_wished(owner, request, self._clock()))
        self._changed()
        return pb.CreateGoalResponse(goal=_goal(goal))

    async def ListGoals(self, request: pb.ListGoalsRequest, context: Any) -> pb.ListGoalsResponse:
        """Oldest first."""
        size, token = _size(request.page_size), request.page_token
        created, _, last = token.partition(":")
        after = (int(created), _uuid(last)) if created.isdecimal() and len(created) < 18 else None
        if token and after is None:
            raise _no_token()
        found = await self._store.listed(caller(context).owner, after, size + 1)
        more = f"{found[size - 1].created_ms}:{found[size - 1].id}" if len(found) > size else ""
        return pb.ListGoalsResponse(goals=map(_goal, found[:size]), next_page_token=more)

    async def UpdateGoal(self, request: pb.UpdateGoalRequest, context: Any) -> pb.UpdateGoalResponse:
        """Only a meeting is something that the agent can do by itself."""
        paused = request.paused if request.HasField("paused") else None
        may_act = request.may_act if request.HasField("may_act") else None
        goal = await self._store.change(caller(context).owner, _uuid(request.goal_id), paused, may_act)
        self._changed()
        return pb.UpdateGoalResponse(goal=_goal(goal))

    async def DeleteGoal(self, request: pb.DeleteGoalRequest, context: Any) -> pb.DeleteGoalResponse:
        """With what it did."""
        await self._store.remove(caller(context).owner, _uuid(request.goal_id))
        return pb.DeleteGoalResponse()

    async def ListGoalActs(self, request: pb.ListGoalActsRequest, context: Any) -> pb.ListGoalActsResponse:
        """Newest first."""
        size, token = _size(request.page_size), request.page_token
        if token and (not token.isdecimal() or len(token) > 18):
            raise _no_token()
        goal = _uuid(request.goal_id) if request.goal_id else None
        before = int(token) if token else None
        rows = await self._store.acts(caller(context).owner, goal, before, size + 1)
        more = str(rows[size - 1]["place"]) if len(rows) > size else ""
        return pb.ListGoalActsResponse(acts=map(_act, rows[:size]), next_page_token=more)

    async def GetGoalGates(self, request: pb.GetGoalGatesRequest, context: Any) -> pb.GetGoalGatesResponse:
        """The owner's, or the usual ones."""
        return pb.GetGoalGatesResponse(gates=_gates(await self._store.gates(caller(context).owner)))

    async def SetGoalGates(self, request: pb.SetGoalGatesRequest, context: Any) -> pb.SetGoalGatesResponse:
        """All of them."""
        gates, given = _wished_gates(request.gates), caller(context).owner
        await self._store.set_gates(given, gates)
        self._changed()
        return pb.SetGoalGatesResponse(gates=_gates(gates))


def _wished(owner: str, request: pb.CreateGoalRequest, now_ms: int) -> Goal:
    wish, wrong = request.goal, {}
    kind = _KINDS.get(wish.kind, "")
    if not kind:
        wrong["goal.kind"] = "is required"
    if len(wish.words) > MAX_WORDS or not wish.words.isprintable():
        wrong["goal.words"] = f"must be one line of at most {MAX_WORDS} characters"
    if kind == "remind" and not wish.words.strip():
        wrong["goal.words"] = "is required: what to be reminded of"
    if not 1 <= wish.every_hours <= MAX_HOURS:
        wrong["goal.every_hours"] = f"must be 1 to {MAX_HOURS}"
    if wish.minutes > MINUTES_A_DAY:
        wrong["goal.minutes"] = "must be at most a day"
    if kind != "meet" and (wish.person or wish.may_act):
        wrong["goal.person" if wish.person else "goal.may_act"] = "belongs to goals of meeting somebody"
    if wrong:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The goal is wrong.", fields=wrong)
    person = str(Handle.parse(wish.person)) if kind == "meet" else ""
    if person == owner:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "Nobody meets themselves.", hint="name somebody else")
    every_ms = wish.every_hours * HOUR_MS
    # A meeting or a waiting thread is looked at now; words come when their time has passed once.
    due_ms = now_ms + every_ms if kind == "remind" else now_ms
    return Goal(
        uuid5(_GOALS, f"{owner}\n{_uuid(request.request_id)}"),
        owner,
        kind,
        person,
        " ".join(wish.words.split()),
        every_ms,
        wish.minutes or USUAL_MINUTES,
        wish.may_act,
        False,
        due_ms,
        due_ms,
        now_ms,
    )


def _wished_gates(given: pb.GoalGates) -> Gates:
    wrong = {}
    for name in ("quiet_from_minute", "quiet_until_minute"):
        if getattr(given, name) >= MINUTES_A_DAY:
            wrong[f"gates.{name}"] = "must be 0 to 1439"
    if not 1 <= given.most_per_day <= 50:
        wrong["gates.most_per_day"] = "must be 1 to 50"
    if wrong:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The gates are wrong.", fields=wrong)
    return Gates(given.allowed, given.quiet_from_minute, given.quiet_until_minute, given.most_per_day)


def _goal(goal: Goal) -> pb.Goal:
    return pb.Goal(
        goal_id=str(goal.id),
        kind=_NAMES[goal.kind],
        person=goal.person,
        words=goal.words,
        every_hours=goal.every_ms // HOUR_MS,
        minutes=goal.minutes,
        may_act=goal.may_act,
        paused=goal.paused,
        next_time=views.timestamp(goal.look_ms),
        create_time=views.timestamp(goal.created_ms),
    )


def _act(row: asyncpg.Record) -> pb.GoalAct:
    return pb.GoalAct(
        goal_id=str(row["goal"]),
        time=views.timestamp(row["at_ms"]),
        did=row["did"],
        words=row["words"],
        thread_id=row["thread"],
    )


def _gates(gates: Gates) -> pb.GoalGates:
    return pb.GoalGates(
        allowed=gates.allowed,
        quiet_from_minute=gates.quiet_from,
        quiet_until_minute=gates.quiet_until,
        most_per_day=gates.most_per_day,
    )


def _size(asked: int) -> int:
    if asked > _PAGE[1]:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"A page has at most {_PAGE[1]} entries.")
    return asked or _PAGE[0]


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "An id is a UUID.", hint="indai goal list") from None


def _no_token() -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, "The page token is not one of ours.")

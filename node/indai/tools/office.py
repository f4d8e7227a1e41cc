"""Tools of work and commerce: reminders, word to the owner, members of a firm, the owner's stock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.tools.desk import Desks, request_id
from indai.tools.intents.common import TIME, WHEN, arguments, zone_of
from indai.tools.jobs import Jobs
from indai.tools.library import ANYWHERE
from indai.tools.normalise import one_line
from indai.tools.toolbox import TellOwner
from indai.tools.values import Caller, Effect, Progress, Spec
from indai.tools.when import read_when
from indai.tools.words import said
from indai.v1 import commerce_pb2

MOST: Final = 20
Members = Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
"""Names and roles of a tenant's people."""

_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 1_000, "x-label": "Text"}
_MONEY: Final = {"type": "integer", "x-format": "money_minor", "x-label": "price", "x-importance": 3}
_ITEM: Final = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "x-label": "SKU", "x-importance": 3},
        "title": {"type": "string", "x-importance": 3},
        "price_minor": _MONEY,
        "currency": {"type": "string", "x-hidden": True},
        "free": {"type": "integer", "x-label": "in stock", "x-importance": 3},
    },
}


@dataclass(frozen=True, slots=True)
class ScheduleJob:
    """Comes back at a time."""

    jobs: Jobs

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        result = {
            "type": "object",
            "properties": {
                "task": {"type": "string", "x-importance": 3},
                "at_ms": {"type": "integer", "x-format": "local_time", "x-label": "when", "x-importance": 3},
                "job": {"type": "string", "x-hidden": True},
            },
        }
        task = {**_TEXT, "description": "What to come back with.", "x-label": "Task"}
        return Spec(
            "schedule-job",
            "Come back to the person with something at a time: a reminder, a follow-up.",
            arguments(("task", "when"), task=task, when=WHEN, time=TIME),
            result,
            Effect.ACT,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. A day without a time means nine in the morning, or what is left of the day."""
        at_ms = _moment(arguments["when"], arguments.get("time", ""), caller)
        task = one_line(arguments["task"])
        delay_s = max(0.0, (at_ms - caller.now_ms) / 1000)
        job = await self.jobs.add(
            caller,
            "remind",
            "schedule-job",
            {"text": said("You asked me to come back: {task}", caller.language, task=task)},
            delay_s=delay_s,
            key=task,
        )
        return {"task": task, "at_ms": at_ms, "job": str(job)}


def _moment(days: str, clock: str, caller: Caller) -> int:
    zone = zone_of(caller)
    try:
        return read_when(days, clock or "09:00", 1, caller.now_ms, zone).windows[0].start_ms
    except InvalidInput:
        if clock:
            raise
        return read_when(days, "", 1, caller.now_ms, zone).windows[0].start_ms


@dataclass(frozen=True, slots=True)
class Notify:
    """Takes word to the owner whose agent this is."""

    tell: TellOwner

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        result = {"type": "object", "properties": {"told": {"type": "boolean", "x-importance": 3}}}
        return Spec(
            "notify",
            "Take a message to the owner of this agent.",
            arguments(("text",), text=_TEXT),
            result,
            Effect.ACT,
            doors=ANYWHERE,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. The words are quoted: whoever asks is not the owner's voice."""
        if not caller.owner:
            raise NotFound(Reason.NOT_FOUND, "This agent has no owner to tell.")
        text = one_line(arguments["text"])
        by = "You" if caller.person == caller.owner else "A visitor"
        words = f"{by} asked me to tell you: “{text}”"
        told = await self.tell(caller.owner, words, request_id(caller, "notify", text))
        if not told:
            raise NotFound(Reason.NOT_FOUND, "The owner has no conversation in which they could be told.")
        return {"told": True}


@dataclass(frozen=True, slots=True)
class BusinessMembers:
    """Who belongs to the firm, and with which role."""

    members: Members

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        member = {
            "type": "object",
            "properties": {"name": {"type": "string", "x-importance": 3}, "role": {"type": "string"}},
        }
        return Spec(
            "business-members",
            "Who belongs to the firm, with their roles, and what the role of the one who asks is.",
            arguments((), role={"type": "string", "maxLength": 20, "x-label": "Role"}),
            {
                "type": "object",
                "properties": {
                    "members": {"type": "array", "items": member},
                    "your_role": {"type": "string", "x-label": "your role", "x-importance": 3},
                },
            },
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        if not caller.verified:
            raise Refused(Reason.PERMISSION_DENIED, "That is only for members.")
        found = await self.members(caller.tenant)
        yours = next((role for name, role in found if name == caller.person), "")
        if not yours and caller.person != caller.owner:
            raise Refused(Reason.PERMISSION_DENIED, "That is only for members.")
        role = arguments.get("role", "")
        members = [{"name": name, "role": has} for name, has in found if role in ("", has)]
        return {"members": members[:MOST], "your_role": yours or "owner"}


@dataclass(frozen=True, slots=True)
class Stock:
    """The owner's stock, in three views: a search, one article, how many are left."""

    name: str
    desks: Desks

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        words = {
            "search-catalog": "Search the articles and resources that are for sale.",
            "fetch-sku": "One article by its SKU, with its price.",
            "get-inventory": "How many of an article are left.",
        }[self.name]
        sku = {"type": "string", "minLength": 1, "maxLength": 128, "x-label": "SKU"}
        query = {"type": "string", "maxLength": 200, "x-label": "About"}
        given = arguments((), query=query) if self.name == "search-catalog" else arguments(("sku",), sku=sku)
        result = {
            "type": "object",
            "properties": {"items": {"type": "array", "items": _ITEM}, "count": {"type": "integer"}},
            "required": ["items", "count"],
        }
        return Spec(self.name, words, given, result, doors=ANYWHERE)

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. Raises NotFound for a SKU that is none."""
        if not caller.owner:
            raise NotFound(Reason.NOT_FOUND, "This agent sells nothing: no handle's stock belongs to it.")
        listed = await self.desks(caller.owner).commerce.ListStockItems(commerce_pb2.ListStockItemsRequest())
        if self.name == "search-catalog":
            wanted = arguments.get("query", "").casefold().split()
            found = [each for each in listed.items if all(word in _about(each) for word in wanted)]
        else:
            found = [each for each in listed.items if each.item == arguments["sku"]]
            if not found:
                raise NotFound(Reason.NOT_FOUND, "There is no such SKU.", metadata={"code": "UNKNOWN_SKU"})
        return {"items": [_shown(each) for each in found[:MOST]], "count": len(found)}


def _about(item: commerce_pb2.StockItem) -> str:
    return f"{item.item} {item.title}".casefold()


def _shown(item: commerce_pb2.StockItem) -> dict[str, Any]:
    shown = {"sku": item.item, "title": item.title, "free": max(0, item.units - item.held)}
    return shown | {"price_minor": item.price_minor, "currency": item.currency} if item.currency else shown


def stock_tools(desks: Desks) -> tuple[Stock, ...]:
    """The three views."""
    return tuple(Stock(name, desks) for name in ("search-catalog", "fetch-sku", "get-inventory"))

"""What the rooms of an organisation show, to take away: each as CSV and as JSON, whole up to a bound.

A file is asked for page by page at the very calls that its room makes, so nobody gets by a file what the room
would refuse. That somebody took a file stands in the audit log.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from google.protobuf.timestamp_pb2 import Timestamp
from indai.desk.tenant_frame import COUNTERS, ROLES, TENANT, TenantFrame
from indai.v1 import desk_pb2
from indai.v1 import tenant_pb2 as pb
from indai.web.visit import Handler, Visit

DAYS: Final = 90
"""How far back numbers go in a file."""
MOST: Final = 10_000
"""Rows of a file; pages of calls are asked for until then."""
PAGE: Final = 200
_FORMULA: Final = re.compile(r"^[=+\-@\t\r]")

Row = Mapping[str, object]
Rows = Callable[[Visit], AsyncIterator[Row]]


@dataclass(frozen=True, slots=True)
class Table:
    """A file: its name, whom it is for, its columns and where its rows come from."""

    name: str
    roles: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Rows


class TenantFiles:
    """See the module."""

    def __init__(self, frame: TenantFrame) -> None:
        self._frame, self._desk = frame, frame.calls.tenant
        self._tables = (
            Table("figures", ROLES, ("what", "name", "count"), self._figures),
            Table("talks", ROLES, _TALK, self._talks),
            Table("board", ROLES, _CARD, self._board),
            Table("guardrails", ROLES, _EVENT, self._guardrails),
            Table("costs", COUNTERS, _USAGE, self._costs),
            Table("prompts", COUNTERS, _SIZE, self._prompts),
            Table("times", COUNTERS, ("stage", "turns", "p50_ms", "p95_ms"), self._times),
            Table("jobs", COUNTERS, _JOB, self._jobs),
            Table("channels", COUNTERS, _CHANNEL, self._channels),
            Table("acts", COUNTERS, ("time", "actor", "act", "target", "outcome"), self._acts),
        )

    def routes(self) -> Sequence[web.RouteDef]:
        """Two for each table."""
        return tuple(
            self._frame.site.member(f"/tenant/{TENANT}/{table.name}.{kind}", table.roles, make(table))
            for table in self._tables
            for kind, make in (("csv", self._csv), ("json", self._json))
        )

    def _csv(self, table: Table) -> Handler:
        async def answer(visit: Visit) -> web.StreamResponse:
            rows = [[_flat(row[name]) for name in table.columns] async for row in table.rows(visit)]
            await self._note(visit, table)
            return visit.file(csv(",".join(table.columns), rows), f"{table.name}.csv", "text/csv")

        return answer

    def _json(self, table: Table) -> Handler:
        async def answer(visit: Visit) -> web.StreamResponse:
            rows = [{name: row[name] for name in table.columns} async for row in table.rows(visit)]
            await self._note(visit, table)
            text = json.dumps(rows, ensure_ascii=False, indent=1)
            return visit.file(text.encode(), f"{table.name}.json", "application/json")

        return answer

    async def _note(self, visit: Visit, table: Table) -> None:
        audit, me, tenant = self._frame.site.audit, visit.signed_in, visit.named("tenant")
        await audit.record(me, "download", f"{tenant} {table.name}")
        if me.scope != tenant:  # who works for the whole node is seen at the tenant too
            await audit.note(tenant, f"{me.role} {me.name}", "download", table.name)

    async def _figures(self, visit: Visit) -> AsyncIterator[Row]:
        request = pb.GetTenantFiguresRequest(tenant=self._frame.tenant(visit), days=DAYS)
        found = await self._desk.GetTenantFigures(request, metadata=visit.metadata)
        for what in _FIGURES:
            for one in getattr(found, what):
                yield {"what": what, "name": one.name, "count": one.count}
        for place in found.places:
            yield {"what": "topic in region", "name": f"{place.topic}, {place.region}", "count": place.count}

    async def _talks(self, visit: Visit) -> AsyncIterator[Row]:
        request = pb.ListTenantConversationsRequest(tenant=self._frame.tenant(visit), page_size=PAGE)
        async for one in _pages(self._desk.ListTenantConversations, request, "conversations", visit):
            made = one.session
            yield {
                "conversation": made.session_id,
                "binding": made.binding,
                "status": made.status,
                "taken_by": one.taken_by,
                "waiting_since": moment(one.waiting_since),
                "answer_due": moment(one.due_time),
                "person": made.person,
                "channels": " ".join(made.channels),
                "language": made.language,
                "begun": moment(made.create_time),
                "newest": moment(made.update_time),
            }

    async def _board(self, visit: Visit) -> AsyncIterator[Row]:
        request = pb.ListBoardRequest(tenant=self._frame.tenant(visit), all=True)
        offices = (await self._desk.ListBoard(request, metadata=visit.metadata)).offices
        for office in offices:
            request.office = office
            request.page_token = ""
            async for card in _pages(self._desk.ListBoard, request, "cards", visit):
                one = card.request
                yield {
                    "reference": one.reference,
                    "office": card.office,
                    "department": one.department,
                    "category": one.category,
                    "subject": one.subject,
                    "text": one.text,
                    "from": one.peer,
                    "state": one.state,
                    "stage": one.stage,
                    "outcome": one.outcome,
                    "due": moment(one.due_time),
                    "overdue": card.overdue,
                }

    async def _guardrails(self, visit: Visit) -> AsyncIterator[Row]:
        request = pb.ListGuardrailEventsRequest(tenant=self._frame.tenant(visit), page_size=PAGE)
        async for one in _pages(self._desk.ListGuardrailEvents, request, "events", visit):
            yield {
                "time": moment(one.time),
                "conversation": one.session_id,
                "turn": one.turn_id,
                "binding": one.binding,
                "tier": one.tier,
                "rule": one.rule_id,
                "severity": one.severity,
                "stopped": one.blocked,
                "sentence": one.sentence,
            }

    async def _costs(self, visit: Visit) -> AsyncIterator[Row]:
        for one in (await self._usage(visit)).usage:
            row = {name: getattr(one, name) for name in _USAGE if name != "tokens_by_tier"}
            tiers = {tier.lower(): one.tokens_by_tier[tier] for tier in sorted(one.tokens_by_tier)}
            yield row | {"tokens_by_tier": tiers}

    async def _prompts(self, visit: Visit) -> AsyncIterator[Row]:
        for one in (await self._usage(visit)).sizes:
            yield {name: getattr(one, name) for name in _SIZE}

    async def _times(self, visit: Visit) -> AsyncIterator[Row]:
        request = pb.GetStageTimesRequest(tenant=self._frame.tenant(visit), days=DAYS)
        for one in (await self._desk.GetStageTimes(request, metadata=visit.metadata)).stages:
            p50, p95 = round(one.p50_ms, 2), round(one.p95_ms, 2)
            yield {"stage": one.stage, "turns": one.turns, "p50_ms": p50, "p95_ms": p95}

    async def _jobs(self, visit: Visit) -> AsyncIterator[Row]:
        request = pb.ListTenantWorkRequest(tenant=self._frame.tenant(visit))
        for one in (await self._desk.ListTenantWork(request, metadata=visit.metadata)).jobs:
            row = {name: getattr(one, name) for name in ("source", "task", "state", "attempts", "reason")}
            yield row | {"job": one.job_id, "created": moment(one.create_time)}

    async def _channels(self, visit: Visit) -> AsyncIterator[Row]:
        request = pb.ListTenantChannelsRequest(tenant=self._frame.tenant(visit))
        for one in (await self._desk.ListTenantChannels(request, metadata=visit.metadata)).channels:
            status, channel = one.status, one.status.channel
            row = {name: getattr(channel, name) for name in ("name", "provider", "account", "trouble")}
            yield row | {
                "waiting": status.waiting,
                "unread": status.unread,
                "dead": status.dead,
                "last_in": moment(status.last_in_time),
                "last_out": moment(status.last_out_time),
            }

    async def _acts(self, visit: Visit) -> AsyncIterator[Row]:
        request = desk_pb2.ListActsRequest(scope=self._frame.tenant(visit), page_size=PAGE)
        async for one in _pages(self._frame.calls.desk.ListActs, request, "acts", visit):
            row = {name: getattr(one, name) for name in ("actor", "act", "target", "outcome")}
            yield row | {"time": moment(one.time)}

    async def _usage(self, visit: Visit) -> pb.ListTenantUsageResponse:
        request = pb.ListTenantUsageRequest(tenant=self._frame.tenant(visit), days=DAYS)
        return await self._desk.ListTenantUsage(request, metadata=visit.metadata)


_FIGURES: Final = (
    "days",
    "topics",
    "regions",
    "languages",
    "zones",
    "channels",
    "bindings",
    "moods",
    "endings",
)
_TALK: Final = (
    "conversation",
    "binding",
    "status",
    "taken_by",
    "waiting_since",
    "answer_due",
    "person",
    "channels",
    "language",
    "begun",
    "newest",
)
_CARD: Final = (
    "reference",
    "office",
    "department",
    "category",
    "subject",
    "text",
    "from",
    "state",
    "stage",
    "outcome",
    "due",
    "overdue",
)
_EVENT: Final = (
    "time",
    "conversation",
    "turn",
    "binding",
    "tier",
    "rule",
    "severity",
    "stopped",
    "sentence",
)
_USAGE: Final = (
    "day",
    "binding",
    "calls",
    "failed",
    "input_tokens",
    "cache_hit_tokens",
    "output_tokens",
    "cost_micros",
    "currency",
    "tokens_by_tier",
)
_SIZE: Final = ("binding", "tier", "calls", "p95_tokens", "max_tokens", "ceiling_tokens")
_JOB: Final = ("job", "source", "task", "state", "attempts", "reason", "created")
_CHANNEL: Final = (
    "name",
    "provider",
    "account",
    "trouble",
    "waiting",
    "unread",
    "dead",
    "last_in",
    "last_out",
)


async def _pages(call: Callable[..., Awaitable[Any]], request: Any, name: str, visit: Visit) -> Any:
    """What a listing has, page after page, up to MOST."""
    given = 0
    while given < MOST:
        found = await call(request, metadata=visit.metadata)
        for one in getattr(found, name)[: MOST - given]:
            given += 1
            yield one
        request.page_token = found.next_page_token
        if not request.page_token:
            return


def _flat(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict) else value


def moment(stamp: Timestamp) -> str:
    """RFC 3339, UTC; empty for none."""
    return stamp.ToJsonString() if stamp.seconds else ""


def csv(header: str, rows: Iterable[Iterable[object]]) -> bytes:
    """A table as a file (RFC 4180). What a spreadsheet would run as a formula is kept from that."""
    lines = [header, *(",".join(_cell(str(value)) for value in row) for row in rows)]
    return ("\r\n".join(lines) + "\r\n").encode()


def _cell(text: str) -> str:
    safe = f"'{text}" if _FORMULA.match(text) and not text.lstrip("-").replace(".", "", 1).isdigit() else text
    return '"' + safe.replace('"', '""') + '"' if re.search(r'[",\r\n]', safe) else safe

"""Records that agents keep for a team, and the tools over them: which there are is data (`records.yaml`).

One store and four ways to use it stand for a dozen tools of the catalogue: keep a record, count by status,
count those that fit, rate by points. A record belongs to the owner whose agent took it, or to the
organisation at a door of its own. Health fields are kept in the record alone and in no log.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

import asyncpg
import yaml
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.storage.pool import transaction
from indai.tools.desk import request_id
from indai.tools.intents.common import TIME, WHEN, zone_of
from indai.tools.store import holder_of
from indai.tools.values import Caller, Effect, Progress, Spec, Tool
from indai.tools.when import read_when
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

NEWEST: Final = (1 << 62, uuid.UUID(int=(1 << 128) - 1))
DAY_MS: Final = 86_400_000
MAX_A_DAY: Final = 2_000  # of one holder: visitors make them
_COUNTED: Final = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "x-importance": 3},
        "by_status": {"type": "object", "x-label": "", "x-importance": 3},
    },
    "required": ["total"],
}
_SCORED: Final = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 0, "maximum": 100, "x-importance": 3},
        "because": {"type": "array", "items": {"type": "string"}, "x-label": "because"},
    },
    "required": ["score"],
}
_TODAY = "SELECT count(*) FROM tools.records WHERE holder = $1 AND created_ms > $2"
_INSERT = """
    INSERT INTO tools.records
        (id, holder, tenant, binding, kind, status, person, session, data, at_ms, created_ms, updated_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) ON CONFLICT (id) DO NOTHING
"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Kind(_Strict):
    """What a kind of record holds. The first status is what a new one has."""

    statuses: tuple[str, ...] = Field(min_length=1)
    fields: dict[str, dict[str, Any]]
    time: Literal["", "required"] = ""


class Points(_Strict):
    """Points for a field: that is there, that is something, or that is at least so much."""

    field: str
    points: int = Field(ge=1, le=100)
    equal: str | None = Field(default=None, alias="is")
    least: int | None = None


class Use(_Strict):
    """One tool over a kind."""

    does: Literal["keep", "count", "size", "score"]
    kind: str
    description: str
    doors: frozenset[Literal["private", "public", "distribution"]]
    required: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    verified: bool = False
    points: tuple[Points, ...] = ()


class Catalogue(_Strict):
    """The file."""

    kinds: dict[str, Kind]
    tools: dict[str, Use]

    @model_validator(mode="after")
    def _whole(self) -> Catalogue:
        for name, use in self.tools.items():
            if use.kind not in self.kinds:
                raise ValueError(f"{name} uses the kind {use.kind}, which is not there")
            known = {*self.kinds[use.kind].fields, "when", "time"}
            named = {*use.required, *use.by, *(each.field for each in use.points)}
            if named - known:
                raise ValueError(
                    f"{name} names fields that are not there: {', '.join(sorted(named - known))}"
                )
        return self


@cache
def catalogue() -> Catalogue:
    """The kinds and tools that come with the program."""
    return read_catalogue(
        resources.files(__package__).joinpath("records.yaml").read_text("utf-8"), "records.yaml"
    )


def read_catalogue(text: str, where: str) -> Catalogue:
    """A file of kinds and tools. Raises InvalidInput that names the first wrong place."""
    try:
        return Catalogue.model_validate(yaml.safe_load(text))
    except yaml.YAMLError:
        problem = "it is no YAML"
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    raise InvalidInput(
        Reason.INVALID_ARGUMENT, f"{where} cannot be used: {problem}.", hint="see docs/tools.md"
    )


class RecordStore:
    """The rows. Every query names the holder, and row-level security holds it to that."""

    def __init__(self, pool: asyncpg.Pool, clock: Callable[[], int]) -> None:
        self._pool = pool
        self._clock = clock

    async def keep(
        self,
        caller: Caller,
        id: uuid.UUID,
        kind: str,
        status: str,
        data: Mapping[str, Any],
        at_ms: int | None,
    ) -> None:
        """One record; the same id again is the same."""
        async with transaction(self._pool, (holder_of(caller),)) as connection:
            since = self._clock() - DAY_MS
            if await connection.fetchval(_TODAY, holder_of(caller), since) >= MAX_A_DAY:
                raise Refused(Reason.RATE_LIMITED, "Too much was taken down today.", hint="try tomorrow")
            await connection.execute(
                _INSERT,
                id,
                holder_of(caller),
                caller.tenant,
                caller.binding,
                kind,
                status,
                caller.person,
                caller.session,
                json.dumps(data, ensure_ascii=False),
                at_ms,
                self._clock(),
            )

    async def counted(self, caller: Caller, kind: str, fits: Mapping[str, str]) -> dict[str, int]:
        """How many of a kind by status, whose texts equal those of `fits` whatever their case."""
        names, values = list(fits), [fits[name].casefold() for name in fits]
        async with transaction(self._pool, (holder_of(caller),)) as connection:
            rows = await connection.fetch(
                "SELECT status, count(*) AS n FROM tools.records r WHERE holder = $1 AND kind = $2"
                " AND NOT EXISTS (SELECT FROM unnest($3::text[], $4::text[]) AS f (name, value)"
                " WHERE lower(coalesce(r.data ->> f.name, '')) <> f.value) GROUP BY status",
                holder_of(caller),
                kind,
                names,
                values,
            )
        return {row["status"]: row["n"] for row in rows}

    async def listed(
        self, holder: str, kind: str, limit: int = 100, before: tuple[int, uuid.UUID] = NEWEST
    ) -> Sequence[asyncpg.Record]:
        """A holder's records of a kind or of all, newest first, before (created_ms, id)."""
        async with transaction(self._pool, (holder,)) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT * FROM tools.records WHERE holder = $1 AND ($2 = '' OR kind = $2)"
                " AND (created_ms, id) < ($4, $5) ORDER BY created_ms DESC, id DESC LIMIT $3",
                holder,
                kind,
                limit,
                *before,
            )
        return rows

    async def move(self, holder: str, id: uuid.UUID, status: str) -> asyncpg.Record:
        """A record at another status of its kind. Raises NotFound, and InvalidInput for a status that its
        kind does not have."""
        async with transaction(self._pool, (holder,)) as connection:
            row = await connection.fetchrow(
                "SELECT kind FROM tools.records WHERE holder = $1 AND id = $2 FOR UPDATE", holder, id
            )
            if row is None:
                raise NotFound(Reason.NOT_FOUND, "There is no such record.", hint="indai tool records")
            known = catalogue().kinds.get(row["kind"])
            if known is not None and status not in known.statuses:
                said = ", ".join(known.statuses)
                raise InvalidInput(
                    Reason.INVALID_ARGUMENT, f"A {row['kind']} has another status.", hint=f"one of: {said}"
                )
            return await connection.fetchrow(
                "UPDATE tools.records SET status = $3, updated_ms = $4 WHERE holder = $1 AND id = $2"
                " RETURNING *",
                holder,
                id,
                status,
                self._clock(),
            )


@dataclass(frozen=True, slots=True)
class RecordTool:
    """One tool of the catalogue."""

    name: str
    use: Use
    kind: Kind
    store: RecordStore

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        keeps = self.use.does == "keep"
        result = {"keep": self._kept(), "count": _COUNTED, "size": _COUNTED, "score": _SCORED}[self.use.does]
        return Spec(
            self.name,
            self.use.description,
            self._arguments(),
            result,
            Effect.ACT if keeps else Effect.READ,
            doors=frozenset(self.use.doors),
        )

    def _arguments(self) -> dict[str, Any]:
        names = {"keep": self.kind.fields, "count": (), "size": self.use.by, "score": self._rated()}[
            self.use.does
        ]
        properties = {name: _schema(self.kind.fields[name]) for name in names}
        if self.use.does == "keep" and self.kind.time:
            properties |= {"when": WHEN, "time": TIME}
        return {
            "type": "object",
            "properties": properties,
            "required": list(self.use.required),
            "additionalProperties": False,
        }

    def _rated(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.field for each in self.use.points))

    def _kept(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "kept": {"type": "string", "x-importance": 3},
                "status": {"type": "string"},
                "at_ms": {"type": "integer", "x-format": "local_time", "x-label": "when", "x-importance": 3},
                "record": {"type": "string", "x-hidden": True},
            },
            "required": ["kept", "status", "record"],
        }

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        if self.use.verified and not caller.verified:
            raise Refused(Reason.PERMISSION_DENIED, "That is only for the team.")
        if self.use.does == "keep":
            return await self._keep(caller, arguments)
        if self.use.does == "score":
            return self._score(arguments)
        found = await self.store.counted(
            caller, self.use.kind, {name: str(arguments[name]) for name in arguments}
        )
        return {"total": sum(found.values()), "by_status": found}

    async def _keep(self, caller: Caller, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        data = {name: value for name, value in arguments.items() if name in self.kind.fields}
        at_ms = None
        if arguments.get("when") or arguments.get("time"):
            said = arguments.get("when", ""), arguments.get("time", "")
            at_ms = read_when(*said, 30, caller.now_ms, zone_of(caller)).windows[0].start_ms
        id = uuid.UUID(request_id(caller, self.name, json.dumps(dict(arguments), sort_keys=True)))
        await self.store.keep(caller, id, self.use.kind, self.kind.statuses[0], data, at_ms)
        result = {"kept": self.use.kind, "status": self.kind.statuses[0], "record": str(id)}
        return result if at_ms is None else result | {"at_ms": at_ms}

    def _score(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The best points of each field, added up."""
        best: dict[str, tuple[int, str]] = {}
        for rule in self.use.points:
            value = arguments.get(rule.field)
            if _earns(rule, value):
                label = str(self.kind.fields[rule.field].get("x-label", rule.field))
                best[rule.field] = max(
                    best.get(rule.field, (0, "")), (rule.points, f"{label}: {rule.points}")
                )
        total = sum(points for points, _ in best.values())
        return {"score": min(total, 100), "because": [words for _, words in best.values()]}


def record_tools(store: RecordStore, known: Catalogue | None = None) -> tuple[Tool, ...]:
    """A tool for each use that the catalogue names."""
    known = known or catalogue()
    return tuple(RecordTool(name, use, known.kinds[use.kind], store) for name, use in known.tools.items())


def _earns(rule: Points, value: Any) -> bool:
    if value in (None, ""):
        return False
    if rule.equal is not None:
        return bool(value == rule.equal)
    return rule.least is None or (isinstance(value, int) and value >= rule.least)


def _schema(field: Mapping[str, Any]) -> dict[str, Any]:
    """The field's schema; a health field is a secret to every log."""
    made = {key: value for key, value in field.items() if key != "health"}
    return made | {"x-secret": True} if field.get("health") else made

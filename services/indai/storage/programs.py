"""Running the two programs of Postgres: `initdb`, and the server itself.

Both run as the cluster's account, in a clean environment, with our settings on the command line: a new
version of this program brings its settings with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.storage.cluster import Account, socket_directory, write_private
from indai.storage.postmaster import Postmaster

SUPERUSER = "postgres"

# What marks the line, among those that a program wrote before it ended, that says why.
_TELLING = ("FATAL:", "PANIC:", "error:", "terminated by")

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
    # After a crash everything is flushed first; one system call for it instead of a thousand, where there is
    # one.
    **({"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}),
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # By default a failing statement is logged with its literals, which can be somebody's message.
    "log_min_error_statement": "panic",
}

_LOG_LIMIT_BYTES = 4 << 20

# Neither our secrets nor PG* variables go to the programs.
_ENVIRONMENT: Mapping[str, str] = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

_SWITCH = """
import os, sys
uid, gid = map(int, sys.argv[1:3])
os.setgroups([])
os.setgid(gid)
os.setuid(uid)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Launch:
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
                [*_as_account(self._account), self._binaries / "postgres", "-D", self.pgdata, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.pgdata,
                env=_ENVIRONMENT,
            )

    def may_be_tried_again(self) -> bool:
        """Whether it only met the last processes of a killed server, which end as soon as they notice."""
        return "shared memory block" in self._said()

    def error(self) -> IndaiError:
        """Why the server gave up."""
        return server_error(self._said(), hint=f"See {self.log}.")

    def _said(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


def initialise(base: Path, binaries: Path, account: Account, password: str, *, sync: bool) -> None:
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
        *_as_account(account),
        *(binaries / "initdb", "-D", staging / "cluster", "-U", SUPERUSER),
        *("--auth-local=scram-sha-256", "--auth-host=reject", f"--pwfile={password_file}"),
        *("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-locale"),
        "--no-instructions",
        *(() if sync else ("--no-sync",)),
    ]
    done = subprocess.run(  # noqa: S603 - fixed program, our own arguments
        initdb, capture_output=True, text=True, check=False, cwd=staging, env=_ENVIRONMENT
    )
    if done.returncode:
        shutil.rmtree(staging, ignore_errors=True)
        raise server_error(done.stderr or f"initdb ended with status {done.returncode}")
    (staging / "cluster").rename(base / "cluster")
    shutil.rmtree(staging)


def _as_account(account: Account) -> list[str | Path]:
    """What goes before a command so that it runs as the account.

    Not `Popen(user=…)`: that forks, and gRPC's threads of this process may then end the child before it
    becomes the program.
    """
    if not account.switch:
        return []
    return [sys.executable, "-I", "-S", "-c", _SWITCH, str(account.uid), str(account.gid)]


def server_error(output: str, hint: str = "") -> IndaiError:
    """What initdb or the server said before it gave up, as one of our errors."""
    if "No space left on device" in output:
        return Unavailable(
            Reason.STORAGE_FULL,
            "The disk with the data directory is full.",
            hint="Free some space and start again.",
        )
    lines = output.strip().splitlines()
    telling = [line for line in lines if any(word in line for word in _TELLING)] or lines
    last = telling[-1].rpartition("FATAL:")[2].strip() if telling else "it gave no reason"
    return Unavailable(Reason.DATABASE_UNAVAILABLE, f"Postgres did not start: {last}.", hint=hint)

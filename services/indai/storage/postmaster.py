"""A running Postgres server, found through its `postmaster.pid`.

The lines of that file, by the server's own convention: pid, data directory, start time, port, socket
directory, listen address, shared memory key, status. A file can outlive its server, and its pid may by then
be another program's, so the process is asked for its command line before it is believed.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

import psutil

_SOCKET_LINE, _STATUS_LINE = 4, 7
_FAST_SHUTDOWN_S = 30


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What a pid file says; `socket_dir` is None until the server has made its socket.

    `accepts` is whether it said that it takes connections, not whether it still lives.
    """

    pid: int
    pgdata: Path
    socket_dir: Path | None
    accepts: bool

    def is_running(self) -> bool:
        """Whether the process is a live Postgres server of this data directory."""
        try:
            process = psutil.Process(self.pid)
            return process.status() != psutil.STATUS_ZOMBIE and str(self.pgdata) in process.cmdline()
        except psutil.Error:
            return False

    def remove_if_misleading(self) -> None:
        """Remove the file if its pid is now another program's, which Postgres would take for a running
        server.

        Otherwise it stays: Postgres finds through it the shared memory of a killed server's last processes,
        and must not start beside them.
        """
        in_use = any(process.info["cwd"] == str(self.pgdata) for process in psutil.process_iter(["cwd"]))
        if psutil.pid_exists(self.pid) and not in_use:
            (self.pgdata / "postmaster.pid").unlink(missing_ok=True)

    async def stop(self, *, immediately: bool = False) -> None:
        """Fast shutdown (open transactions roll back, a checkpoint is written); an immediate one if that
        hangs.
        """
        for how in (signal.SIGQUIT,) if immediately else (signal.SIGINT, signal.SIGQUIT):
            if not self.is_running():
                return
            try:
                process = psutil.Process(self.pid)
                process.send_signal(how)
                await asyncio.to_thread(process.wait, _FAST_SHUTDOWN_S)
            except psutil.NoSuchProcess:
                return
            except psutil.TimeoutExpired:
                continue


def read_pid_file(pgdata: Path) -> Postmaster | None:
    """The server that `postmaster.pid` names, running or not; None without a readable file."""
    try:
        lines = (pgdata / "postmaster.pid").read_text().splitlines()
        socket_dir = lines[_SOCKET_LINE] if len(lines) > _SOCKET_LINE else ""
        status = lines[_STATUS_LINE].strip() if len(lines) > _STATUS_LINE else ""
        return Postmaster(int(lines[0]), pgdata, Path(socket_dir) if socket_dir else None, status == "ready")
    except (FileNotFoundError, IndexError, ValueError):
        return None

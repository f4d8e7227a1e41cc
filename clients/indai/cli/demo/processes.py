"""The demonstration's processes: each an `indai up` of its own, with its own data, keys, Postgres and log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from indai.cli.demo.stage import DemoFailed
from indai.cli.home import Home
from indai.protocol.errors import IndaiError
from indai.storage.embedded import EmbeddedPostgres

READY_S = 90.0
_KERNELS_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT, _FEWEST = 20_000, 1_000
STOP_S = 20.0
_OURS = (
    "INDAI_DATA",
    "INDAI_HANDLE",
    "INDAI_BECAUSE",
    "INDAI_DATABASE_URL",
    "INDAI_KILL_AT",
    "INDAI_CELL_TOKEN",
)


class Process:
    """One child. `name` names its log; `options` are those of `indai up`."""

    def __init__(self, name: str, data: Path, logs: Path, options: Sequence[str]) -> None:
        self.name = name
        self.home = Home(data)
        self._log = logs / f"{name}.log"
        self._options = tuple(options)
        self._child: asyncio.subprocess.Process | None = None

    async def start(self, kill_at: str = "") -> None:
        """Start, and wait until it serves. With `kill_at` it will SIGKILL itself at that point."""
        _make_private(self.home.path)
        environment = {name: value for name, value in os.environ.items() if name not in _OURS}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        if kill_at:
            environment["INDAI_KILL_AT"] = kill_at
        arguments = ("-m", "indai.cli.main", "up", "--json", "--log-format", "json", "--log-level", "info")
        with self._log.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                *("--data", str(self.home.path), *self._options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the demonstration, which then stops them in order
            )
        await self._ready()

    async def _ready(self) -> None:
        said: dict[str, Any] = {}
        if self._child is not None and self._child.stdout is not None:
            with contextlib.suppress(TimeoutError, ValueError):
                said = json.loads(await asyncio.wait_for(self._child.stdout.readline(), READY_S))
        if "roles" not in said:
            why = said.get("error", {}).get("message", "it said nothing")
            raise DemoFailed(f"the process {self.name} did not start: {why} (see {self._log})")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid if self._child else 0

    async def killed(self, within_s: float = 30.0) -> bool:
        """Wait for its end; True when it was a SIGKILL."""
        if self._child is None:
            return False
        try:
            return await asyncio.wait_for(self._child.wait(), within_s) == -signal.SIGKILL
        except TimeoutError:
            return False

    async def stop(self) -> None:
        """SIGTERM, and the end. Its Postgres ends with it; one that was killed leaves it behind for us."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(child.wait(), STOP_S)
            except TimeoutError:
                child.kill()
                await child.wait()
        if child.returncode != 0:
            await self._end_postgres()

    async def _end_postgres(self) -> None:
        with contextlib.suppress(IndaiError):
            server = EmbeddedPostgres(self.home.path / "postgres")
            await server.start()
            await server.stop()


def free_ports(count: int) -> list[int]:
    """Neighbouring ports that nobody listens on. None of those that the kernel gives out itself: a connection
    of anybody's could have one before its process listens, or while that is being started again. Two
    demonstrations at once begin to look at different places."""
    blocks = (_kernels_ports() - _FIRST_PORT) // count
    for number in range(blocks):
        first = _FIRST_PORT + (os.getpid() + number) % blocks * count
        ports = list(range(first, first + count))
        if all(map(_is_free, ports)):
            return ports
    raise DemoFailed("there are not enough free ports on this machine")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _kernels_ports() -> int:
    """From where on the kernel gives out ports (Linux; elsewhere RFC 6335's dynamic ones)."""
    try:
        return max(int(_KERNELS_PORTS.read_text().split()[0]), _FIRST_PORT + _FEWEST)
    except OSError:
        return 49_152


def _make_private(path: Path) -> None:
    # As root, Postgres runs under another account, which must be able to pass through; it can't list it.
    path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)

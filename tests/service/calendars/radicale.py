"""A real CalDAV server (Radicale) as a process on loopback, with users who own calendars."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from indai.node.calendar.dav import Login

from tests.ports import free_port

PASSWORD = "correct horse"
_CONFIG = """\
[server]
hosts = 127.0.0.1:{port}
[auth]
type = htpasswd
htpasswd_filename = {base}/users
htpasswd_encryption = plain
delay = 0
[rights]
type = from_file
file = {base}/rights
[storage]
filesystem_folder = {base}/storage
[logging]
level = info
"""
_RIGHTS = """\
[root]
user: .+
collection:
permissions: R
[principal]
user: .+
collection: {user}
permissions: RW
[held]
user: .+
collection: {user}/readonly
permissions: r
[own]
user: .+
collection: {user}/[^/]+
permissions: rw
"""


@dataclass
class Radicale:
    """A running server. `stop` and `start` keep its data and its port."""

    base: Path
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self.port = self.port or free_port()
        (self.base / "config").write_text(_CONFIG.format(base=self.base, port=self.port))
        with (self.base / "log").open("ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "radicale", "-C", str(self.base / "config")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        while b"Radicale server ready" not in (self.base / "log").read_bytes()[begin:]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(0.05)
                raise AssertionError(f"radicale ended with {status}: {(self.base / 'log').read_text()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def add_user(self, user: str) -> None:
        with (self.base / "users").open("a") as users:
            users.write(f"{user}:{PASSWORD}\n")

    async def request(
        self, user: str, method: str, path: str, body: bytes | str = b"", **headers: str
    ) -> tuple[int, bytes]:
        """What the owner's own calendar program does."""
        sent = {"Authorization": Login(user, PASSWORD).header(), **headers}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.url}{path}", data=body, headers=sent) as answer,
        ):
            return answer.status, await answer.read()

    async def make_calendar(self, user: str, name: str) -> str:
        """An empty calendar; its path."""
        status, data = await self.request(user, "MKCALENDAR", f"{user}/{name}/")
        assert status == 201, data
        return f"/{user}/{name}/"

    async def save(self, user: str, path: str, ics: bytes | str) -> None:
        """Put an event as its owner's program does."""
        kind = {"Content-Type": "text/calendar"}
        status, data = await self.request(user, "PUT", path.lstrip("/"), ics, **kind)
        assert status in (201, 204), data


@contextlib.contextmanager
def radicale(base: Path) -> Iterator[Radicale]:
    """A server with its data under `base`."""
    (base / "rights").write_text(_RIGHTS)
    (base / "users").touch()
    server = Radicale(base)
    server.start()
    try:
        yield server
    finally:
        server.stop()

"""The containers' file: it is what Compose accepts, and each service's very command works as a process."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.ports import free_port

if TYPE_CHECKING:
    from tests.conftest import Database

PROJECT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# In an order in which each finds what it depends on.
ROLES = ["registry", "north-policy", "north-ledger", "north-llm", "north-memory", "north"]
START_S, POLL_S = 120, 0.2
ANYWHERE = "0.0.0.0"  # noqa: S104 - what a container binds to

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def _compose_exists() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _compose_exists(), reason="no docker compose here")
def test_compose_accepts_the_file(tmp_path: Path) -> None:
    for name in ("Dockerfile", "docker-compose.yml"):
        shutil.copy(PROJECT / name, tmp_path)
    shutil.copytree(PROJECT / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    subprocess.run(["sh", "deploy/secrets.sh"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(
        ["docker", "compose", "config", "--quiet"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_no_secret_stands_in_the_file_and_nobody_runs_as_root() -> None:
    for name, service in SERVICES.items():
        assert "environment" not in service, name
        assert service.get("user", "indai") != "0:0", name
    assert re.search(r"^USER indai$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)


def test_every_dependency_and_volume_is_there() -> None:
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name
        named = {mount.split(":")[0] for mount in service.get("volumes", ()) if not mount.startswith(".")}
        assert named <= set(COMPOSE["volumes"]), name


def test_both_nodes_are_alike() -> None:
    north = {name: repr(each) for name, each in SERVICES.items() if name.startswith("north")}
    south = {name: repr(each) for name, each in SERVICES.items() if name.startswith("south")}
    assert south == {
        name.replace("north", "south"): text.replace("north", "south") for name, text in north.items()
    }
    assert {name for name in SERVICES if not name.endswith("-db")} - south.keys() == {*ROLES, "network"}


def test_secrets_are_made_once_and_for_their_owner_only(tmp_path: Path) -> None:
    shutil.copy(PROJECT / "deploy" / "secrets.sh", tmp_path)
    run = ["sh", str(tmp_path / "secrets.sh")]
    subprocess.run(run, check=True, capture_output=True)
    first = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    subprocess.run(run, check=True, capture_output=True)
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == first
    assert {f"deploy/secrets/{name}" for name in first} == {each["env_file"] for each in _with_secrets()}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "secrets").iterdir())
    assert re.search(r"^INDAI_CELL_TOKEN=indai_[A-Za-z0-9_-]{43}$", first["north.env"], re.MULTILINE)


def _with_secrets() -> list[dict[str, Any]]:
    return [service for service in SERVICES.values() if "env_file" in service]


@dataclass
class Stack:
    """The services as processes: a service's name and port stand for a free port of this machine."""

    base: Path
    environments: dict[str, dict[str, str]]
    ports: dict[tuple[str, str], int]
    running: dict[str, asyncio.subprocess.Process]

    def command(self, name: str) -> list[str]:
        """The service's command with container paths and addresses put into this machine's."""
        return [self._here(name, word) for word in SERVICES[name]["command"]]

    def _here(self, name: str, word: str) -> str:
        word = word.replace("/network/", f"{self.base}/registry/")

        def local(found: re.Match[str]) -> str:
            host = name if found[1] == ANYWHERE else found[1]
            return f"{ANYWHERE}:{self._port(host, found[2])}"

        return re.sub(r"\b(0\.0\.0\.0|[a-z]+(?:-[a-z]+)?):(\d{4})\b", local, word)

    def _port(self, host: str, port: str) -> int:
        if (host, port) not in self.ports:
            self.ports[host, port] = free_port()
        return self.ports[host, port]

    async def indai(self, name: str, *words: str) -> asyncio.subprocess.Process:
        """`docker compose exec NAME indai WORDS…`, as it were."""
        log = (self.base / f"{name}.log").open("ab")
        with log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "indai.cli.main", *words),
                env=self.environments[name] | {"INDAI_DATA": str(self.base / name)},
                stdout=log,
                stderr=log,
            )

    async def start(self, name: str) -> None:
        """Start a service and wait until its health check passes."""
        # The owner's port is nobody's business outside its container: any free one does here.
        extra = ["--listen", f"owner=127.0.0.1:{self._port(name, 'owner')}"] if name == "north" else []
        process = self.running[name] = await self.indai(name, *self.command(name), *extra)
        check = SERVICES[name]["healthcheck"]["test"]
        assert check[:2] == ["CMD", "indai"]
        async with asyncio.timeout(START_S):
            # Starting the check takes a second of CPU: not before there is anything to check.
            while (
                not (self.base / name / "run.json").exists()
                or await (await self.indai(name, *check[2:])).wait()
            ):
                assert process.returncode is None, self.said(name)
                await asyncio.sleep(POLL_S)

    async def stop(self, name: str, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit status."""
        process = self.running.pop(name)
        if process.returncode is None:
            process.send_signal(number)
        return await process.wait()

    def said(self, name: str) -> str:
        """The end of a service's log."""
        return (self.base / f"{name}.log").read_text()[-3000:]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """What the script makes."""
    shutil.copy(PROJECT / "deploy" / "secrets.sh", tmp_path)
    subprocess.run(["sh", str(tmp_path / "secrets.sh")], check=True, capture_output=True)
    return tmp_path / "secrets"


@pytest.fixture
async def stack(
    tmp_path: Path, secrets: Path, make_database: Callable[[], Awaitable[Database]]
) -> AsyncIterator[Stack]:
    """Each cell with a database of its own, and otherwise the environment of its file of secrets."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("INDAI_")}
    plain["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    cells = {}
    for cell in ("registry", "north"):
        database = await make_database()
        lines = (secrets / f"{cell}.env").read_text().splitlines()
        made_secrets = dict(line.split("=", 1) for line in lines)
        urls = {"INDAI_DATABASE_URL": database.dsn, "INDAI_DATABASE_ADMIN_URL": database.admin_dsn}
        assert urls.keys() <= made_secrets.keys()
        cells[cell] = plain | made_secrets | urls
    made = Stack(tmp_path, {name: cells[name.partition("-")[0]] for name in ROLES}, {}, {})
    yield made
    for name in reversed(list(made.running)):
        await made.stop(name)


async def test_the_services_come_up_as_processes_and_start_again(stack: Stack) -> None:
    for name in ROLES:
        await stack.start(name)
    assert await (await stack.indai("north", "handle", "claim", "ind.ai/alice")).wait() == 0, stack.said(
        "north"
    )

    # A node that was killed starts again on what it left, its neighbours in place.
    await stack.stop("north", signal.SIGKILL)
    await stack.start("north")
    await stack.stop("north-ledger")
    await stack.start("north-ledger")
    assert await (await stack.indai("north", "threads", "--as", "ind.ai/alice")).wait() == 0, stack.said(
        "north"
    )
    for name in reversed(ROLES):
        assert await stack.stop(name) == 0, stack.said(name)

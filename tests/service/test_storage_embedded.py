"""The embedded server: private, adopted after its owner's death, recovered after its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import asyncpg
import psutil
import pytest
from indai.protocol.errors import InvalidInput, Reason, Unavailable
from indai.storage import cluster, embedded
from indai.storage.cluster import Account, postgres_account, postgres_binaries
from indai.storage.embedded import EmbeddedPostgres, ServerInfo
from indai.storage.postmaster import read_pid_file
from indai.storage.programs import server_error

_OWNER = """
import asyncio, sys, time
from pathlib import Path
from indai.storage.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), {"fsync": "off"})
asyncio.run(server.start())
print(server.pid, flush=True)
time.sleep(60)
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")


@pytest.fixture
def start_server(server_home: Path) -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Makes servers without fsync, for speed; they are destroyed at the end."""
    made: list[EmbeddedPostgres] = []

    def make(data_dir: Path = server_home / "postgres") -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(data_dir, {"fsync": "off"}))
        return made[-1]

    yield make
    for server in made:
        asyncio.run(server.destroy())


async def ask(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_a_server_is_reachable_by_its_owner_only(
    start_server: Callable[..., EmbeddedPostgres], server_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDAI_NODE_KEY", "a secret of ours")
    server = start_server()
    info = await server.start()
    data_dir = server_home / "postgres"
    assert await ask(info.dsn, "SHOW listen_addresses") == ""
    assert info.socket_dir.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(info.socket_dir)) < 80
    assert (data_dir / "postgres.credentials").stat().st_mode & 0o777 == 0o600
    assert not await ask(info.dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    assert not await ask(info.admin_dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    assert await ask(info.dsn, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    assert info.password not in repr(info)
    # The password is asked for, and the wrong one refused, on the socket too.
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(info.url(info.user, "wrong", info.database))
    assert os.getsid(server.pid or 0) != os.getsid(0)  # Ctrl-C in our terminal is not for the server
    assert "INDAI_NODE_KEY" not in psutil.Process(server.pid).environ()


async def test_a_restarted_server_has_its_rows(start_server: Callable[..., EmbeddedPostgres]) -> None:
    server = start_server()
    info = await server.start()
    await ask(info.admin_dsn, "CREATE TABLE kept AS SELECT 7 AS n")
    await server.stop()
    await server.stop()
    assert not info.socket_dir.exists()
    again = await server.start()
    assert await ask(again.admin_dsn, "SELECT n FROM kept") == 7


async def test_a_killed_server_recovers_at_the_same_address(server_home: Path) -> None:
    server = EmbeddedPostgres(server_home / "postgres")  # with fsync: this is what it is for
    info = await server.start()
    try:
        assert await ask(info.dsn, "SHOW fsync") == "on"
        assert await ask(info.dsn, "SHOW synchronous_commit") == "on"
        await ask(info.admin_dsn, "CREATE TABLE kept AS SELECT 7 AS n")
        first = server.pid
        os.kill(first or 0, signal.SIGKILL)
        again = await server.start()
        assert again == info
        assert server.pid != first
        assert await ask(info.admin_dsn, "SELECT n FROM kept") == 7
    finally:
        await server.destroy()


async def test_a_server_that_ends_while_it_is_prepared_is_asked_again(
    start_server: Callable[..., EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is shutting down may still take a connection, and close it in the middle."""
    prepare, ends = embedded._bootstrap, iter([True, True, False])

    async def cut(superuser: asyncpg.Connection, passwords: Mapping[str, str]) -> None:
        if next(ends, True):
            superuser.terminate()
        await prepare(superuser, passwords)

    monkeypatch.setattr(embedded, "_bootstrap", cut)
    server = start_server()
    info = await server.start()
    assert await ask(info.dsn, "SELECT 7") == 7
    await server.stop()
    with pytest.raises(Unavailable, match="ends again and again"):  # but not for ever
        await server.start()


async def test_a_server_whose_owner_was_killed_is_adopted(
    start_server: Callable[..., EmbeddedPostgres], server_home: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    data_dir = str(server_home / "postgres")
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, data_dir], stdout=subprocess.PIPE, env=environment, text=True
    ) as owner:
        assert owner.stdout is not None
        orphan = int(await asyncio.to_thread(owner.stdout.readline))
        owner.kill()
    server = start_server()
    info = await server.start()
    assert server.pid == orphan
    assert await ask(info.dsn, "SELECT 1") == 1
    await server.stop()
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(orphan, 0)


async def test_two_processes_never_own_one_data_directory(
    start_server: Callable[..., EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_OWNER_WAIT_S", 0.05)
    server, second = start_server(), start_server()
    await server.start()
    with pytest.raises(Unavailable, match="Another process is using"):
        await second.start()
    await server.stop()
    await second.start()


async def test_a_stale_pid_file_does_not_stop_a_start(
    start_server: Callable[..., EmbeddedPostgres], server_home: Path
) -> None:
    server = start_server()
    await server.start()
    pid_file = server_home / "postgres" / "cluster" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    await server.stop()
    # The number is now that of a program that is no server: this one.
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    stale = read_pid_file(pid_file.parent)
    assert stale is not None
    assert not stale.is_running()
    assert await ask((await server.start()).dsn, "SELECT 1") == 1


async def test_what_a_killed_initialisation_left_is_cleared(
    start_server: Callable[..., EmbeddedPostgres], server_home: Path
) -> None:
    left_over = server_home / "postgres" / ".init-dead"
    (left_over / "cluster").mkdir(parents=True)
    (server_home / "postgres").chmod(0o711)
    await start_server().start()
    assert not left_over.exists()


async def test_a_cluster_of_another_version_or_without_passwords_is_refused(
    start_server: Callable[..., EmbeddedPostgres], server_home: Path
) -> None:
    server = start_server()
    await server.start()
    await server.stop()
    data_dir = server_home / "postgres"
    version = data_dir / "cluster" / "PG_VERSION"
    ours = version.read_text()
    version.write_text("12\n")
    with pytest.raises(InvalidInput, match="made by Postgres 12"):
        await server.start()
    version.write_text(ours)
    credentials = data_dir / "postgres.credentials"
    right = json.loads(credentials.read_text())
    credentials.write_text(json.dumps(dict.fromkeys(right, "other")))
    with pytest.raises(InvalidInput, match="not those of this cluster"):
        await server.start()
    credentials.unlink()
    with pytest.raises(InvalidInput, match=r"lost its file postgres\.credentials"):
        await server.start()
    credentials.write_text(json.dumps(right))
    await server.start()


async def test_a_directory_that_cannot_be_made_is_the_callers_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be written"):
        await EmbeddedPostgres(tmp_path / "file" / "data").start()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            'x FATAL:  could not write lock file "postmaster.pid": No space left on device',
            Reason.STORAGE_FULL,
        ),
        ("initdb: error: could not create directory", Reason.DATABASE_UNAVAILABLE),
        ("", Reason.DATABASE_UNAVAILABLE),
    ],
)
def test_a_server_that_gives_up_says_why(output: str, reason: Reason) -> None:
    assert server_error(output).reason is reason


@needs_root
async def test_root_puts_the_cluster_where_postgres_can_reach_it(
    start_server: Callable[..., EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch, server_home: Path
) -> None:
    monkeypatch.setattr(cluster, "SYSTEM_DIR", server_home / "system")
    closed = Path(tempfile.mkdtemp(dir=server_home))  # 0700, as a fresh clone under a home is
    data_dir = closed / "clone" / "data"
    server = start_server(data_dir)
    info = await server.start()
    base = Path((data_dir / "postgres.location").read_text().strip())
    assert base.parent == server_home / "system" / "clusters"
    assert postgres_account().uid != 0
    assert postgres_account().owns_privately(base)
    assert Account(0, 0, switch=False).owns_privately(closed)  # as it was
    await ask(info.admin_dsn, "CREATE TABLE kept AS SELECT 7 AS n")
    await server.stop()
    assert await ask((await server.start()).admin_dsn, "SELECT n FROM kept") == 7
    await server.destroy()
    assert list(base.parent.iterdir()) == []


@needs_root
async def test_a_removed_data_directory_starts_anew_and_its_cluster_is_kept_aside(
    start_server: Callable[..., EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch, server_home: Path
) -> None:
    monkeypatch.setattr(cluster, "SYSTEM_DIR", server_home / "system")
    data_dir = Path(tempfile.mkdtemp(dir=server_home)) / "data"
    first = start_server(data_dir)
    await first.start()
    forgotten = first.pid
    (data_dir / "postgres.location").unlink()
    (data_dir / "postgres.credentials").unlink()
    (data_dir / "postgres.lock").unlink()
    info: ServerInfo = await start_server(data_dir).start()
    assert await ask(info.dsn, "SELECT current_database()") == "indai"
    assert len(list((server_home / "system" / "clusters").iterdir())) == 2
    assert not psutil.pid_exists(forgotten or 0)


@needs_root
def test_binaries_out_of_reach_are_copied_with_their_libraries(
    monkeypatch: pytest.MonkeyPatch, server_home: Path
) -> None:
    account = postgres_account()
    monkeypatch.setattr(cluster, "SYSTEM_DIR", server_home / "system")
    monkeypatch.setattr(type(account), "can_traverse", lambda *_: False)
    binaries = postgres_binaries(account)
    assert binaries.is_relative_to(server_home / "system")
    # initdb and psql need libpq, which they look for relative to themselves.
    for program in ("postgres", "initdb", "psql"):
        said = subprocess.run(
            [binaries / program, "--version"],
            user=account.uid,
            group=account.gid,
            cwd="/",
            capture_output=True,
            check=True,
        )
        assert b"PostgreSQL" in said.stdout
    assert postgres_binaries(account) == binaries

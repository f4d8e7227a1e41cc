"""Cycles of life and sudden death, and what must be true of the ledger afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from indai.ledger.fsck import Subject, check
from indai.protocol.leaf import LedgerLeaf
from indai.protocol.merkle import leaf_hash, root
from indai.storage.embedded import EmbeddedPostgres, ServerInfo
from indai.storage.migrations import Schema, migrate
from indai.storage.pool import open_pool, transaction
from indai.tlog.headfile import HeadFile
from indai.tlog.signer import LogSigner

from tests.hammer import writer

SCHEMAS = [Schema("tlog", "indai.tlog"), Schema("ledger", "indai.ledger")]
LONGEST_LIFE_S = 0.12


@dataclass
class Hammer:
    """One server, one ledger, many short-lived writers. Only processes started here are killed."""

    home: Path
    seed: str
    fault: str = ""
    acknowledged: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    deaths: dict[str, int] = field(default_factory=lambda: {"writer": 0, "postgres": 0})

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._server = EmbeddedPostgres(self.home / "postgres")
        self._info: ServerInfo | None = None

    @property
    def info(self) -> ServerInfo:
        assert self._info is not None
        return self._info

    def start(self, change: Callable[[str], str] | None = None) -> None:
        """Start the server with an empty ledger; `change` rewrites `tlog.append`, to break it."""

        async def begin() -> None:
            self._info = await self._server.start()
            await migrate(self.info.admin_dsn, SCHEMAS)
            if change is not None:
                await rewrite_append(self.info.admin_dsn, change)

        asyncio.run(begin())

    def cycles(self, count: int, *, postgres_every: int = 10) -> None:
        """Live and die `count` times; every `postgres_every`-th time it is Postgres that dies."""
        for number in range(1, count + 1):
            self._cycle(number, kill_postgres=number % postgres_every == 0)
            if self.wrong:
                return

    def _cycle(self, number: int, *, kill_postgres: bool) -> None:
        readable, writable = os.pipe()
        first = len(self.acknowledged)
        child = os.fork()
        if child == 0:
            os.close(readable)
            try:
                seed = f"{self.seed} {number}"
                writer.run(self.info.dsn, self.home / "heads", first, writable, seed, self.fault)
            finally:
                os._exit(1)
        os.close(writable)
        # Half of them die right after their word, when it is most likely to be worth nothing; the others at
        # any time, while they start too.
        if self._dice.random() < 0.5:
            select.select([readable], [], [], 5)
        else:
            time.sleep(self._dice.uniform(0, LONGEST_LIFE_S))
        if kill_postgres and self._server.pid is not None:
            os.kill(self._server.pid, signal.SIGKILL)
            self.deaths["postgres"] += 1
            time.sleep(self._dice.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.deaths["writer"] += 1
        self._listen(readable)
        if kill_postgres:
            asyncio.run(self._restart())

    async def _restart(self) -> None:
        await self._server.start()

    def _listen(self, readable: int) -> None:
        """Everything the dead one had acknowledged."""
        heard = b""
        with contextlib.closing(os.fdopen(readable, "rb")) as report:
            heard = report.read()
        for number, index in writer.ACK.iter_unpack(heard):
            if self.acknowledged.setdefault(number, index) != index:
                self.wrong.append(
                    f"entry {number} was acknowledged at {self.acknowledged[number]} and {index}"
                )

    def judge(self) -> list[str]:
        """What is wrong with the ledger now."""
        return self.wrong + asyncio.run(self._judge())

    async def _judge(self) -> list[str]:
        pool = await open_pool(self.info.dsn)
        try:
            return await findings(pool, self.acknowledged, self.home / "heads")
        finally:
            await pool.close()

    def end(self) -> None:
        """Remove the server."""
        asyncio.run(self._server.destroy())


async def findings(pool: asyncpg.Pool, acknowledged: dict[int, int], heads: Path) -> list[str]:
    """Every acknowledged entry stands once, where it was said to be; no gap; the root is that of the leaves
    and extends the head that was signed last; and `fsck` agrees.
    """
    wrong = []
    async with transaction(pool, writer.OWNERS) as connection:
        leaves = await connection.fetch(
            "SELECT idx, leaf FROM tlog.leaf WHERE log = $1 ORDER BY idx", writer.LOG
        )
        contents = await connection.fetch(
            "SELECT idx, mid FROM ledger.contents WHERE log = $1 ORDER BY idx", writer.LOG
        )
    if [row["idx"] for row in leaves] != list(range(len(leaves))):
        wrong.append("the leaves have a gap")
    at: dict[bytes, int] = {}
    for row in contents:
        if at.setdefault(row["mid"], row["idx"]) != row["idx"]:
            wrong.append(f"one entry stands at {at[row['mid']]} and {row['idx']}")
    wrong += [
        f"entry {number} was acknowledged at {index} and is at {at.get(writer.mid_of(number))}"
        for number, index in acknowledged.items()
        if at.get(writer.mid_of(number)) != index
    ]
    wrong += [
        f"leaf {row['idx']} is another"
        for row, content in zip(leaves, contents, strict=False)
        if LedgerLeaf.parse(row["leaf"]).time_ms - writer.NOW not in range(len(leaves) + writer.MAX_BATCH)
    ]
    signer = await LogSigner.open(pool, writer.KEYS, heads, lambda: writer.NOW)
    await signer.publish()
    signed = await pool.fetchrow(
        "SELECT size, root FROM tlog.checkpoint WHERE log = $1 ORDER BY size DESC LIMIT 1", writer.LOG
    )
    if (signed["size"], signed["root"]) != (len(leaves), root([leaf_hash(row["leaf"]) for row in leaves])):
        wrong.append("the head that is signed is not that of the leaves")
    subject = Subject(writer.KEYS.verifier, writer.VAULT, HeadFile(heads, writer.KEYS.verifier).path)
    checked = await check(pool, subject, writer.OWNERS)
    return wrong + [f"{one.place}: {one.message}" for one in checked.findings]


async def rewrite_append(admin_dsn: str, change: Callable[[str], str]) -> None:
    """Put a changed `tlog.append` in place."""
    connection = await asyncpg.connect(admin_dsn)
    try:
        right = await connection.fetchval("SELECT pg_get_functiondef('tlog.append'::regproc)")
        changed = change(right)
        assert changed != right
        await connection.execute(changed)
    finally:
        await connection.close()


def without_replay_row(definition: str) -> str:
    """`tlog.append` that forgets which entries it has."""
    remembered = "SELECT p_log, i.owner, i.mid, i.kind, v_size + i.ord - 1 FROM input i"
    return definition.replace(remembered, f"{remembered} WHERE false", 1)


def without_compare_and_set(definition: str) -> str:
    """`tlog.append` that lets any writer in."""
    return definition.replace("IF v_epoch IS DISTINCT FROM p_epoch THEN", "IF false THEN", 1)

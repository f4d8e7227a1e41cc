"""A log read through nothing but HTTP, as a client that somebody else wrote would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from indai.node.http_server import HttpServer
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.merkle import (
    consistency_proof_from,
    inclusion_proof_from,
    leaf_hash,
    root_from,
    verify_consistency,
    verify_inclusion,
)
from indai.protocol.tiles import Tile, decode_entries, decode_hashes, tile_reader, tiles_of
from indai.tlog.append import Entry, append, take_over
from indai.tlog.reader import LogReader
from indai.tlog.signer import LogSigner
from indai.tlog.tileserver import PublicLog, tile_routes

from tests.service.registry.conftest import KEYS, Clock, run_registry

OWNER = "ind.ai/alice"


@dataclass
class Browser:
    """Fetches and remembers; knows only the log's URL prefix and its key."""

    prefix: str
    session: aiohttp.ClientSession
    hashes: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    entries: dict[int, list[bytes]] = field(default_factory=dict)

    async def get(self, path: str, status: int = 200) -> tuple[bytes, Any]:
        async with self.session.get(f"{self.prefix}/{path}") as answer:
            assert answer.status == status, await answer.text()
            return await answer.read(), answer.headers

    async def head(self) -> Checkpoint:
        note, headers = await self.get("checkpoint")
        assert headers["Content-Type"] == "text/plain; charset=utf-8"
        assert headers["Cache-Control"] == "public, max-age=5"
        return open_checkpoint(note, KEYS.verifier)[0]

    async def read(self, head: Checkpoint, old_size: int = 0) -> None:
        for tile in tiles_of(head.size, old_size):
            data, headers = await self.get(tile.path)
            assert headers["Content-Type"] == "application/octet-stream"
            assert "immutable" in headers["Cache-Control"]
            if tile.level is None:
                self.entries[tile.index] = decode_entries(data)
            else:
                self.hashes[tile.level, tile.index] = decode_hashes(data)
        reader = tile_reader(lambda level, index: self.hashes[level, index])
        assert root_from(reader, head.size) == head.root

    def leaves(self) -> list[bytes]:
        return [entry for index in sorted(self.entries) for entry in self.entries[index]]


@pytest.fixture
async def grow(database: Any, tmp_path: Path) -> Any:
    """Makes a log of so many leaves; served by `served`."""
    writer = await take_over(database.pool, KEYS.origin)
    signer = await LogSigner.open(database.pool, KEYS, tmp_path / "heads", Clock())
    done = 0

    async def grow_to(size: int) -> bytes:
        nonlocal done
        entries = [
            Entry(OWNER, number.to_bytes(32, "big"), 2, b"entry %d" % number, number)
            for number in range(done, size)
        ]
        done = size
        async with database.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT set_config('indai.owners', $1, true)", OWNER)
            await append(connection, writer, entries)
        return await signer.publish()

    grow_to.publish = signer.publish  # type: ignore[attr-defined]
    return grow_to


@pytest.fixture
async def browser(database: Any, grow: Any) -> AsyncIterator[Browser]:
    log = PublicLog(KEYS.origin, LogReader(database.pool, KEYS.origin), grow.publish)
    server = await HttpServer.start("127.0.0.1:0", tile_routes(log))
    async with aiohttp.ClientSession() as session:
        yield Browser(f"http://{server.address}/{KEYS.origin}", session)
    await server.stop()


@pytest.mark.rule("LOG-08")
async def test_a_log_is_rebuilt_and_followed_from_its_tiles_alone(browser: Browser, grow: Any) -> None:
    await grow(300)
    old = await browser.head()
    await browser.read(old)
    assert browser.leaves() == [b"entry %d" % number for number in range(300)]
    note = await grow(70_000)
    new = open_checkpoint(note, KEYS.verifier)[0]
    await browser.read(new, old.size)
    reader = tile_reader(lambda level, index: browser.hashes[level, index])
    proof = consistency_proof_from(reader, old.size, new.size)
    verify_consistency(old.size, old.root, new.size, new.root, proof)
    path = inclusion_proof_from(reader, 69_999, new.size)
    verify_inclusion(leaf_hash(browser.leaves()[-1]), 69_999, new.size, path, new.root)
    proof[0] = bytes(32)
    with pytest.raises(IndaiError) as refused:
        verify_consistency(old.size, old.root, new.size, new.root, proof)
    assert refused.value.reason is Reason.BAD_PROOF


async def test_a_checkpoint_is_made_once_for_all_who_ask_at_once(database: Any) -> None:
    made: list[bytes] = []

    async def make() -> bytes:
        made.append(b"note %d" % len(made))
        await asyncio.sleep(0)  # all who ask by themselves are here before the first has its answer
        return made[-1]

    route, *_ = tile_routes(PublicLog(KEYS.origin, LogReader(database.pool, KEYS.origin), make))
    request: Any = None
    await asyncio.gather(*(route.handler(request) for _ in range(20)))
    assert len(made) < 20  # one, unless a second has passed meanwhile


async def test_what_is_no_tile_or_not_there_yet_is_not_found_and_not_cached(
    browser: Browser, grow: Any
) -> None:
    await grow(300)
    wrong = ["tile/0/002", "tile/0/001.p/45", "tile/0/0", "tile/8/000", "tile/x/000", "tile/entries/003"]
    for path in [*wrong, "tile/0/000.p/256", "tile/1/000", "tile/0/000.p/0"]:
        _, headers = await browser.get(path, 404)
        assert headers["Cache-Control"] == "no-store"
    for path in ("tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1", "tile/0/000.p/7"):
        await browser.get(path)


async def test_entries_are_compressed_for_those_who_can_read_it(browser: Browser, grow: Any) -> None:
    await grow(256)
    _, headers = await browser.get(Tile(None, 0).path)
    assert headers["Content-Encoding"] in ("gzip", "deflate")
    plain = {"Accept-Encoding": "identity"}
    async with browser.session.get(f"{browser.prefix}/tile/entries/000", headers=plain) as answer:
        assert "Content-Encoding" not in answer.headers
        assert len(decode_entries(await answer.read())) == 256


async def test_the_registrys_operations_are_read_from_its_tiles(database: Any, tmp_path: Path) -> None:
    async with run_registry(database.pool, tmp_path / "log", Clock()) as rig:
        claim = rig.claim("ind.ai/alice")
        await rig.submit(claim)

        async def newest() -> bytes:
            return (await rig.registry.view()).note

        log = PublicLog(KEYS.origin, rig.registry.reader, newest)
        server = await HttpServer.start("127.0.0.1:0", tile_routes(log))
        async with aiohttp.ClientSession() as session:
            browser = Browser(f"http://{server.address}/{KEYS.origin}", session)
            await browser.read(await browser.head())
        await server.stop()
        assert claim.raw in browser.leaves()[0]

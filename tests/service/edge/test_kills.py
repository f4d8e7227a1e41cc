"""The process of the channels is killed with SIGKILL at each step of a message: nothing is lost, and nothing
is said twice that was known to be said."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg
import pytest
from indai.node.server import RpcServer
from indai.node.service import Service
from indai.v1 import conversation_pb2_grpc

from tests.service.edge.provider import Fault, words
from tests.service.edge.rooms import Room, running
from tests.service.edge.test_files import ICS, file_reply
from tests.service.edge.test_out import now_text
from tests.unit.edge.accounts import signed

PROGRAM = Path(__file__).with_name("program.py")


@dataclass
class Process:
    """One process of channels, killed and started again over the same database."""

    room: Room
    plan: Path
    running: subprocess.Popen[bytes] | None = None
    url: str = ""

    async def start(self) -> None:
        ready = self.plan.parent / "ready"
        ready.unlink(missing_ok=True)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with (self.plan.parent / "output.txt").open("ab") as output:
            self.running = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(self.plan)], env=environment, stdout=output, stderr=output
            )
        async with asyncio.timeout(60):
            while not ready.exists():
                assert self.running.poll() is None, (self.plan.parent / "output.txt").read_text()[-3000:]
                await asyncio.sleep(0.02)
        self.url = ready.read_text()

    def kill(self) -> None:
        assert self.running is not None
        self.running.kill()
        self.running.wait(30)

    async def deliver(self, number: int, body: str) -> None:
        raw = signed("whatsapp-cloud", now_text(number, body))
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}/channels/wa", data=raw.body, headers=dict(raw.headers)) as answer,
        ):
            assert answer.status == 200


@contextlib.asynccontextmanager
async def process(room: Room, database: str) -> AsyncIterator[Process]:
    add = conversation_pb2_grpc.add_ConversationServiceServicer_to_server
    talk = await RpcServer.start("127.0.0.1:0", [Service(add, room.talk)])
    plan = room.folder / "plan.json"
    plan.write_text(json.dumps({"database": database, "talk": talk.address, "secrets": room.secrets}))
    made = Process(room, plan)
    try:
        await made.start()
        yield made
    finally:
        made.kill()
        await talk.stop()


@pytest.mark.system
async def test_killed_at_each_step_every_message_is_answered(
    still: Room, shared_database: tuple[str, str]
) -> None:
    async with running(still):
        await still.add("whatsapp-cloud")
    room = still
    async with process(room, shared_database[0]) as channels:
        # While the conversation thinks.
        room.talk.gates["one"] = asyncio.Event()
        await channels.deliver(1, "one")
        await room.until("SELECT count(*) FROM edge.inbox", 1)
        while not room.talk.heard:
            await asyncio.sleep(0.01)
        channels.kill()
        room.talk.gates["one"].set()
        # While the provider has the answer in its hands and says nothing.
        room.provider.faults = [Fault(hang=True)]
        await channels.start()
        await room.provider.until_tried(1)
        await channels.deliver(2, "two")
        await room.until("SELECT count(*) FROM edge.inbox WHERE done_at IS NOT NULL", 2)
        channels.kill()
        # As soon as the webhook is answered, and the same webhook again after it.
        await channels.start()
        await channels.deliver(3, "three")
        channels.kill()
        await channels.start()
        await channels.deliver(3, "three")
        await room.until("SELECT count(*) FROM edge.inbox WHERE done_at IS NOT NULL", 3)
        await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'waiting'", 0)
        # Between the upload of a file and the message that shows it.
        room.talk.answer = lambda _: file_reply(room, ICS, "meeting.ics", "text/calendar")
        room.provider.stays_down, room.provider.down_for = Fault(hang=True), "/messages"
        tried = len(room.provider.tried)
        await channels.deliver(4, "four")
        await room.provider.until_tried(tried + 2)
        channels.kill()
        room.provider.stays_down = None
        await channels.start()
        await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'waiting'", 0)
    assert [each.text for each in room.talk.heard] == ["one", "two", "three", "four"]
    *texts, document = room.provider.sent
    assert list(dict.fromkeys(map(words, texts))) == [f"You said: {n}" for n in ("one", "two", "three")]
    assert len(room.provider.uploads) == 1
    assert document["document"]["filename"] == "meeting.ics"
    assert len(await room.rows("SELECT * FROM edge.outbox")) == 4


async def test_two_processes_on_one_database_hand_on_once_and_one_takes_over(still: Room) -> None:
    other = Room(still.pool, still.provider, still.talk, still.folder, still.secrets)
    async with contextlib.AsyncExitStack() as first:
        await first.enter_async_context(running(still))
        await still.add("telegram")
        await still.add("whatsapp-cloud")
        async with running(other):
            for number in range(6):
                await (still, other)[number % 2].deliver("whatsapp-cloud", now_text(number, str(number)))
            await still.provider.until(6)
            assert still.talk.calls == 6
            await first.aclose()  # who led is gone
            await other.deliver("whatsapp-cloud", now_text(7, "after"))
            await still.provider.until(7)
    assert still.provider.texts() == [f"You said: {n}" for n in (0, 1, 2, 3, 4, 5, "after")]


async def test_after_the_database_has_cut_every_connection_webhooks_are_taken_and_answered(
    still: Room, shared_database: tuple[str, str]
) -> None:
    async with running(still) as room:
        await room.add("whatsapp-cloud")
        await room.deliver("whatsapp-cloud", now_text(1, "before"))
        await room.provider.until(1)
        admin = await asyncpg.connect(shared_database[0])
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'indai'"
        )
        await admin.close()
        async with asyncio.timeout(60):
            while await room.deliver("whatsapp-cloud", now_text(2, "after")) != 200:
                await asyncio.sleep(0.01)
        await room.provider.until(2)
        assert room.provider.texts() == ["You said: before", "You said: after"]


async def test_a_channel_that_a_newer_program_has_stored_does_not_stop_the_others(still: Room) -> None:
    async with still.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', 'personal', true)")
        await connection.execute("INSERT INTO edge.names (name, tenant) VALUES ('new', 'personal')")
        await connection.execute(
            "INSERT INTO edge.channels (tenant, name, provider, account, settings)"
            " VALUES ('personal', 'new', 'pigeon', 'p', '{}')"
        )
    async with running(still) as room:
        await room.add("whatsapp-cloud")
        assert await room.deliver("whatsapp-cloud", now_text(1, "hi")) == 200
        await room.provider.until(1)

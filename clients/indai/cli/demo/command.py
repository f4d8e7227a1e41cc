"""`indai demo`: raise the curtain, play the scenes, clean up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import click
from indai.cli.demo import agreement, attacks, crashes, proof, setting, summary
from indai.cli.demo.processes import Process, free_ports
from indai.cli.demo.setting import ALICE, BOB, Setting
from indai.cli.demo.stage import DemoFailed, Stage
from indai.cli.demo.world import World
from indai.cli.enrolment import claim_handle
from indai.cli.errors import CheckFailed, file_error, wrong
from indai.cli.framework import command, run
from indai.cli.localzone import local_zone
from indai.cli.output import Page, emit, note
from indai.cli.session import now_ms, owner_channel
from indai.client.audit import Report
from indai.node.calendar.file import CalendarFile
from indai.protocol.errors import InvalidInput
from indai.storage.cluster import discard
from indai.v1 import desk_pb2
from indai.v1.desk_pb2_grpc import DeskServiceStub


@command(
    "demo",
    "indai demo",
    "indai demo --data ./demo --serve",
    "indai demo --calendar-a work.ics --calendar-b home.ics --json",
)
@click.option("--data", metavar="DIR", default="", help="Keep everything here (default: a temporary one).")
@click.option("--calendar-a", metavar="FILE", default="", help="Alice's calendar; it is copied.")
@click.option("--calendar-b", metavar="FILE", default="", help="Bob's calendar; it is copied.")
@click.option("--timezone", metavar="ZONE", default="", help="Time zone of both (this machine's).")
@click.option("--serve", is_flag=True, help="Leave the nodes running, to play with them.")
def demo(data: str, calendar_a: str, calendar_b: str, timezone: str, serve: bool) -> None:
    """Two agents on two nodes settle meetings, and an auditor proves it.

    Starts a registry and two nodes as processes of their own, and checks
    everything it shows. Status 0 only if all of it held.
    """
    if timezone and timezone not in available_timezones():
        raise wrong(f"{timezone!r} is no time zone.", "use a name such as Europe/Berlin")
    zone = ZoneInfo(timezone) if timezone else local_zone()
    calendars = [_calendar(file, zone) for file in (calendar_a, calendar_b)]
    with _directory(data, keep=serve) as base:
        run(_play(base, zone, calendars, serve))


def _calendar(file: str, zone: ZoneInfo) -> bytes | None:
    """A calendar that somebody gave, if it can be read; errors name their file, not our copy."""
    if not file:
        return None
    now = now_ms()
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise file_error(error) from None
    run(CalendarFile(Path(file), zone).busy(now, now + 1))
    return data


@contextlib.contextmanager
def _directory(data: str, *, keep: bool) -> Iterator[Path]:
    """The directory of this run; a temporary one goes when all went well."""
    if data:
        base = Path(os.path.abspath(data))
        if base.exists() and any(base.iterdir()):
            raise wrong(
                f"{base} is not empty.", "name a new directory: the demonstration starts from nothing"
            )
        base.mkdir(parents=True, exist_ok=True)
        yield base
        return
    base = Path(tempfile.mkdtemp(prefix="indai-demo-"))
    if os.geteuid() == 0:
        base.chmod(0o711)  # Postgres runs as another account and must pass through
    try:
        yield base
    except (KeyboardInterrupt, asyncio.CancelledError, InvalidInput):
        _remove(base)
        raise
    except Exception:
        note(f"Everything is kept in {base}.")
        raise
    if not keep:
        _remove(base)


def _remove(base: Path) -> None:
    discard(base)
    shutil.rmtree(base, ignore_errors=True)


async def _play(base: Path, zone: ZoneInfo, calendars: list[bytes | None], serve: bool) -> None:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - inside asyncio.run
    # A supervisor's SIGTERM ends the children as Ctrl-C does.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    stage = Stage()
    stage.page.line("ind.ai: two agents on two nodes settle meetings, and an auditor proves it", "bold")
    made = await _setting(base, zone, calendars)
    try:
        async with _processes(base, stage, made, serve) as world:
            report = await _scenes(world)
            if serve:
                await agreement.waiting(world)
            value = summary.to_json(world, report)
            summary.show(stage.page, world, report)
            link = await _link(world) if serve else ""
            emit(value | ({"sign_in": link} if link else {}), lambda page: _farewell(page, world, link))
            if serve:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                task.uncancel()  # being told to stop is how this ends well
    except (DemoFailed, TimeoutError) as failure:
        what = str(failure) or "something took too long"
        stage.page.line(f"The demonstration failed: {what}.", "red")
        stage.page.line(f"Logs: {base / 'logs'}")
        emit({"error": {"reason": "CHECK_FAILED", "message": what, "logs": str(base / "logs")}}, _nothing)
        raise CheckFailed from None


def _nothing(_: Page) -> None:
    """A person has been told already."""


async def _scenes(world: World) -> Report:
    await agreement.agreed(world)
    await agreement.left_to_owner(world)
    await agreement.refused(world)
    await attacks.attacked(world)
    await crashes.killed(world)
    return await proof.audited(world)


async def _setting(base: Path, zone: ZoneInfo, calendars: list[bytes | None]) -> Setting:
    """Calendars in their files, and everything that follows from them and the clock."""
    today = datetime.now(zone).date()
    for folder in ("calendars", "exports", "logs"):
        (base / folder).mkdir(exist_ok=True)
    files = [base / "calendars" / "alice.ics", base / "calendars" / "bob.ics"]
    made = (setting.alice_calendar(today, zone), setting.bob_calendar(today, zone))
    for file, given, generated in zip(files, calendars, made, strict=True):
        file.write_bytes(given or generated)
    return await setting.prepare(zone, now_ms(), *files)


@contextlib.asynccontextmanager
async def _processes(base: Path, stage: Stage, made: Setting, desks: bool) -> AsyncIterator[World]:
    """A registry, two nodes, two people; all processes end with the block. With `desks`, nodes have pages."""
    ports = [f"127.0.0.1:{port}" for port in free_ports(9)]
    registry = Process(
        "registry",
        base / "registry",
        base / "logs",
        ("--role", "registry", "--listen", f"registry={ports[0]}"),
    )

    def node(name: str, handle: str, free: list[str]) -> Process:
        served = ["policy", "ledger", "node", *(["llm", "memory", "edge"] if desks else [])]
        listens = ["owner", "peer", *(["http", "a2a"] if desks else [])]
        roles = [option for role in served for option in ("--role", role)]
        where = ("--registry", ports[0], "--network", str(registry.home.network_file))
        listen = [
            option for port, at in zip(listens, free, strict=False) for option in ("--listen", f"{port}={at}")
        ]
        return Process(name, base / name, base / "logs", (*roles, "--handle", handle, *where, *listen))

    node_a = node("node-a", "ind.ai/node-a", ports[1:5])
    node_b = node("node-b", "ind.ai/node-b", ports[5:9])
    world = World(stage, made, base, registry, node_a, node_b)
    try:
        await registry.start()
        await asyncio.gather(node_a.start(), node_b.start())
        for process in (registry, node_a, node_b):
            stage.say(f"{process.name:<9} process {process.pid}, data in {process.home.path}")
        await asyncio.gather(
            claim_handle(
                node_a.home, ALICE, policy_yaml=made.alice.yaml, calendar=str(world.calendar(ALICE))
            ),
            claim_handle(node_b.home, BOB, policy_yaml=made.bob.yaml, calendar=str(world.calendar(BOB))),
        )
        stage.say(f"{ALICE} lives on node A, {BOB} on node B; each keeps its own keys")
        yield world
    finally:
        await asyncio.gather(node_a.stop(), node_b.stop())
        await registry.stop()


async def _link(world: World) -> str:
    """Where Bob signs in at his desk; what Alice asked last waits there."""
    home = world.node_b.home
    async with await owner_channel(home.running(), home.owner_token(BOB)) as channel:
        made = await DeskServiceStub(channel).CreateSignInCode(desk_pb2.CreateSignInCodeRequest())
    return f"{home.running().roles['desk']}/sign-in?code={made.code}"


def _farewell(page: Page, world: World, link: str) -> None:
    page.line("Everything held.", "green")
    if not link:
        return
    page.line()
    page.line("The nodes are running. Something waits for Bob at his desk; this link signs you in as him:")
    page.raw(link)
    page.line(f"Later: indai desk code --data {world.node_b.home.path}")
    page.line()
    page.line("In another terminal:")
    a, b = (f"--data {process.home.path}" for process in (world.node_a, world.node_b))
    for text in (
        f'indai meet {BOB} --for 30m --about "Coffee" {a}',
        f"indai threads {a}",
        f"indai inbox {b}",
        f"indai journal {b}",
        f"indai calendar show {b}",
        f"indai ledger export --node {a} -o a.jsonl",
    ):
        page.command(text)
    page.line("Stop everything with Ctrl-C here.")

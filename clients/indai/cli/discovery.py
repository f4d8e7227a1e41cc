"""`indai handle advertise` and `watch`, `indai registry search`: being found, finding, and being watched."""

from __future__ import annotations

import asyncio
from typing import Any

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.operation_files import fetch_history, operation_name
from indai.cli.output import Page, emit
from indai.cli.session import registry_session
from indai.cli.signing import Signing, perform, show_done, signing_options
from indai.cli.words import iso
from indai.client import handlekeys
from indai.protocol.envelope import Envelope
from indai.protocol.handlestate import Advertisement
from indai.protocol.keys import SigningKey
from indai.protocol.operations import Chain, Link
from indai.v1 import registry_pb2

VERSIONS = (1,)  # of the protocol, as this program speaks it
WATCH_S = 5.0
_registry = click.option(
    "--registry", metavar="HOST:PORT", default="", help="The registry, if the node names none."
)


@command(
    "advertise",
    "indai handle advertise ind.ai/alice --language en --language hi --listed",
    "indai handle advertise ind.ai/alice --nothing",
)
@click.argument("handle_text", metavar="HANDLE")
@click.option(
    "--language", "languages", metavar="TAG", multiple=True, help="What you read, e.g. hi (repeat)."
)
@click.option(
    "--door", "doors", metavar="NAME", multiple=True, help="Where people reach you, e.g. web (repeat)."
)
@click.option("--listed", is_flag=True, help="Let searches find it; without, only who knows it sees this.")
@click.option("--nothing", is_flag=True, help="Take it all back.")
@signing_options
@data_option
def advertise(
    home: Home,
    handle_text: str,
    languages: tuple[str, ...],
    doors: tuple[str, ...],
    listed: bool,
    nothing: bool,
    **how: Any,
) -> None:
    """Say in HANDLE's record what it offers to strangers."""
    offered = None if nothing else Advertisement(VERSIONS, languages, doors, listed=listed)

    def build(chain: Chain, signer: SigningKey, now: int) -> Envelope:
        return handlekeys.advertise(chain, signer, offered, now_ms=now)

    done = run(perform(home, handle_text, Signing(**how), build))
    show_done(done, f"{done.handle} advertises {'nothing' if nothing else 'this'}.")


@command("search", "indai registry search --intent meet", "indai registry search --intent meet --language hi")
@click.option("--intent", default="", help="What it must answer, e.g. meet.")
@click.option("--language", metavar="TAG", default="", help="What its owner must read, e.g. hi.")
@click.option(
    "--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="At most this many."
)
@_registry
@data_option
def search(home: Home, intent: str, language: str, limit: int, registry: str) -> None:
    """Find handles that asked to be found, by what they answer and read.

    What is found is the registry's word; `indai handle resolve` verifies it.
    """
    request = registry_pb2.SearchHandlesRequest(intent=intent, language=language, page_size=limit)

    async def work() -> registry_pb2.SearchHandlesResponse:
        async with registry_session(home, registry) as where:
            return await where.stub.SearchHandles(request)

    found = run(work()).listings
    value = [
        {"handle": one.handle, "intents": list(one.intents), "languages": list(one.languages)}
        for one in found
    ]
    emit({"handles": value}, lambda page: _show_found(page, value))


def _show_found(page: Page, found: list[dict[str, Any]]) -> None:
    if not found:
        page.line("Nobody who wants to be found fits.")
        return
    rows = [(one["handle"], ", ".join(one["intents"]), ", ".join(one["languages"])) for one in found]
    page.table(("handle", "answers", "reads"), rows)


@command("watch", "indai handle watch ind.ai/alice", "indai handle watch ind.ai/alice --once")
@click.argument("handle_text", metavar="HANDLE")
@click.option("--once", is_flag=True, help="Show what there is now, and end.")
@_registry
@data_option
def watch(home: Home, handle_text: str, once: bool, registry: str) -> None:
    """Show every operation on HANDLE as it enters the log, until Ctrl-C.

    Each is verified. With --json, an object a line. A node does this for its
    own handles and puts what it did not make into the owner's journal.
    """

    async def work() -> None:
        shown: dict[bytes, bool] = {}
        async with registry_session(home, registry) as where:
            while True:
                subjects, _ = await fetch_history(where, handle_text)
                chain = subjects[-1]
                for link in chain.history:
                    if shown.get(link.mid) is not link.nullified:
                        shown[link.mid] = link.nullified
                        _show_operation(chain, link)
                if once:
                    return
                await asyncio.sleep(WATCH_S)

    run(work())


def _show_operation(chain: Chain, link: Link) -> None:
    value = {
        "handle": chain.handle,
        "seq": link.seq,
        "operation": operation_name(link.type),
        "time": iso(link.time_ms),
        "signer": link.signer,
        "nullified": link.nullified,
    }

    def show(page: Page) -> None:
        undone = "  nullified" if link.nullified else ""
        page.line(f"{value['time']}  {value['operation']}  seq {link.seq}  by {link.signer[:20]}{undone}")

    emit(value, show)

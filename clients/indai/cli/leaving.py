"""`indai handle forget` and `forgotten`: an owner leaves a node with everything that is theirs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_channel
from indai.cli.words import iso, milliseconds
from indai.protocol.handles import Handle
from indai.v1 import leaving_pb2 as pb
from indai.v1.leaving_pb2_grpc import LeavingServiceStub

if TYPE_CHECKING:
    from indai.v1.leaving_pb2_grpc import LeavingServiceAsyncStub

TIMEOUT_S = 300.0


@command(
    "forget",
    "indai handle forget ind.ai/alice --dry-run",
    "indai handle forget ind.ai/alice --confirm ind.ai/alice",
)
@click.argument("handle_text", metavar="HANDLE")
@click.option("--confirm", metavar="HANDLE", default="", help="The handle once more: this can't be undone.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--at-once", is_flag=True, help="Drop what still goes on; the other side is not told.")
@click.option("--operator", is_flag=True, help="As the node's operator, for an owner who lost their token.")
@data_option
def forget(home: Home, handle_text: str, confirm: str, dry_run: bool, at_once: bool, operator: bool) -> None:
    """Forget an owner with everything that is theirs.

    Conversations, memory, goals, contents of negotiations, rules, tokens,
    keys, accounts and the agent itself go from this node. Leaves of the
    ledger stay, blinded, and so do the public record of the handle (see
    retire), who did what at a desk, and what models cost.
    """
    handle = str(Handle.parse(handle_text))
    request = pb.ForgetOwnerRequest(handle=handle, confirm=confirm, dry_run=dry_run, at_once=at_once)
    done = run(_forget(home, request, operator))
    if not dry_run:
        home.token_file(handle).unlink(missing_ok=True)
    told = {
        "handle": handle,
        "dry_run": dry_run,
        "removed": dict(sorted(done.removed.items())),
        "remaining": done.remaining,
        "open": done.open,
    }

    def show(page: Page) -> None:
        rows = sum(done.removed.values())
        words = "would be removed" if dry_run else "are gone, and nothing is left"
        page.line(f"{rows} rows of {handle} {words}.", "green")
        _by_table(page, done.removed)
        if dry_run and done.open:
            page.line(f"{done.open} negotiations or deliveries still go on.", "yellow")
        if dry_run:
            page.next_step(f"indai handle forget {handle} --confirm {handle}")

    emit(told, show)


@command("forgotten", "indai handle forgotten")
@data_option
def forgotten(home: Home) -> None:
    """List who left this node, for its operator."""
    found = run(_forgotten(home))
    rows = [
        {
            "handle": each.handle,
            "asked": iso(milliseconds(each.ask_time)),
            "by": "operator" if each.by_operator else "owner",
            "finished": iso(milliseconds(each.finish_time)) if each.HasField("finish_time") else None,
            "removed": dict(sorted(each.removed.items())),
        }
        for each in found
    ]

    def show(page: Page) -> None:
        for row in rows:
            end = f"gone {row['finished']}" if row["finished"] else "still going"
            page.item("*" if row["finished"] else "-", f"{row['handle']}: asked {row['asked']}, {end}")
        if not rows:
            page.line("Nobody has left.")

    emit({"leavings": rows}, show)


async def _forget(home: Home, request: pb.ForgetOwnerRequest, operator: bool) -> pb.ForgetOwnerResponse:
    token = home.operator_token() if operator else home.owner_token(request.handle)
    async with _leaving(home, token) as stub:
        return await stub.ForgetOwner(request, timeout=TIMEOUT_S)


async def _forgotten(home: Home) -> list[Any]:
    found: list[pb.Leaving] = []
    token = ""
    async with _leaving(home, home.operator_token()) as stub:
        while True:
            page = await stub.ListLeavings(pb.ListLeavingsRequest(page_size=200, page_token=token))
            found += page.leavings
            if not (token := page.next_page_token):
                return found


@contextlib.asynccontextmanager
async def _leaving(home: Home, token: str) -> AsyncIterator[LeavingServiceAsyncStub]:
    async with await owner_channel(home.running(), token) as channel:
        yield LeavingServiceStub(channel)


def _by_table(page: Page, removed: Mapping[str, int]) -> None:
    for name, count in sorted(removed.items()):
        page.item("-", f"{name}: {count}")

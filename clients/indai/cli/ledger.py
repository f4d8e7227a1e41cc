"""`indai ledger`: exports for an audit, the newest signed head, tiles as files, and the check."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import click
from indai.cli.errors import CheckFailed, wrong
from indai.cli.exporting import Exported, SignedHead, newest_head, save
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option, file_name
from indai.cli.output import Page, emit
from indai.cli.session import operator_session, owner_session
from indai.client.bundles import Bundled, write_bundles
from indai.v1 import ledger_pb2, owner_pb2

_HERE = "indai.cli.ledger:"
SECTIONS = {
    "Commands": {
        "export": _HERE + "export",
        "checkpoint": _HERE + "checkpoint",
        "tiles": _HERE + "tiles",
        "fsck": _HERE + "fsck",
        "rotate-key": "indai.cli.ledger_key:rotate_key",
    }
}
_ledger = click.option(
    "--ledger", metavar="LOG", default="", help="An earlier one of the node's, by its name or year."
)
_node = click.option("--node", is_flag=True, help="The whole node's ledger, as its operator.")


@click.command("ledger", cls=Group, sections=SECTIONS)
def ledger() -> None:
    """Export the commitment ledger, check it, change its key."""


@command(
    "export",
    "indai ledger export --as ind.ai/alice -o alice.jsonl",
    "indai ledger export --node",
    "indai ledger export --node --ledger 2026",
)
@_node
@_ledger
@click.option("-o", "--output", metavar="FILE", default="", help="Where to; default: exports/ in the data.")
@as_option
def export(home: Home, acting: str, node: bool, ledger: str, output: str) -> None:
    """Write one owner's ledger, or the whole node's, for an audit."""
    made = run(_export(home, acting, node, ledger, output))
    emit(export_json(made), lambda page: show_export(page, made))


async def _export(home: Home, acting: str, node: bool, earlier: str, output: str) -> Exported:
    name = "node" if node else file_name(home.owner(acting))
    path = Path(output) if output else home.exports / f"{name}.jsonl"
    if earlier and not output:
        path = path.with_name(f"{name}-{earlier.rpartition('/')[2]}.jsonl")
    async with lines(home, acting, node, earlier) as chunks:
        return await save(chunks, path)


@command("checkpoint", "indai ledger checkpoint --as ind.ai/alice")
@_node
@as_option
def checkpoint(home: Home, acting: str, node: bool) -> None:
    """Show the newest signed head of the node's ledger."""
    head = run(_head(home, acting, node))
    emit(
        {
            "origin": head.checkpoint.origin,
            "size": head.checkpoint.size,
            "root": head.checkpoint.root.hex(),
            "vkey": head.vkey,
            "note": head.note,
        },
        lambda page: _show_head(page, head),
    )


async def _head(home: Home, acting: str, node: bool) -> SignedHead:
    async with lines(home, acting, node) as chunks:
        return await newest_head(chunks)


@command("tiles", "indai ledger tiles exports/node.jsonl /srv/log")
@click.argument("export_file", metavar="EXPORT")
@click.argument("folder", metavar="DIR")
def tiles(export_file: str, folder: str) -> None:
    """Cut the log of EXPORT into tiles and bundles, files in DIR.

    Hash tiles and entry bundles (C2SP tlog-tiles) with the newest signed head, for
    a static web server or to keep. Nothing secret is in them. A later export of
    the log carries DIR on.
    """
    made = write_bundles(Path(export_file), Path(folder))
    head = made.checkpoint
    value = {
        "origin": head.origin,
        "size": head.size,
        "root": head.root.hex(),
        "written": made.written,
        "kept": made.kept,
    }
    emit(value, lambda page: _show_tiles(page, made, folder))


def _show_tiles(page: Page, made: Bundled, folder: str) -> None:
    page.line(f"{made.checkpoint.origin} up to size {made.checkpoint.size} is in {folder}.", "green")
    page.line(f"{made.written} files written, {made.kept} were there.")


@command("fsck", "indai ledger fsck", "indai ledger fsck --ledger 2026")
@_ledger
@as_option
def fsck(home: Home, acting: str, ledger: str) -> None:
    """Check the node's live ledger against itself, as its operator.

    Tables, hash tiles, signed heads and the head file are compared; each finding
    names the row or file. Status 0: all is well; 1: something does not fit.
    """
    found = run(_fsck(home, ledger))
    emit(_fsck_json(found), lambda page: _show_fsck(page, found))
    if found.findings:
        raise CheckFailed(1)


async def _fsck(home: Home, earlier: str) -> ledger_pb2.CheckLedgerResponse:
    last = ledger_pb2.CheckLedgerResponse()
    async with operator_session(home) as operator:
        request = owner_pb2.OperatorServiceCheckLedgerRequest(ledger=earlier)
        async for response in operator.CheckLedger(request):
            last = response.check
    return last


def _fsck_json(found: ledger_pb2.CheckLedgerResponse) -> dict[str, object]:
    return {
        "leaves": found.leaves,
        "opened": found.opened,
        "erased": found.erased,
        "tiles": found.tiles,
        "heads": found.heads,
        "findings": [{"place": one.place, "message": one.message} for one in found.findings],
    }


def _show_fsck(page: Page, found: ledger_pb2.CheckLedgerResponse) -> None:
    for one in found.findings:
        page.line(f"{one.place}: {one.message}", "red")
    checked = f"{found.leaves} leaves ({found.opened} opened, {found.erased} erased)"
    page.line(f"Checked {checked}, {found.tiles} tiles and {found.heads} signed heads.")
    if found.findings:
        page.line("The ledger does not fit together. Stop the node, and keep its files as they are.", "red")
    else:
        page.line("Everything fits together.", "green")


@contextlib.asynccontextmanager
async def lines(
    home: Home, acting: str, node: bool, earlier: str = ""
) -> AsyncIterator[AsyncIterator[bytes]]:
    """An export as the node streams it."""
    if node and acting and not os.environ.get("INDAI_HANDLE"):
        raise wrong("--node and --as exclude each other.", "take one of them")
    if node:
        async with operator_session(home) as operator:
            yield _lines(operator.ExportNode(owner_pb2.ExportNodeRequest(ledger=earlier)))
    else:
        async with owner_session(home, acting) as owner:
            yield _lines(owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest(ledger=earlier)))


async def _lines(
    answers: AsyncIterable[owner_pb2.ExportNodeResponse] | AsyncIterable[owner_pb2.ExportOwnerResponse],
) -> AsyncIterator[bytes]:
    async for answer in answers:
        yield answer.lines


def export_json(made: Exported) -> dict[str, object]:
    """A finished export for `--json`."""
    return {
        "file": str(made.path),
        "of": made.header.of,
        "log": made.header.log,
        "owner": made.header.owner,
        "size": made.checkpoint.size,
        "root": made.checkpoint.root.hex(),
        "leaves": made.end.leaves,
        "entries": made.end.entries,
        "messages": made.end.messages,
        "sha256": made.end.sha256.hex(),
    }


def show_export(page: Page, made: Exported) -> None:
    """A finished export for a person."""
    what = [
        (made.end.leaves, "leaves"),
        (made.end.entries, "entries"),
        (made.end.messages, "messages"),
    ]
    page.line(f"Exported {made.header.log}.", "green")
    page.fields(
        [
            ("file", str(made.path)),
            ("holds", ", ".join(f"{count} {name}" for count, name in what if count)),
            ("head", f"size {made.checkpoint.size}, root {made.checkpoint.root.hex()[:16]}"),
        ]
    )
    if made.header.of == "ledger":
        mirror = made.path.with_name("registry.jsonl")
        page.next_step(f"indai registry export -o {mirror}", f"indai audit {made.path} --registry {mirror}")


def _show_head(page: Page, head: SignedHead) -> None:
    page.fields(
        [
            ("log", head.checkpoint.origin),
            ("size", str(head.checkpoint.size)),
            ("root", head.checkpoint.root.hex()),
            ("verifier key", head.vkey),
        ]
    )
    page.line()
    page.raw(head.note.rstrip("\n"))

"""`indai ledger`: exports for an audit, and the newest signed head."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import click
from indai.cli.errors import wrong
from indai.cli.exporting import Exported, SignedHead, newest_head, save
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option, file_name
from indai.cli.output import Page, emit
from indai.cli.session import operator_session, owner_session
from indai.v1 import owner_pb2

_HERE = "indai.cli.ledger:"
SECTIONS = {"Commands": {"export": _HERE + "export", "checkpoint": _HERE + "checkpoint"}}
_node = click.option("--node", is_flag=True, help="The whole node's ledger, as its operator.")


@click.command("ledger", cls=Group, sections=SECTIONS)
def ledger() -> None:
    """Export the commitment ledger, and show its signed head."""


@command("export", "indai ledger export --as ind.ai/alice -o alice.jsonl", "indai ledger export --node")
@_node
@click.option("-o", "--output", metavar="FILE", default="", help="Where to; default: exports/ in the data.")
@as_option
def export(home: Home, acting: str, node: bool, output: str) -> None:
    """Write one owner's ledger and threads, or the whole node's, for an audit."""
    made = run(_export(home, acting, node, output))
    emit(export_json(made), lambda page: show_export(page, made))


async def _export(home: Home, acting: str, node: bool, output: str) -> Exported:
    name = "node" if node else file_name(home.owner(acting))
    path = Path(output) if output else home.exports / f"{name}.jsonl"
    async with lines(home, acting, node) as chunks:
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


@contextlib.asynccontextmanager
async def lines(home: Home, acting: str, node: bool) -> AsyncIterator[AsyncIterator[bytes]]:
    """An export as the node streams it."""
    if node and acting and not os.environ.get("INDAI_HANDLE"):
        raise wrong("--node and --as exclude each other.", "take one of them")
    if node:
        async with operator_session(home) as operator:
            yield _lines(operator.ExportNode(owner_pb2.ExportNodeRequest()))
    else:
        async with owner_session(home, acting) as owner:
            yield _lines(owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest()))


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

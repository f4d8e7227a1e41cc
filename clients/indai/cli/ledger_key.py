"""`indai ledger rotate-key`: another key for the heads of a running node's ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from indai.cli.enrolment import rotation_key, submit
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, operator_session, registry_session
from indai.client import handlekeys
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason
from indai.protocol.handlestate import NodeRecord
from indai.protocol.logkeys import read_announcement
from indai.v1 import ledger_pb2, owner_pb2


@command(
    "rotate-key",
    "indai ledger rotate-key",
    "indai ledger rotate-key --key /media/usb/node-a.rotation.key",
)
@click.option(
    "--key", metavar="FILE", default="", help="The node's rotation key; default: offline/ in the data."
)
@click.option("--registry", metavar="HOST:PORT", default="", help="The registry, if the node names none.")
@data_option
def rotate_key(home: Home, key: str, registry: str) -> None:
    """Replace the key that signs the heads of the node's ledger.

    The next key is made on the node, announced by the one so far, and named in
    the node's record in the registry, which needs the node's rotation key for a
    moment. From then on it signs. Nothing is restarted, and what the former key
    has signed holds as before: heads, receipts, exports.

    If it is cut off before the registry names the next key, run it again; after
    that the node completes the change by itself.
    """
    done = run(_rotate(home, key, registry))
    emit(done, lambda page: _show(page, done))


async def _rotate(home: Home, key: str, registry: str) -> dict[str, Any]:
    async with operator_session(home) as operator:
        prepared = await operator.PrepareLedgerKey(owner_pb2.OperatorServicePrepareLedgerKeyRequest())
        node, change = prepared.handle, prepared.key
        _check(change)
        async with registry_session(home, registry) as where:
            chain = (await where.resolver.resolve(node)).chain
            record = chain.state.node_record
            if record is None:
                raise NotFound(Reason.NOT_FOUND, f"The registry has no record of the node {node}.")
            if record.ledger_vkey != change.next_vkey:
                signer = handlekeys.load_key_file(Path(key)) if key else rotation_key(home, node)
                wanted = _changed(record, change)
                await submit(where, handlekeys.set_node_record(chain, signer, wanted, now_ms=now_ms()))
        followed = await operator.FollowLedgerKey(owner_pb2.FollowLedgerKeyRequest())
    if followed.vkey != change.next_vkey:
        raise IndaiError(
            Reason.STALE_HEAD,
            f"The registry names the next key of {record.ledger_origin}, and the node has not read it yet.",
            hint="it will within some seconds; to see it: indai ledger checkpoint --node",
        )
    return {
        "node": node,
        "ledger": record.ledger_origin,
        "former": change.vkey,
        "vkey": change.next_vkey,
    }


def _changed(record: NodeRecord, change: ledger_pb2.PrepareLedgerKeyResponse) -> NodeRecord:
    return replace(record, ledger_vkey=change.next_vkey, ledger_key_change=change.announcement)


def _check(change: ledger_pb2.PrepareLedgerKeyResponse) -> None:
    """Nothing is signed with a rotation key that the ledger's own two keys have not signed."""
    old, new = read_announcement(change.announcement)
    if (old.vkey, new.vkey) != (change.vkey, change.next_vkey):
        raise ProtocolError(
            Reason.BAD_SIGNATURE, "The node announces another key than the one that it names."
        )


def _show(page: Page, done: dict[str, Any]) -> None:
    page.line(f"{done['ledger']} is signed with its next key now.", "green")
    page.fields([("former key", done["former"]), ("key", done["vkey"])])
    page.line("An audit from now on needs a mirror of the registry that has the change.")
    page.next_step("indai registry export -o registry.jsonl")

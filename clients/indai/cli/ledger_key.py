"""`indai ledger rotate-key`: another key for the heads of a running node's ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from indai.cli.enrolment import rotation_key, submit
from indai.cli.errors import wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.operation_files import fetch_history, read_change, write_change, write_operation
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, operator_session, registry_session
from indai.cli.signing import Done, done_of, show_done
from indai.client import handlekeys
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason
from indai.protocol.handlestate import NodeRecord
from indai.protocol.logkeys import read_announcement
from indai.v1 import ledger_pb2, owner_pb2


@command(
    "rotate-key",
    "indai ledger rotate-key",
    "indai ledger rotate-key --key /media/usb/node-a.rotation.key",
    "indai ledger rotate-key --prepare change.json",
    "indai ledger rotate-key --finish",
    "indai ledger rotate-key --change change.json --key node-a.rotation.key --sign-only -o signed.json",
)
@click.option(
    "--key", metavar="FILE", default="", help="The node's rotation key; default: offline/ in the data."
)
@click.option("--prepare", metavar="FILE", default="", help="Only make the next key, and write what to sign.")
@click.option("--change", metavar="FILE", default="", help="What --prepare has written, to sign it offline.")
@click.option("--sign-only", is_flag=True, help="Sign --change, and submit nothing.")
@click.option("-o", "--output", metavar="FILE", default="", help="Where --sign-only puts the operation.")
@click.option("--finish", is_flag=True, help="Have the node take the key that its record names now.")
@click.option("--registry", metavar="HOST:PORT", default="", help="The registry, if the node names none.")
@data_option
def rotate_key(
    home: Home,
    key: str,
    prepare: str,
    change: str,
    sign_only: bool,
    output: str,
    finish: bool,
    registry: str,
) -> None:
    """Replace the key that signs the heads of the node's ledger.

    The next key is made on the node, announced by the one so far, and named in
    the node's record in the registry, which needs the node's rotation key for a
    moment. From then on it signs. Nothing is restarted, and what the former key
    has signed holds as before: heads, receipts, exports.

    If it is cut off before the registry names the next key, run it again; after
    that the node completes the change by itself.

    A rotation key that stays on another machine signs there: --prepare here,
    --change with --sign-only there, then `indai handle submit` and --finish here
    (the node takes the key within seconds in any case).
    """
    ways = sum(map(bool, (prepare, change, finish)))
    if ways > 1 or bool(change) != sign_only or bool(output) != sign_only or (key and (prepare or finish)):
        raise wrong(
            "These options do not go together.",
            "--prepare FILE; --change FILE --key FILE --sign-only -o FILE; --finish; or none of them",
        )
    if prepare:
        prepared = run(_prepare(home, prepare, registry))
        emit(prepared, lambda page: _show_prepared(page, prepared))
        return
    if change:
        show_done(sign_change(home, change, key, output), "")
        return
    done = run(_finish(home, registry) if finish else _rotate(home, key, registry))
    emit(done, lambda page: _show(page, done))


async def _prepare(home: Home, path: str, registry: str) -> dict[str, Any]:
    async with operator_session(home) as operator, registry_session(home, registry) as where:
        prepared = await operator.PrepareLedgerKey(owner_pb2.OperatorServicePrepareLedgerKeyRequest())
        _check(prepared.key)
        _, history = await fetch_history(where, prepared.handle)
    write_change(path, history, prepared.key)
    return {
        "node": prepared.handle,
        "file": path,
        "former": prepared.key.vkey,
        "vkey": prepared.key.next_vkey,
    }


def sign_change(home: Home, path: str, key: str, output: str) -> Done:
    """Sign the operation that names the next key in the file `path`, without a network, and write it to
    `output`. Raises IndaiError for a change that the ledger's own two keys have not signed, or of another."""
    chain, change = read_change(path)
    _check(change)
    record = chain.state.node_record
    if record is None or record.ledger_vkey != change.vkey:
        raise wrong(
            f"The record of {chain.handle} does not name the key that {path} is about to replace.",
            "it was changed since: indai ledger rotate-key --prepare FILE",
        )
    signer = handlekeys.load_key_file(Path(key)) if key else rotation_key(home, chain.handle)
    wanted = _changed(record, change)
    operation = handlekeys.set_node_record(chain, signer, wanted, now_ms=now_ms())
    write_operation(output, operation)
    return done_of(operation, file=output)


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
    return _taken(node, record, change.vkey, change.next_vkey, followed.vkey)


async def _finish(home: Home, registry: str) -> dict[str, Any]:
    async with operator_session(home) as operator, registry_session(home, registry) as where:
        node = (await operator.GetNode(owner_pb2.GetNodeRequest())).handle
        record = (await where.resolver.resolve(node)).state.node_record
        if record is None:
            raise NotFound(Reason.NOT_FOUND, f"The registry has no record of the node {node}.")
        followed = await operator.FollowLedgerKey(owner_pb2.FollowLedgerKeyRequest())
    former = read_announcement(record.ledger_key_change)[0].vkey if record.ledger_key_change else ""
    return _taken(node, record, former, record.ledger_vkey, followed.vkey)


def _taken(node: str, record: NodeRecord, former: str, wanted: str, signs: str) -> dict[str, Any]:
    if signs != wanted:
        raise IndaiError(
            Reason.STALE_HEAD,
            f"The registry names the next key of {record.ledger_origin}, and the node has not read it yet.",
            hint="it will within some seconds; to see it: indai ledger checkpoint --node",
        )
    return {"node": node, "ledger": record.ledger_origin, "former": former, "vkey": wanted}


def _changed(record: NodeRecord, change: ledger_pb2.PrepareLedgerKeyResponse) -> NodeRecord:
    return replace(record, ledger_vkey=change.next_vkey, ledger_key_change=change.announcement)


def _check(change: ledger_pb2.PrepareLedgerKeyResponse) -> None:
    """Nothing is signed with a rotation key that the ledger's own two keys have not signed."""
    old, new = read_announcement(change.announcement)
    if (old.vkey, new.vkey) != (change.vkey, change.next_vkey):
        raise ProtocolError(
            Reason.BAD_SIGNATURE, "The node announces another key than the one that it names."
        )


def _show_prepared(page: Page, done: dict[str, Any]) -> None:
    page.line(f"The next key of the ledger of {done['node']} is made, and signs nothing yet.", "green")
    page.fields([("file", done["file"]), ("key so far", done["former"]), ("next key", done["vkey"])])
    page.line("Where the rotation key is:")
    page.next_step(
        f"indai ledger rotate-key --change {done['file']} --key KEYFILE --sign-only -o signed.json"
    )


def _show(page: Page, done: dict[str, Any]) -> None:
    page.line(f"{done['ledger']} is signed with the key that its node's record names.", "green")
    page.fields([("former key", done["former"]), ("key", done["vkey"])])
    page.line("An audit from now on needs a mirror of the registry that has the change.")
    page.next_step("indai registry export -o registry.jsonl")

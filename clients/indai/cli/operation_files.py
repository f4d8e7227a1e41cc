"""Files that carry operations between machines: a handle's history, and a signed operation.

    indai handle history ind.ai/alice -o alice.history          here
    indai handle revoke ind.ai/alice --history alice.history \\
        --key /media/usb/alice.key --sign-only -o revoke.json   on the machine that has the key
    indai handle submit revoke.json                             here

Neither file is secret. A history is replayed when it is read, so a wrong one signs nothing that a registry
would take.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indai.cli.errors import wrong
from indai.cli.files import read_text
from indai.cli.session import Registry
from indai.client.statefile import replace_file
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.keys import PUBLIC_KEY_BYTES
from indai.protocol.operations import MAX_OPERATION, Chain, Type, parse_operation, replay
from indai.v1 import ledger_pb2, registry_pb2

_AMOUNT = re.compile(r"([A-Z]{3})=([0-9]{1,15})")

_HISTORY, _OPERATION = "ind.ai handle history", "ind.ai signed operation"
_CHANGE = "ind.ai ledger key change"
_VERSION = 1


async def fetch_history(where: Registry, handle: str) -> tuple[tuple[Chain, ...], bytes]:
    """The verified chains of all subjects of a handle, oldest first, and the file that carries the newest;
    raises NotFound."""
    subjects, answer = await where.resolver.history(handle)
    document = {
        "operations": [_base64(raw) for raw in answer.chain],
        "times_ms": list(answer.times_ms),
        "before": _base64(answer.before),
    }
    return subjects, _document(_HISTORY, document)


def read_history(path: str) -> Chain:
    """The chain in a file, replayed; raises InvalidInput or ProtocolError."""
    return _replayed(path, _read(path, _HISTORY))


def _replayed(path: str, document: Mapping[str, Any]) -> Chain:
    try:
        raws = [base64.b64decode(raw, validate=True) for raw in document["operations"]]
        times = [int(time) for time in document["times_ms"]]
        before = base64.b64decode(document["before"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise wrong(f"{path} is damaged.", "make it again") from None
    return replay((parse_envelope(raw, limit=MAX_OPERATION) for raw in raws), times, before=before)


def write_change(path: str, history: bytes, change: ledger_pb2.PrepareLedgerKeyResponse) -> None:
    """A ledger's next key and its node's history (of `fetch_history`), for the machine that has the node's
    rotation key."""
    document = {
        **json.loads(history),
        "vkey": change.vkey,
        "next_vkey": change.next_vkey,
        "announcement": _base64(change.announcement),
    }
    replace_file(Path(path), _document(_CHANGE, document))


def read_change(path: str) -> tuple[Chain, ledger_pb2.PrepareLedgerKeyResponse]:
    """The node's chain, replayed, and the change in a file; raises InvalidInput or ProtocolError."""
    document = _read(path, _CHANGE)
    try:
        change = ledger_pb2.PrepareLedgerKeyResponse(
            vkey=document["vkey"],
            next_vkey=document["next_vkey"],
            announcement=base64.b64decode(document["announcement"], validate=True),
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise wrong(f"{path} is damaged.", "make it again: indai ledger rotate-key --prepare FILE") from None
    return _replayed(path, document), change


def write_operation(path: str, operation: Envelope) -> None:
    """A signed operation as a file."""
    message = parse_operation(operation)
    document = {
        "handle": message.handle,
        "operation": operation_name(message.type),
        "envelope": _base64(operation.raw),
    }
    replace_file(Path(path), _document(_OPERATION, document))


def read_operation(path: str) -> Envelope:
    """The signed operation in a file; raises InvalidInput or ProtocolError."""
    try:
        raw = base64.b64decode(_read(path, _OPERATION)["envelope"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise wrong(f"{path} is damaged.", "sign the operation again") from None
    operation = parse_envelope(raw, limit=MAX_OPERATION)
    parse_operation(operation)
    return operation


def public_key(text: str) -> bytes:
    """A public key as `indai handle key` shows it; raises InvalidInput."""
    try:
        key = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != PUBLIC_KEY_BYTES:
        raise wrong(f"{text!r} is not a public key.", "copy what `indai handle key FILE` shows as public")
    return key


def operation_name(operation_type: Type) -> str:
    """`REVOKE` for OPERATION_TYPE_REVOKE."""
    return registry_pb2.OperationType.Name(operation_type).removeprefix("OPERATION_TYPE_")


def _document(kind: str, body: Mapping[str, Any]) -> bytes:
    return json.dumps({**body, "format": kind, "version": _VERSION}, indent=1).encode("utf-8") + b"\n"


def _read(path: str, kind: str) -> dict[str, Any]:
    try:
        document = json.loads(read_text(path))
        known = document["format"] == kind and document["version"] == _VERSION
    except (ValueError, KeyError, TypeError):
        document, known = {}, False
    if not known:
        raise wrong(f"{path} is not a file of this kind: {kind}.", "check that it is the right file")
    found: dict[str, Any] = document
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def amount_of(text: str) -> tuple[str, int]:
    """`EUR=5000` as (currency, minor units); raises InvalidInput."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise wrong(f"{text!r} is not an amount.", "write it like EUR=5000, in minor units")
    return match[1], int(match[2])

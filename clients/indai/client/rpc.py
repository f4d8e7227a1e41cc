"""The one place where an `IndaiError` becomes a `google.rpc.Status`, and a failed call becomes an
`IndaiError`.

A status carries exactly one `ErrorInfo` (domain `ind.ai`, the reason's name) and at most one `BadRequest`.
What to do next travels as the `hint` entry of the ErrorInfo's metadata: `google.rpc.Help` wants links, and a
hint is a sentence. Follows the richer error model of gRPC: https://google.aip.dev/193 and
google/rpc/error_details.proto.

A call can also fail without the other program having said anything (refused connections, deadlines, sizes):
the gRPC code alone then chooses the reason, and the message names the address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import aio
from indai.protocol.errors import (
    DOMAIN,
    IndaiError,
    InvalidInput,
    NotFound,
    ProtocolError,
    Reason,
    Refused,
    Unavailable,
)

STATUS_KEY: Final = "grpc-status-details-bin"
"""Trailing metadata key of a serialised `google.rpc.Status`, fixed by gRPC."""

# gRPC starts to refuse trailers at 8 KiB, in which the message stands twice: percent-encoded (three times its
# size) and, with all the rest, in base64 (a third more). These limits together stay below it.
MAX_TEXT_BYTES: Final = 480
MAX_VALUE_BYTES: Final = 120
MAX_KEY_BYTES: Final = 64
MAX_WRONG_BYTES: Final = 160
MAX_FIELDS: Final = 8
MAX_METADATA: Final = 8

_HINT: Final = "hint"


def to_status(error: IndaiError) -> Status:
    """`error` as the message that goes over the wire; texts are cut so that it always fits."""
    info = ErrorInfo(reason=error.reason.name, domain=DOMAIN)
    for key, value in list(error.metadata.items())[:MAX_METADATA]:
        info.metadata[_cut(key, MAX_KEY_BYTES)] = _cut(value, MAX_VALUE_BYTES)
    if error.hint:
        info.metadata[_HINT] = _cut(error.hint)
    status = Status(code=code_of(error).value[0], message=_cut(error.message))
    status.details.add().Pack(info)
    if error.fields:
        violations = [
            BadRequest.FieldViolation(
                field=_cut(path, MAX_KEY_BYTES), description=_cut(wrong, MAX_WRONG_BYTES)
            )
            for path, wrong in list(error.fields.items())[:MAX_FIELDS]
        ]
        status.details.add().Pack(BadRequest(field_violations=violations))
    return status


def trailers(status: Status) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata that carries `status`."""
    return ((STATUS_KEY, status.SerializeToString()),)


def code_of(error: IndaiError) -> grpc.StatusCode:
    """The gRPC code of an error, from the one table."""
    return grpc.StatusCode[error.reason.status.grpc]


def from_rpc_error(error: aio.AioRpcError, *, address: str = "", method: str = "") -> IndaiError:
    """What a failed call means: the server's own words if any, else a reason chosen from the code."""
    status = server_status(error)
    spoken = from_status(status) if status is not None else None
    return spoken or _unspoken(error, address or "the server", method)


def from_status(status: Status) -> IndaiError | None:
    """The error that `to_status` packed; None for another domain or a reason we do not know."""
    info, bad = ErrorInfo(), BadRequest()
    for detail in status.details:
        try:
            if not detail.Unpack(info):
                detail.Unpack(bad)
        except DecodeError:
            return None
    if info.domain != DOMAIN or info.reason not in Reason.__members__:
        return None
    metadata = {_clean(key): _clean(value) for key, value in info.metadata.items()}
    hint = metadata.pop(_HINT, "")
    fields = {_clean(v.field): _clean(v.description) for v in bad.field_violations}
    return _rebuild(Reason[info.reason], _clean(status.message), hint, fields, metadata)


def server_status(error: aio.AioRpcError) -> Status | None:
    """The `google.rpc.Status` in the trailers; None when there is none, or it contradicts the call's code."""
    pairs = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in pairs:
        if key == STATUS_KEY and isinstance(value, bytes):
            try:
                status = Status.FromString(value)
            except DecodeError:
                return None
            return status if status.code == error.code().value[0] else None
    return None


def _rebuild(
    reason: Reason, message: str, hint: str, fields: Mapping[str, str], metadata: Mapping[str, str]
) -> IndaiError:
    if "rule" in metadata or reason.status.grpc == "DATA_LOSS":
        return ProtocolError(reason, message, rule=metadata.get("rule", ""), hint=hint)
    return _kind(reason)(reason, message, hint=hint, fields=fields, metadata=metadata)


def _kind(reason: Reason) -> type[IndaiError]:
    """The class to raise on the caller's side, so that both transports raise the same one."""
    if reason is Reason.RATE_LIMITED:
        return Unavailable
    return _KINDS.get(reason.status.grpc, Refused)


_KINDS: Final[Mapping[str, type[IndaiError]]] = {
    "INVALID_ARGUMENT": InvalidInput,
    "NOT_FOUND": NotFound,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": Unavailable,
    "INTERNAL": IndaiError,
}


def unreachable(address: str, why: str = "") -> Unavailable:
    """Nobody answers at `address`."""
    return Unavailable(
        Reason.UNREACHABLE,
        f"Cannot reach {address}{': ' + why if why else ''}.",
        hint="check that the program there is running and that the address is right, then try again",
        metadata={"address": address},
    )


def _unspoken(error: aio.AioRpcError, address: str, method: str) -> IndaiError:
    code, details = error.code(), error.details() or ""
    called = method.strip("/") or "the call"
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            return unreachable(address, _transport_words(details))
        case grpc.StatusCode.CANCELLED:
            return unreachable(address, "the call was cut off")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(
                Reason.DEADLINE_EXCEEDED,
                f"{address} did not answer {called} in time.",
                hint="the other side may be busy or stopped; what it did is unknown until it is asked again",
            )
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in details:
            return InvalidInput(
                Reason.TOO_LARGE,
                f"A message of {called} is too large for {address}.",
                hint="send less at once",
            )
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Unavailable(
                Reason.RATE_LIMITED, f"{address} has too much to do.", hint="try again in a few seconds"
            )
        case grpc.StatusCode.UNIMPLEMENTED:
            return NotFound(
                Reason.NOT_FOUND,
                f"{address} does not serve {called}.",
                hint="check the port: each role has its own; or one of the two programs is older",
            )
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return Refused(Reason[code.name], f"{address} refused {called}.")
    return IndaiError(
        Reason.INTERNAL,
        f"{called} failed at {address} ({code.name}).",
        hint="look into the log of the program there",
    )


_TRANSPORT_WORDS: Final = (
    ("onnection refused", "connection refused"),
    ("imed out", "the connection timed out"),
    ("DNS resolution failed", "the host name is unknown"),
    ("andshake", "the TLS handshake failed"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS"),
    ("reset", "the connection was reset"),
    ("losed", "the connection was closed"),
)


def _transport_words(details: str) -> str:
    """A few words instead of the transport's own text, which names internals and repeats the address."""
    return next((words for mark, words in _TRANSPORT_WORDS if mark in details), "")


def _cut(text: str, limit: int = MAX_TEXT_BYTES) -> str:
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[: limit - 3].decode("utf-8", "ignore") + "..."


def _clean(text: str) -> str:
    """Another program's text before it meets a terminal or a log: one line, printable, of bounded length."""
    return _cut("".join(c if c.isprintable() else " " for c in text))

"""One table from an error to each of the three bindings (A2A 1.0, sections 5.4, 9.5, 10.6 and 11.6).

Codes, statuses and reasons of the specification's errors come from its published SDK; those of this node are
below. Everywhere the details begin with a `google.rpc.ErrorInfo`, so a client decides on the same reason
whatever it speaks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import grpc
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    JSON_RPC_ERROR_CODE_MAP,
    A2AError,
    InternalError,
    JSONParseError,
)
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "a2a-protocol.org"
OUR_DOMAIN = "ind.ai"
_TYPE = "type.googleapis.com/"


class Unauthenticated(A2AError):
    """The call proves nobody."""

    message = "This call needs credentials; the agent card says which."


class TooManyRequests(A2AError):
    """The caller has too much under way."""

    message = "You have too many tasks under way; finish or cancel some."


class TooLarge(A2AError):
    """The request is longer than is read."""

    message = "The request is too large."


class Meaning(NamedTuple):
    """What one kind of error is in each binding."""

    jsonrpc: int
    http: int
    grpc: grpc.StatusCode
    reason: str
    domain: str = DOMAIN


_OURS = {
    JSONParseError: Meaning(-32700, 400, grpc.StatusCode.INVALID_ARGUMENT, "PARSE_ERROR", OUR_DOMAIN),
    Unauthenticated: Meaning(-32010, 401, grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", OUR_DOMAIN),
    TooManyRequests: Meaning(-32011, 429, grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED", OUR_DOMAIN),
    TooLarge: Meaning(-32600, 413, grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE", OUR_DOMAIN),
}


def meaning_of(error: A2AError) -> Meaning:
    """The error in all bindings. One that nobody foresaw is an internal error."""
    kind = type(error)
    if kind in _OURS:
        return _OURS[kind]
    if kind not in A2A_ERROR_MAPPING:
        kind = InternalError
    mapped = A2A_ERROR_MAPPING[kind]
    return Meaning(
        JSON_RPC_ERROR_CODE_MAP[kind], mapped.http_code, grpc.StatusCode[mapped.grpc_status], mapped.reason
    )


def details_of(error: A2AError) -> list[dict[str, Any]]:
    """ErrorInfo, and the fields at fault, in ProtoJSON with their types."""
    meaning = meaning_of(error)
    details: list[dict[str, Any]] = [
        {
            "@type": f"{_TYPE}google.rpc.ErrorInfo",
            "reason": meaning.reason,
            "domain": meaning.domain,
            "metadata": {},
        }
    ]
    violations = [
        {"field": one["field"], "description": one["message"]} for one in (error.data or {}).get("errors", ())
    ]
    if violations:
        details.append({"@type": f"{_TYPE}google.rpc.BadRequest", "fieldViolations": violations})
    return details


def jsonrpc_error(error: A2AError) -> dict[str, Any]:
    """The `error` member of a JSON-RPC response."""
    return {"code": meaning_of(error).jsonrpc, "message": error.message, "data": details_of(error)}


def http_error(error: A2AError) -> tuple[int, dict[str, Any]]:
    """HTTP status and body (AIP-193)."""
    meaning = meaning_of(error)
    return meaning.http, {
        "error": {
            "code": meaning.http,
            "status": meaning.grpc.name,
            "message": error.message,
            "details": details_of(error),
        }
    }


def grpc_status(error: A2AError) -> status_pb2.Status:
    """The rich status of a gRPC answer."""
    meaning = meaning_of(error)
    status = status_pb2.Status(code=meaning.grpc.value[0], message=error.message)
    _add(status, error_details_pb2.ErrorInfo(reason=meaning.reason, domain=meaning.domain))
    violations = [
        error_details_pb2.BadRequest.FieldViolation(field=one["field"], description=one["message"])
        for one in (error.data or {}).get("errors", ())
    ]
    if violations:
        _add(status, error_details_pb2.BadRequest(field_violations=violations))
    return status


def _add(status: status_pb2.Status, detail: Any) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)

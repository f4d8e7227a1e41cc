"""Errors to `google.rpc.Status` and back, without any transport."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import aio
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.client.rpc import STATUS_KEY, from_rpc_error, from_status, to_status, trailers
from indai.protocol.errors import DOMAIN, IndaiError, Reason, Unavailable

TRAILER_BUDGET = 8192
TEXT = st.text(max_size=600)


def failed(code: grpc.StatusCode, details: str = "", status: bytes | None = None) -> aio.AioRpcError:
    metadata = aio.Metadata() if status is None else aio.Metadata((STATUS_KEY, status))
    return aio.AioRpcError(code, aio.Metadata(), metadata, details)


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_every_reason_survives_the_way_over(reason: Reason) -> None:
    status = to_status(IndaiError(reason, "One sentence.", hint="next"))
    error = from_rpc_error(failed(grpc.StatusCode[reason.status.grpc], "", status.SerializeToString()))
    assert (error.reason, error.message, error.hint) == (reason, "One sentence.", "next")


def test_a_status_has_one_error_info_and_at_most_one_bad_request() -> None:
    status = to_status(IndaiError(Reason.INVALID_ARGUMENT, "x", fields={"a": "1", "b": "2"}))
    kinds = [detail.TypeName() for detail in status.details]
    assert kinds == [ErrorInfo.DESCRIPTOR.full_name, BadRequest.DESCRIPTOR.full_name]
    info = ErrorInfo()
    status.details[0].Unpack(info)
    assert (info.domain, info.reason) == (DOMAIN, "INVALID_ARGUMENT")
    assert len(to_status(IndaiError(Reason.NOT_FOUND, "x")).details) == 1


def test_the_longest_error_fits_into_the_trailers() -> None:
    long = "\U0001f64f" * 1000
    many = {f"{i}{long}": long for i in range(50)}
    status = to_status(IndaiError(Reason.INTERNAL, long, hint=long, fields=many, metadata=many))
    [(_, value)] = trailers(status)
    assert len(value) * 4 / 3 + 3 * len(status.message.encode()) < TRAILER_BUDGET


@settings(max_examples=50)
@given(TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=10), st.dictionaries(TEXT, TEXT, max_size=10))
def test_any_error_arrives_printable(
    message: str, hint: str, fields: dict[str, str], metadata: dict[str, str]
) -> None:
    status = to_status(IndaiError(Reason.INTERNAL, message, hint=hint, fields=fields, metadata=metadata))
    back = from_status(status)
    assert back is not None
    assert back.message.isprintable()
    assert back.hint.isprintable()


def test_texts_from_outside_cannot_move_the_cursor() -> None:
    error = from_status(to_status(IndaiError(Reason.INTERNAL, "a\x1b[2Jb\nc", hint="d\re")))
    assert error is not None
    assert (error.message, error.hint) == ("a [2Jb c", "d e")


@pytest.mark.parametrize(
    "status",
    [
        b"\xff\xff",
        Status(code=5, message="x").SerializeToString(),  # another code than the call's
        Status(
            code=14, details=[AnyMessage(type_url="x/google.rpc.ErrorInfo", value=b"\xff")]
        ).SerializeToString(),
    ],
)
def test_a_broken_status_falls_back_to_the_code(status: bytes) -> None:
    error = from_rpc_error(failed(grpc.StatusCode.UNAVAILABLE, "", status), address="h:1")
    assert type(error) is Unavailable
    assert error.reason is Reason.UNREACHABLE


@pytest.mark.parametrize(("domain", "reason"), [("other", "INTERNAL"), (DOMAIN, "NO_SUCH_REASON")])
def test_a_reason_that_is_not_ours_is_not_believed(domain: str, reason: str) -> None:
    status = Status(code=14, message="x")
    status.details.add().Pack(ErrorInfo(domain=domain, reason=reason))
    assert from_status(status) is None


@pytest.mark.parametrize("code", [c for c in grpc.StatusCode if c is not grpc.StatusCode.OK])
def test_every_bare_code_becomes_an_error_that_names_the_address(code: grpc.StatusCode) -> None:
    error = from_rpc_error(failed(code, "secret internals"), address="127.0.0.1:7", method="/a.B/C")
    assert "127.0.0.1:7" in error.message
    assert "internals" not in error.message


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ("failed to connect to all addresses; ... Connection refused (111)", "connection refused"),
        ("DNS resolution failed for nowhere.invalid", "host name is unknown"),
        ("Ssl handshake failed", "TLS handshake failed"),
        ("something new", "Cannot reach h:1."),
    ],
)
def test_an_unreachable_address_is_explained(details: str, words: str) -> None:
    error = from_rpc_error(failed(grpc.StatusCode.UNAVAILABLE, details), address="h:1")
    assert error.reason is Reason.UNREACHABLE
    assert words in error.message
    assert error.hint


def table() -> str:
    """The table of the page, as it must stand there."""
    rows = [f"| `{r.name}` | `{r.status.grpc}` | {r.status.http} | {r.status.exit} |" for r in Reason]
    return "\n".join(["| Reason | gRPC | HTTP | Exit |", "| --- | --- | --- | --- |", *rows])


def test_the_page_of_errors_lists_the_one_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    assert table() in page, f"docs/errors.md must hold this table:\n{table()}"

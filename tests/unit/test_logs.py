"""Structured logs that never hold a secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
import structlog
from indai.client.tls import make_node_identity
from indai.node.auth import new_token
from indai.node.logs import HIDDEN, bound_thread, configure


@contextmanager
def logging_as(form: Literal["json", "console"]) -> Iterator[io.StringIO]:
    """What is logged inside; where logs went before is put back afterwards."""
    root, stream, before = logging.getLogger(), io.StringIO(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    configure(form, "INFO", stream)
    try:
        yield stream
    finally:
        root.handlers[:], root.level = handlers, level
        structlog.configure(**before)


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    with logging_as("json") as stream:
        yield stream


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_has_time_level_and_the_thread(out: io.StringIO) -> None:
    with bound_thread(b"\x01\x02"):
        structlog.get_logger().info("offer sent", peer="ind.ai/bob", move=2)
    structlog.get_logger().info("idle")
    first, second = lines(out)
    assert (first["event"], first["thread"], first["peer"], first["move"]) == (
        "offer sent",
        "0102",
        "ind.ai/bob",
        2,
    )
    assert first["level"] == "info"
    assert str(first["timestamp"]).endswith("Z")
    assert "thread" not in second


@pytest.mark.parametrize(
    "key", ["token", "agent_token", "password", "authorization", "key_pem", "node_key", "seed"]
)
def test_what_is_named_like_a_secret_is_hidden(out: io.StringIO, key: str) -> None:
    structlog.get_logger().warning("x", **{key: "s3cret", "nested": {key: "s3cret"}})
    assert "s3cret" not in out.getvalue()
    assert lines(out)[0][key] == HIDDEN


def test_harmless_names_are_shown(out: io.StringIO) -> None:
    structlog.get_logger().info("x", key_id="ed25519:abc", tokens_used=3, method="/a/b")
    line = lines(out)[0]
    assert (line["key_id"], line["tokens_used"], line["method"]) == ("ed25519:abc", 3, "/a/b")


def test_what_looks_like_a_secret_is_hidden_wherever_it_stands(out: io.StringIO) -> None:
    token, pem = new_token().text, make_node_identity("x").key_pem.decode()
    log = structlog.get_logger()
    log.info(f"called with {token}")
    log.info("x", words=["a", f"Bearer {token}"], text=pem)
    log.info("x", url="postgresql://indai:hunter2@localhost/db")
    try:
        raise RuntimeError(f"bad token {token}")
    except RuntimeError:
        log.exception("failed")
    logging.getLogger("library").warning("token %s", token)
    shown = out.getvalue()
    assert token not in shown
    assert "hunter2" not in shown
    assert pem.splitlines()[1] not in shown
    assert len(lines(out)) == 5


def test_raw_bytes_are_counted_and_not_shown(out: io.StringIO) -> None:
    structlog.get_logger().info("x", payload=b"key material")
    assert lines(out)[0]["payload"] == "[12 bytes]"


def test_the_level_is_kept(out: io.StringIO) -> None:
    structlog.get_logger().debug("too fine")
    assert out.getvalue() == ""


def test_the_console_form_is_one_plain_line_without_a_terminal() -> None:
    with logging_as("console") as out:
        structlog.get_logger().info("ready", port=7400)
    assert "ready" in out.getvalue()
    assert "port=7400" in out.getvalue()
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_no_local_variables(form: Literal["json", "console"]) -> None:
    held = "-".join(("kept", "in", "a", "variable"))
    with logging_as(form) as out:
        try:
            raise RuntimeError(str(len(held)))
        except RuntimeError:
            structlog.get_logger().exception("failed")
    assert "RuntimeError" in out.getvalue()
    assert held not in out.getvalue()

"""Structured logs: JSON for machines, coloured lines for a terminal, never a secret.

A negotiation's id is bound once (`bound_thread`) and stands in every line written below it, in both nodes'
logs. Libraries that use the standard `logging` go through the same processors.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor

HIDDEN: Final = "[secret]"

_SECRET_KEYS: Final = re.compile(
    r"(?:^|_)(?:secret|password|passphrase|authorization|seed|opening|credential)s?(?:$|_)|(?:^|_)token$"
    r"|(?:private|signing|node|sealed)_key|key_pem|database_url|dsn",
    re.IGNORECASE,
)
_SECRET_TEXT: Final = re.compile(
    r"indai_[A-Za-z0-9_-]{20,}"  # our own tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",  # user and password inside a URL
    re.DOTALL,
)


def configure(
    form: Literal["json", "console"] = "json", level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Sends all logs of this process to `stream` (standard error) from `level` on."""
    out = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = [
        structlog.processors.format_exc_info,
        refuse_secrets,
        structlog.processors.JSONRenderer(default=_shown)
        if form == "json"
        # The default formatter prints the locals of every frame, and those hold keys.
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
        ),
    ]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    _route_standard_logging(shared, last, out, number)


@contextmanager
def bound_thread(thread_id: bytes) -> Iterator[None]:
    """Puts a negotiation's id (hex) into every line logged inside."""
    with structlog.contextvars.bound_contextvars(thread=thread_id.hex()):
        yield


def refuse_secrets(_: Any, __: str, event: EventDict) -> EventDict:
    """Hides what is named like a secret, looks like one, or is raw bytes (which may be a key)."""
    return {key: HIDDEN if _SECRET_KEYS.search(key) else _safe(value) for key, value in event.items()}


def _safe(value: Any) -> Any:
    match value:
        case str():
            return _SECRET_TEXT.sub(HIDDEN, value)
        case bytes() | bytearray() | memoryview():
            return f"[{len(value)} bytes]"
        case dict():
            return {
                key: HIDDEN if _SECRET_KEYS.search(str(key)) else _safe(item) for key, item in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [_safe(item) for item in value]
        case int() | float() | None:
            return value
    return _SECRET_TEXT.sub(HIDDEN, repr(value))


def _shown(value: Any) -> str:
    return str(_safe(repr(value)))


def _route_standard_logging(shared: list[Processor], last: list[Processor], out: TextIO, number: int) -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)

"""The threads because of which something is begun, carried beside every call that may begin anything.

An agent that acts on what another has asked passes it on, and each such step is a hop: a third one is
refused, so that nothing runs round a ring of agents. Whoever handles a received thread says so once, around
all that it does; channels that `carry` take it along, and the node counts the hops at whatever call begins a
thread.

    with acting_on(question.thread.thread):
        await stub.RequestShare(...)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from indai.protocol.errors import InvalidInput, Reason

KEY: Final = "indai-because"
"""Of call metadata: the hex ids of the owner's threads, separated by commas."""

MOST: Final = 16
_HEX: Final = 32  # digits of a thread's id

_threads: ContextVar[tuple[str, ...]] = ContextVar("because", default=())


def threads() -> tuple[str, ...]:
    """What is acted on here, as hex ids; none for what an owner wants by themselves."""
    return _threads.get()


@contextmanager
def acting_on(*ids: str) -> Iterator[None]:
    """All that is begun inside is begun because of these threads too; of more than 16 the last ones."""
    before = _threads.set(tuple(dict.fromkeys((*threads(), *ids)))[-MOST:])
    try:
        yield
    finally:
        _threads.reset(before)


def metadata() -> tuple[tuple[str, str], ...]:
    """For a call that is made here."""
    found = threads()
    return ((KEY, ",".join(found)),) if found else ()


def read(given: Any) -> tuple[str, ...]:
    """Out of a call's metadata. Raises InvalidInput for what names no threads."""
    values = [value for key, value in given or () if key == KEY]
    ids = tuple(dict.fromkeys(part for value in values for part in str(value).split(",")))
    if len(ids) > MOST or any(len(each) != _HEX or set(each) - set("0123456789abcdef") for each in ids):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{KEY} names up to {MOST} threads by all {_HEX} digits of their ids, separated by commas.",
        )
    return ids

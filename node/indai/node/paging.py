"""Pages of a list: how many rows, and where the next page begins; ids by the beginning of them.

A token names the last row of a page by its sort key, a number and hexadecimal text, so that rows which come
or go in between neither double nor hide others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

import asyncpg
from indai.protocol.errors import InvalidInput, Reason

MAX_PAGE: Final = 500
MAX_NUMBER: Final = 1 << 62
"""Above every time and id that a token holds."""


def page_size(wanted: int, default: int) -> int:
    """At most MAX_PAGE; 0 means the default."""
    return min(wanted or default, MAX_PAGE)


def next_token(
    rows: Sequence[asyncpg.Record], size: int, key: Callable[[asyncpg.Record], tuple[int, str]]
) -> str:
    """The key of the last row of this page, where `rows` holds one more than the page."""
    return json.dumps(key(rows[size - 1])) if len(rows) > size else ""


def after(token: str, first: tuple[int, str]) -> tuple[int, str]:
    """The key that the page follows; `first` without a token. Raises InvalidInput for what is not ours."""
    if not token:
        return first
    try:
        number, text = json.loads(token)
        bytes.fromhex(text)
        if type(number) is int and 0 <= number <= MAX_NUMBER:
            return number, text
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidInput(Reason.INVALID_ARGUMENT, "The page token is not one of ours.")


def beginning_with(digits: str, length: int) -> tuple[bytes, bytes]:
    """The first and the last of all ids of `length` hexadecimal digits that begin so: an index finds them,
    where text that is made of every id finds them last."""
    return bytes.fromhex(digits.ljust(length, "0")), bytes.fromhex(digits.ljust(length, "f"))

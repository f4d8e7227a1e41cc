"""Bob's page, on a node with a language model and a memory; alice lives on another."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar

from tests.service.web.conftest import Browser, Desks, desks

__all__ = ["desks"]


@contextlib.asynccontextmanager
async def visiting(desks: Desks) -> AsyncIterator[Browser]:
    """Somebody who has never been here."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as http:
        yield Browser(desks.base(desks.b), http)


def events(text: str) -> list[tuple[str, str, Any]]:
    """(id, kind, value) of each event of a stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Every test here shares the module's event loop, since the nodes live on it."""
    for item in items:
        if "service/page" in str(item.path) and inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)

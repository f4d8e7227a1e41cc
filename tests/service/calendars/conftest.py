"""One CalDAV server for all tests here; each test has a user of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.service.calendars.radicale import Radicale, radicale

_users = count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Radicale]:
    base: Path = tmp_path_factory.mktemp("radicale")
    with radicale(base) as running:
        yield running


@pytest.fixture
def user(server: Radicale) -> str:
    name = f"user{next(_users)}"
    server.add_user(name)
    return name

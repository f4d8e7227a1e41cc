"""A memory service for each test that asks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.memory.rooms import Room


@pytest.fixture
def room(database: Any) -> Room:
    """The service over a fresh database."""
    return Room(database.pool)

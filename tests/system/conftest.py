"""What whole processes leave behind, and its removal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory for data of processes. As root, their clusters lie elsewhere: they go as well."""
    directory = tmp_path_factory.mktemp("processes")
    yield directory
    for location in directory.rglob("postgres.location"):
        shutil.rmtree(location.read_text().strip(), ignore_errors=True)

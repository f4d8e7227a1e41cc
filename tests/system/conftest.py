"""Where whole processes of one module keep their data."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for data of processes."""
    return tmp_path_factory.mktemp("processes")

"""A policy, cases and a calendar in files, as an owner has them."""

from __future__ import annotations

from pathlib import Path

import pytest

POLICY = """\
version: 1
timezone: Asia/Kolkata
circles:
  friends: [ind.ai/bob]
rules:
  - id: short
    allow: meet
    with: friends
    duration: { max: 30m }
    hours: 10:00-18:00
    weekdays: mon-fri
  - id: long
    ask: meet
    with: friends
    duration: { min: 31m }
"""
CASES = """\
now: 2026-11-23T08:30
cases:
  - name: half an hour with a friend
    with: ind.ai/bob
    start: 2026-11-24T10:00
    duration: 30m
    expect: permit
  - name: a stranger
    with: ind.ai/eve
    start: 2026-11-24T10:00
    duration: 30m
    expect: {stranger}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with bob.yaml, good.yaml and bad.yaml (cases)."""
    (tmp_path / "bob.yaml").write_text(POLICY)
    (tmp_path / "good.yaml").write_text(CASES.format(stranger="refuse"))
    (tmp_path / "bad.yaml").write_text(CASES.format(stranger="permit"))
    return tmp_path

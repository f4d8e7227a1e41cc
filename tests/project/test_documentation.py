"""Links in the documentation lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


NAMED_TEST = re.compile(r"`([a-z_/]+\.py)?::(test_[a-z0-9_]+)`")


def test_every_test_that_the_fault_table_names_exists() -> None:
    table = (PROJECT / "docs/services/registry.md").read_text("utf-8").partition("## Faults it survives")[2]
    named, path = list(NAMED_TEST.finditer(table)), ""
    assert len(named) > 20
    for match in named:
        path = match[1] or path
        assert f"def {match[2]}(" in (PROJECT / "tests" / path).read_text("utf-8"), match[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []

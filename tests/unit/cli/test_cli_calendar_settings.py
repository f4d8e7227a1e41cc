"""Passwords stay out of command lines, and hours are read as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from indai.cli.calendar_accounts import SECRET, add
from indai.cli.calendar_prefer import day_hours
from indai.protocol.errors import InvalidInput

from tests.unit.cli.runs import run


@pytest.mark.parametrize(
    ("text", "days", "span"),
    [
        ("mon-fri 9-18", [1, 2, 3, 4, 5], (540, 1080)),
        ("Sat 9:30-12:15", [6], (570, 735)),
        ("tue,thu  10-12", [2, 4], (600, 720)),
        ("fri-mon 0-24", [5, 6, 7, 1], (0, 1440)),
    ],
)
def test_hours_are_read_as_people_write_them(text: str, days: list[int], span: tuple[int, int]) -> None:
    found = day_hours(text)
    assert [each.weekday for each in found] == days
    assert {(each.start_minute, each.end_minute) for each in found} == {span}


@pytest.mark.parametrize(
    "text", ["", "9-18", "mon", "someday 9-18", "mon-xyz 9-18", "mon 9am-5pm", "mon 9-18 x"]
)
def test_other_words_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        day_hours(text)
    assert "like" in caught.value.hint


def test_no_option_takes_a_password() -> None:
    names = {name for option in add.params for name in option.opts}
    assert not [name for name in names if "password" in name or name in ("--secret", "--token")]


def test_a_password_comes_from_a_private_file_and_not_from_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SECRET, raising=False)
    path = tmp_path / "secret"
    path.write_text("hunter2\n")
    path.chmod(0o644)
    shown = run("calendar", "add", "https://dav.example.org/", "--user", "a", "--secret-file", str(path))
    assert shown.exit_code == 4
    assert "chmod 600" in shown.stderr
    assert "hunter2" not in shown.output + shown.stderr
    missing = run("calendar", "add", "https://dav.example.org/", "--user", "a", "--secret-file", f"{path}2")
    assert missing.exit_code == 2
    nothing = run("calendar", "add", "https://dav.example.org/", "--user", "a")
    assert nothing.exit_code == 2
    assert SECRET in nothing.stderr

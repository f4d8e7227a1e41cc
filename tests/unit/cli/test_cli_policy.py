"""`indai policy` offline: checked, explained and tested without any node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.audit.worlds import Deal, World
from tests.unit.cli.runs import run, run_json


def test_a_valid_policy_is_said_in_words(files: Path) -> None:
    result = run("policy", "check", str(files / "bob.yaml"))
    assert result.exit_code == 0
    assert "valid." in result.output
    assert "up to 30 min" in result.output


def test_check_as_json_gives_rules_and_hash(files: Path) -> None:
    value = run_json("policy", "check", str(files / "bob.yaml"))
    assert value["valid"] is True
    assert len(value["rules"]) == 2
    assert len(value["policy_hash"]) == 64


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("weekdays: mon-fri", "weekday: mon-fri", "weekday"),
        ("10:00-18:00", "25:00-26:00", "hours"),
        ("Asia/Kolkata", "Mars/Olympus", "timezone"),
    ],
)
def test_a_bad_policy_is_refused_with_its_line(files: Path, old: str, new: str, words: str) -> None:
    path = files / "bob.yaml"
    path.write_text(path.read_text().replace(old, new))
    result = run("policy", "check", str(path))
    assert result.exit_code == 2
    assert words in result.stderr
    assert "line" in result.stderr
    assert result.stdout == ""


def test_every_problem_of_a_policy_is_told_at_once(files: Path) -> None:
    path = files / "bob.yaml"
    path.write_text(path.read_text().replace("weekdays:", "weekday:").replace("10:00-18:00", "nonsense"))
    fields = run_json("policy", "check", str(path))["error"]["fields"]
    assert len(fields) == 2


@pytest.mark.parametrize(
    ("start", "duration", "outcome"),
    [
        ("2026-11-24T10:00", "30m", "permit"),
        ("2026-11-24T10:00", "1h", "ask"),
        ("2026-11-28T10:00", "30m", "refuse"),
    ],
)
def test_explain_answers_as_the_agent_would(files: Path, start: str, duration: str, outcome: str) -> None:
    arguments = ("--with", "ind.ai/bob", "--start", start, "--duration", duration)
    value = run_json("policy", "explain", str(files / "bob.yaml"), *arguments, "--now", "2026-11-23T09:00")
    assert value["outcome"] == outcome
    assert value["words"]


def test_cases_that_pass_give_status_0(files: Path) -> None:
    result = run("policy", "test", str(files / "good.yaml"), "--policy", str(files / "bob.yaml"))
    assert result.exit_code == 0
    assert "2 of 2 cases passed" in result.output


def test_a_case_that_fails_gives_status_1_and_the_reason(files: Path) -> None:
    arguments = ("policy", "test", str(files / "bad.yaml"), "--policy", str(files / "bob.yaml"))
    result = run(*arguments)
    assert result.exit_code == 1
    assert "a stranger: expected permit" in result.output
    assert run_json(*arguments)["failed"] == 1


@pytest.mark.parametrize("text", ["30", "soon", "0m", "25h", ""])
def test_lengths_are_read_or_refused(files: Path, text: str) -> None:
    arguments = ("--with", "ind.ai/bob", "--start", "2026-11-24T10:00", "--duration", text)
    result = run("policy", "explain", str(files / "bob.yaml"), *arguments)
    assert result.exit_code == (0 if text == "30" else 2)


def test_explain_answers_about_other_kinds_from_stated_facts(files: Path) -> None:
    path = files / "pay.yaml"
    path.write_text(
        "version: 1\ntimezone: UTC\nrules:\n"
        "  - { id: small, allow: pay, with: verified, amount: { max: 20 EUR } }\n"
    )
    stated = ("--fact", "direction=request", "--fact", "payee=a@b", "--fact")
    arguments = ("policy", "explain", str(path), "--kind", "pay", "--with", "ind.ai/bob", *stated)
    value = run_json(*arguments, "amount=19.50EUR")
    assert (value["outcome"], value["rules"][-1], value["layer"]) == ("permit", "owner/small", "owner")
    assert "closest rule, 'small'" in run_json(*arguments, "amount=30EUR")["words"]
    assert run(*arguments, "amount=lots").exit_code == 2


def test_lint_gives_status_1_and_names_the_rule(files: Path) -> None:
    path = files / "twice.yaml"
    path.write_text((files / "bob.yaml").read_text() + "  - { id: never, deny: meet }\n")
    assert run("policy", "lint", str(files / "bob.yaml")).exit_code == 0
    result = run("policy", "lint", str(path))
    assert result.exit_code == 1
    assert "'never' refuses all of it" in " ".join(result.output.split())
    assert {one["code"] for one in run_json("policy", "lint", str(path))["findings"]} == {"no-effect"}


def test_a_template_is_listed_shown_and_written_once(files: Path) -> None:
    names = [one["name"] for one in run_json("policy", "templates", "list")["templates"]]
    assert "clinic" in names
    assert "A shop" in run("policy", "templates", "show", "shop").output
    path = files / "mine.yaml"
    arguments = ("policy", "templates", "apply", "shop", str(path), "--timezone", "Asia/Kolkata")
    assert run_json(*arguments)["circles_to_fill"] == ["suppliers"]
    assert "timezone: Asia/Kolkata" in path.read_text()
    assert run("policy", "lint", str(path)).exit_code == 0
    assert run(*arguments).exit_code == 2


def test_past_decisions_are_taken_again_under_other_rules(files: Path, tmp_path: Path) -> None:
    world = World()
    Deal(world).run()
    export, *_ = world.write(tmp_path)
    same, other = tmp_path / "same.yaml", tmp_path / "other.yaml"
    same.write_text(world.policy.source)
    other.write_text("version: 1\ntimezone: UTC\nrules:\n  - { id: off, deny: anything }\n")
    arguments = ("--export", str(export), "--as", "ind.ai/alice")
    result = run("policy", "simulate", str(same), *arguments)
    assert (result.exit_code, "0 of 1 decisions" in result.output) == (0, True)
    result = run("policy", "simulate", str(other), *arguments)
    assert (result.exit_code, "permit -> refuse" in result.output) == (1, True)
    value = run_json("policy", "simulate", str(other), *arguments)
    assert value["transitions"] == {"permit->refuse": 1}
    assert value["differences"][0]["after_rules"] == ["owner/off"]
    later = run_json("policy", "simulate", str(other), *arguments, "--since", "2100-01-01T00:00")
    assert later["decisions"] == 0

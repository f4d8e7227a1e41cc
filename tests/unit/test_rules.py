"""Every rule of the protocol has a test that cites it, and nothing cites a rule that does not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from indai.protocol.rules import RULES

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / name for name in ("proto", "services", "node", "registry", "clients")]
RULE_ID = re.compile(r"[A-Z]{3}-[0-9]{2}")


def python_files(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from (
            path for path in folder.rglob("*.py") if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
        )


def cited_by_tests(source: str) -> set[str]:
    """The ids in calls of `pytest.mark.rule` in `source`."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    marks = (call for call in calls if ast.unparse(call.func) == "pytest.mark.rule")
    return {str(ast.literal_eval(argument)) for call in marks for argument in call.args}


def raised_by_code(source: str) -> set[str]:
    """The string literals in `source` that look like the id of a rule."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str) and RULE_ID.fullmatch(node.value)}


CITED = {
    rule: path for path in python_files([ROOT / "tests"]) for rule in cited_by_tests(path.read_text("utf-8"))
}


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_shown_by_a_test(rule: str) -> None:
    assert rule in CITED, f"no test is marked with rule {rule}: {RULES[rule].text}"


def test_every_rule_a_test_cites_exists() -> None:
    assert {rule: path for rule, path in CITED.items() if rule not in RULES} == {}


def test_every_rule_the_code_names_exists() -> None:
    files = python_files(SOURCES)
    named = {rule: path for path in files for rule in raised_by_code(path.read_text("utf-8"))}
    assert {rule: path for rule, path in named.items() if rule not in RULES} == {}
    assert "ENV-02" in named


def test_a_rule_has_a_well_formed_id_a_sentence_and_a_section() -> None:
    for key, rule in RULES.items():
        assert key == rule.id
        assert RULE_ID.fullmatch(rule.id)
        assert rule.text.endswith(".")
        assert rule.section


def test_the_scans_see_what_they_are_for() -> None:
    assert cited_by_tests('@pytest.mark.rule("ABC-01")\ndef test_x(): pass\n') == {"ABC-01"}
    assert cited_by_tests("def test_x(): pass\n") == set()
    assert raised_by_code('raise E(rule="ABC-02")') == {"ABC-02"}

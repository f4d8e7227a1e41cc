"""The examples of docs/policy-language.md are true, and its tables have every field."""

from __future__ import annotations

import re
from pathlib import Path

from indai.client.obligations import OBLIGATIONS
from indai.policy.cases import run_cases
from indai.policy.compiled import compile_policy
from indai.policy.duties import DUTIES
from indai.policy.fields import FIELDS
from indai.policy.kinds import KINDS
from indai.policy.language import RULE_FIELDS, TOP_FIELDS
from indai.policy.lint import lint
from indai.policy.sectiontext import SECTION_FIELDS

PAGE = (Path(__file__).parents[3] / "docs" / "policy-language.md").read_text(encoding="utf-8")
POLICY, CASES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_compiles_uses_every_field_of_the_file_and_has_no_findings() -> None:
    rules = compile_policy(POLICY).rules["owner"]
    assert [rule.id for rule in rules.rules][:3] == ["short-meetings", "evenings", "no-lunch"]
    assert lint(rules) == []
    for name in TOP_FIELDS:
        assert re.search(rf"^{name}:", POLICY, re.MULTILINE), name


def test_the_tables_have_a_row_for_every_field() -> None:
    rows = set(re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE))))
    wanted = {*TOP_FIELDS, *RULE_FIELDS, *(name for names in SECTION_FIELDS.values() for name in names)}
    assert wanted - {"allow", "ask", "deny"} - rows == set()


def test_the_table_of_conditions_is_the_one_that_the_program_has() -> None:
    for name, field in FIELDS.items():
        kinds = "all" if field.kinds == KINDS else ", ".join(field.kinds)
        assert f"| `{name}` | {kinds} | {field.notation.form} | {field.meaning}" in PAGE


def test_every_obligation_of_a_rule_is_known_to_who_decides() -> None:
    assert set(DUTIES) <= set(OBLIGATIONS)


def test_the_example_cases_pass() -> None:
    results = run_cases(compile_policy(POLICY), "ind.ai/alice", CASES)
    assert [result.words for result in results if not result.passed] == []
    assert len(results) == 5

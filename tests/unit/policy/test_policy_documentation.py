"""The examples of docs/policy-language.md are true, and it names every field."""

from __future__ import annotations

import re
from pathlib import Path

from indai.policy.cases import run_cases
from indai.policy.compiled import compile_policy
from indai.policy.language import RULE_FIELDS, TOP_FIELDS

PAGE = (Path(__file__).parents[3] / "docs" / "policy-language.md").read_text(encoding="utf-8")
POLICY, CASES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_compiles_and_uses_every_field() -> None:
    (first, evenings, lunch) = compile_policy(POLICY).rules["owner"].rules
    assert (first.id, evenings.id, lunch.id) == ("short-meetings", "evenings", "no-lunch")
    for name in (*TOP_FIELDS, *RULE_FIELDS):
        assert re.search(rf"^[ -]*{name}:", POLICY, re.MULTILINE), name
        assert f"`{name}`" in PAGE


def test_the_example_cases_pass() -> None:
    results = run_cases(compile_policy(POLICY), "ind.ai/alice", CASES)
    assert [result.words for result in results if not result.passed] == []
    assert len(results) == 3

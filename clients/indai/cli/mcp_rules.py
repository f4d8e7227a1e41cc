"""The policy engine as the MCP tools use it: rules are read and asked here, without the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from indai.cli.errors import wrong
from indai.mcp.session import Verdict
from indai.policy.cases import read_fact, split
from indai.policy.compiled import OWNER, compile_policy, decide
from indai.policy.explain import explain
from indai.policy.facts import Facts
from indai.policy.kinds import KINDS, Value
from indai.policy.sentences import sentences
from indai.policy.values import Problem


@dataclass(frozen=True, slots=True)
class LocalRules:
    """See `indai.mcp.session.Rules`."""

    clock: Callable[[], int]

    def check(self, yaml: str) -> tuple[str, ...]:
        """Every rule in words. Raises InvalidInput(INVALID_POLICY)."""
        return tuple(sentences(compile_policy(yaml).rules[OWNER]))

    def explain(
        self, yaml: str, kind: str, peer: str, start_ms: int, end_ms: int, facts: Mapping[str, str]
    ) -> Verdict:
        """What the rules answer to a verified peer. Raises InvalidInput."""
        if kind not in KINDS:
            raise wrong(f"There is no kind {kind[:32]!r}.", f"one of {', '.join(KINDS)}")
        compiled = compile_policy(yaml)
        stated = Facts(
            peer=peer,
            start_ms=start_ms,
            end_ms=end_ms,
            now_ms=self.clock(),
            verified=True,
            kind=kind,
            **split(_read(kind, facts)),
        )
        decided = decide(compiled, OWNER, stated)
        evaluation = decided.evaluation
        return Verdict(evaluation.outcome.value, explain(compiled, decided), tuple(evaluation.rules))


def _read(kind: str, facts: Mapping[str, str]) -> dict[str, Value]:
    stated: dict[str, Value] = {}
    for name, text in facts.items():
        try:
            stated |= read_fact(kind, name, text)
        except Problem as problem:
            raise wrong(f"The fact {name[:64]} {problem}.", "write it like amount: 200INR") from None
    return stated

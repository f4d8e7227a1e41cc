"""An owner's rules as values: what the YAML says, before it becomes Cedar. See docs/policy-language.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from indai.client.decisions import Outcome
from indai.policy.conditions import Limits
from indai.policy.peers import matches
from indai.policy.rule import ANYONE, VERIFIED, Effect, Rule
from indai.policy.sections import Section

__all__ = ["ANYONE", "VERIFIED", "Effect", "Limits", "Rule", "Rules"]


@dataclass(frozen=True)
class Rules:
    """A whole policy. `circles`, `relationships`: name -> handles and handle patterns. `rules` are those
    written as rules; `sections` are written shorter and mean rules too; `every` is all of them.
    """

    time_zone: str
    rules: tuple[Rule, ...]
    circles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unmatched: Outcome = Outcome.REFUSE
    language: str = ""
    relationships: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    currency: str = ""
    sections: tuple[Section, ...] = ()

    @cached_property
    def every(self) -> tuple[Rule, ...]:
        """The rules, those of the sections after those that are written as rules."""
        return (*self.rules, *(rule for section in self.sections for rule in section.rules()))

    def concerns(self, rule: Rule, peer: str, verified: bool) -> bool:
        """Whether one of the rule's terms names this peer."""
        if ANYONE in rule.peers or (verified and VERIFIED in rule.peers):
            return True
        return any(
            matches(pattern, peer) for term in rule.peers for pattern in self.circles.get(term, (term,))
        )

    def relationship(self, peer: str) -> str:
        """What the peer is to the owner, by the first list that names them; "" if none does."""
        for name, patterns in self.relationships.items():
            if any(matches(pattern, peer) for pattern in patterns):
                return name
        return ""

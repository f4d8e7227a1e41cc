"""An owner's rules as values: what the YAML says, before it becomes Cedar. See docs/policy-language.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from indai.client.decisions import Outcome
from indai.policy.peers import matches
from indai.policy.values import Hours

ANYONE, VERIFIED = "anyone", "verified"


class Effect(StrEnum):
    """What a rule does with the requests it matches."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Limits:
    """Minutes, both ends included; None is no limit."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A condition that is not set matches everything.

    `peers`: circle names, handles, handle patterns, ANYONE or VERIFIED: any of them. `hours` and `weekdays`
    are local to the owner: an ALLOW rule covers a meeting that lies wholly inside, ASK and DENY match one
    that touches them. `daily_limit`: matches while fewer meetings than this are agreed on the local day of
    the start.
    """

    id: str
    effect: Effect
    peers: tuple[str, ...] = (ANYONE,)
    say: str = ""
    duration: Limits = Limits()
    notice: Limits = Limits()
    hours: tuple[Hours, ...] = ()
    weekdays: tuple[str, ...] = ()
    daily_limit: int | None = None
    obligations: Mapping[str, str] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """A whole policy. `circles`: name -> handles and handle patterns."""

    time_zone: str
    rules: tuple[Rule, ...]
    circles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unmatched: Outcome = Outcome.REFUSE
    language: str = ""

    def concerns(self, rule: Rule, peer: str, verified: bool) -> bool:
        """Whether one of the rule's terms names this peer."""
        if ANYONE in rule.peers or (verified and VERIFIED in rule.peers):
            return True
        return any(
            matches(pattern, peer) for term in rule.peers for pattern in self.circles.get(term, (term,))
        )

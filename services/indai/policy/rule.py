"""One rule as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from indai.policy.conditions import Condition, Limits
from indai.policy.kinds import MEET
from indai.policy.values import Hours

ANYONE, VERIFIED = "anyone", "verified"
NO_LIMITS = Limits()


class Effect(StrEnum):
    """What a rule does with the requests it matches. ADVISE only adds obligations to what others permit."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    ADVISE = "advise"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A condition that is not set matches everything.

    `peers`: circle names, handles, handle patterns, ANYONE or VERIFIED: any of them. `hours` and `weekdays`
    are local to the owner: an ALLOW rule covers a meeting that lies wholly inside, ASK and DENY match one
    that touches them. `daily_limit`: matches while fewer meetings than this are agreed on the local day of
    the start. `where`: further conditions by name, see `indai.policy.fields`.
    """

    id: str
    effect: Effect
    peers: tuple[str, ...] = (ANYONE,)
    say: str = ""
    duration: Limits = NO_LIMITS
    notice: Limits = NO_LIMITS
    hours: tuple[Hours, ...] = ()
    weekdays: tuple[str, ...] = ()
    daily_limit: int | None = None
    obligations: Mapping[str, str] = field(default_factory=dict)
    line: int = field(default=0, compare=False)
    kinds: tuple[str, ...] = (MEET,)
    where: Mapping[str, Condition] = field(default_factory=dict)

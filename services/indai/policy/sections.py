"""Parts of a policy that are written shorter than rules: visibility, budgets, tone, escalation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from indai.policy.conditions import Amount, Below, Cap, Condition, Flag, Words
from indai.policy.fields import FIELDS
from indai.policy.kinds import ASK, KINDS, SHARE
from indai.policy.rule import ANYONE, Effect, Rule
from indai.policy.values import Hours

CALENDAR_LEVELS = ("busy", "titles", "details")
LIMITS = ("per_payment", "per_day", "per_month", "per_payee", "payments")
# The condition of a rule that a budget's limit is about.
CONDITION_OF = {"per_payment": "amount"}


@dataclass(frozen=True, slots=True)
class Visibility:
    """What some peers may have. `calendar`: "" or one of CALENDAR_LEVELS, each of which includes those
    before it.
    """

    id: str
    peers: tuple[str, ...]
    profile: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    calendar: str = ""
    redact: tuple[str, ...] = ()
    where: Mapping[str, Condition] = field(default_factory=dict)
    line: int = field(default=0, compare=False)

    def rules(self) -> tuple[Rule, ...]:
        """One rule that shares, and one that answers questions about the memories."""
        levels = CALENDAR_LEVELS[: CALENDAR_LEVELS.index(self.calendar) + 1] if self.calendar else ()
        items = [f"profile/{name}" for name in self.profile]
        items += [name if name.startswith("tag/") else f"document/{name}" for name in self.documents]
        items += [f"memory/{name}" for name in self.memories] + [f"calendar/{name}" for name in levels]
        share = Rule(
            self.id,
            Effect.ALLOW,
            self.peers,
            kinds=(SHARE,),
            where={"items": Words(tuple(items)), **self.where},
            obligations={"redact": ",".join(self.redact)} if self.redact else {},
            line=self.line,
        )
        topics: dict[str, Condition] = {"topic": Words(self.memories), "request": Flag(on=False)}
        topics |= {name: value for name, value in self.where.items() if ASK in FIELDS[name].kinds}
        duty = {"cite_sources": "yes", **share.obligations}
        answer = replace(share, id=f"{self.id}-answers", kinds=(ASK,), where=topics, obligations=duty)
        return (share, answer) if self.memories else (share,)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits that no rule of the layer goes beyond: `limits` by a name of LIMITS; what exceeds one is
    refused, or asked about.
    """

    id: str
    kinds: tuple[str, ...]
    limits: Mapping[str, Amount | Cap | Below]
    beyond: Effect = Effect.DENY
    peers: tuple[str, ...] = (ANYONE,)
    line: int = field(default=0, compare=False)

    def rules(self) -> tuple[Rule, ...]:
        """One rule for each limit, which matches what exceeds it."""
        return tuple(self._rule(name, limit) for name, limit in self.limits.items())

    def _rule(self, name: str, limit: Condition) -> Rule:
        condition = CONDITION_OF.get(name, name)
        kinds = tuple(kind for kind in self.kinds if kind in FIELDS[condition].kinds)
        where = {condition: limit}
        slug = f"{self.id}-{name.replace('_', '-')}"
        return Rule(slug, self.beyond, self.peers, kinds=kinds, where=where, line=self.line)


@dataclass(frozen=True, slots=True)
class Tone:
    """How the agent speaks to some peers: words for the runtime, and a language tag."""

    id: str
    peers: tuple[str, ...]
    style: str = ""
    language: str = ""
    where: Mapping[str, Condition] = field(default_factory=dict)
    line: int = field(default=0, compare=False)

    def rules(self) -> tuple[Rule, ...]:
        """One rule that only adds obligations."""
        given = {"tone": self.style, "language": self.language}
        duties = {name: value for name, value in given.items() if value}
        return (
            Rule(
                self.id,
                Effect.ADVISE,
                self.peers,
                kinds=KINDS,
                where=self.where,
                obligations=duties,
                line=self.line,
            ),
        )


@dataclass(frozen=True, slots=True)
class Escalation:
    """How the owner is asked. `deadline`: minutes until silence means no, 0 for the node's own; in
    `quiet_hours` questions wait; `notify`: "", "now" or "quietly"; `via`: a channel's name or "".
    """

    id: str
    peers: tuple[str, ...] = (ANYONE,)
    kinds: tuple[str, ...] = KINDS
    deadline: int = 0
    quiet_hours: tuple[Hours, ...] = ()
    notify: str = ""
    via: str = ""
    where: Mapping[str, Condition] = field(default_factory=dict)
    line: int = field(default=0, compare=False)

    def rules(self) -> tuple[Rule, ...]:
        """One rule that only adds obligations, which count when the owner is asked."""
        given = {
            "ask_within": f"{self.deadline}m" if self.deadline else "",
            "quiet_hours": ",".join(str(hours) for hours in self.quiet_hours),
            "notify": self.notify,
            "via": self.via,
        }
        duties = {name: value for name, value in given.items() if value}
        return (
            Rule(
                self.id,
                Effect.ADVISE,
                self.peers,
                kinds=self.kinds,
                where=self.where,
                obligations=duties,
                line=self.line,
            ),
        )


Section = Visibility | Budget | Tone | Escalation

"""Guardrails in code: what goes out is checked again, whatever the prompt said and the model did.

A rule blocks (the sentence is replaced by the persona's own words), rewrites (what offends is taken out) or
only logs. Checks are patterns over sentences (`indai.runtime.checks`), in English, Hindi in both scripts, and
the languages of the catalogue's personas. A pattern can't judge meaning; it errs on the side of the rule, and
every hit is a row that a person can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from indai.runtime.checks import Facts, breaks, rewritten
from indai.runtime.patterns import has_price, sentences
from indai.runtime.tiers import Guardrail


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that what was to be said broke."""

    tier: str
    rule: Guardrail
    sentence: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What may be said. `blocked`: the sentence is gone and the persona's own words are wanted instead."""

    text: str
    hits: tuple[Hit, ...]
    blocked: bool

    @property
    def tells_price(self) -> bool:
        """Whether a price is told: the cooldown counts from it."""
        return has_price(self.text)


Rules = Sequence[tuple[str, Guardrail]]
"""Rules with the tier each belongs to."""


def check(text: str, rules: Rules, facts: Facts) -> Checked:
    """Check a piece of text that is about to go out, sentence by sentence."""
    kept: list[str] = []
    hits: list[Hit] = []
    blocked = False
    for sentence in sentences(text):
        shown: str | None = sentence
        for tier, rule in rules:
            if shown is None or not breaks(rule, shown, facts):
                continue
            hits.append(Hit(tier, rule, shown))
            if rule.severity == "block":
                shown, blocked = None, True
            elif rule.severity == "rewrite":
                shown = rewritten(rule, shown) or None
        if shown:
            kept.append(shown)
    return Checked(" ".join(kept), tuple(hits), blocked)


def merged(*tiers: tuple[str, Iterable[Guardrail]]) -> list[tuple[str, Guardrail]]:
    """The rules of all tiers, HUMAN, TEAM, AGENT: those that block come first, whatever tier they are of."""
    rules = [(tier, rule) for tier, given in tiers for rule in given]
    order = {"block": 0, "rewrite": 1, "log": 2}
    return sorted(rules, key=lambda each: order[each[1].severity])

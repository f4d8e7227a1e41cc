"""Rules in words: a sentence for each, the owner's own or one made from its conditions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from indai.policy.conditions import Limits
from indai.policy.duties import DUTIES
from indai.policy.fields import FIELDS, ordered
from indai.policy.kinds import KINDS, NOUNS
from indai.policy.rules import ANYONE, VERIFIED, Effect, Rule, Rules
from indai.policy.values import WEEKDAYS, spoken

DAY_NAMES = dict(zip(WEEKDAYS, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), strict=True))
MAX_LISTED = 4
_ADVICE = {
    "tone": "speak like this: {}",
    "language": "speak {}",
    "ask_within": "wait {} for my answer",
    "quiet_hours": "leave me alone at {}",
    "notify": "tell me {}",
    "via": "ask over {}",
}


def sentences(rules: Rules) -> list[str]:
    """Every rule of a policy, also those that its sections stand for."""
    return [sentence(rule) for rule in rules.every]


def sentence(rule: Rule) -> str:
    """The rule as a line of a list: what it does, and to what."""
    verb = {
        Effect.ALLOW: "Allow",
        Effect.ASK: "Ask me about",
        Effect.DENY: "Never",
        Effect.ADVISE: "In",
    }[rule.effect]
    return f"{rule.id}: {rule.say}" if rule.say else f"{rule.id}: {verb} {describe(rule)}"


def describe(rule: Rule) -> str:
    """The rule in words: the owner's own, or generated from its conditions."""
    if rule.say:
        return rule.say
    what = " ".join([nouns(rule.kinds), *spoken_limits(rule.duration, "of"), spoken_peers(rule)])
    days = [spoken_days(rule.weekdays)] if rule.weekdays else []
    when = [" ".join([*days, " and ".join(str(hours) for hours in rule.hours)]).strip()]
    notice = [f"{words} ahead" for words in spoken_limits(rule.notice, "")]
    limit = [f"at most {rule.daily_limit} a day"] if rule.daily_limit is not None else []
    where = [FIELDS[name].notation.words(value) for name, value in ordered(rule.where)]
    return ", ".join([what, *filter(None, when), *notice, *limit, *where, *_spoken_obligations(rule)])


def nouns(kinds: Sequence[str]) -> str:
    """`meetings`, `payments and bookings`, `anything`."""
    if tuple(kinds) == KINDS:
        return "anything"
    names = [NOUNS[kind] for kind in kinds]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def spoken_limits(limits: Limits, before: str) -> list[str]:
    """`of 5 min to 30 min`, in a list; nothing for no limit."""
    low, high = limits.min or 0, limits.max
    if low and high is not None:
        words = f"{spoken(low)} to {spoken(high)}"
    elif high is not None:
        words = f"up to {spoken(high)}"
    elif low:
        words = f"at least {spoken(low)}"
    else:
        return []
    return [f"{before} {words}".strip()]


def spoken_peers(rule: Rule) -> str:
    """`with friends or ind.ai/bob`."""
    if ANYONE in rule.peers:
        return "with anyone"
    shown = ["verified peers" if peer == VERIFIED else peer for peer in rule.peers[:MAX_LISTED]]
    more = [f"{len(rule.peers) - MAX_LISTED} more"] if len(rule.peers) > MAX_LISTED else []
    return f"with {' or '.join([*shown, *more])}"


def spoken_days(weekdays: Sequence[str]) -> str:
    """`Mon to Fri`, `Mon, Wed and Thu`: runs of three or more days as a span."""
    numbered = enumerate(WEEKDAYS.index(day) for day in weekdays)
    runs = [[day for _, day in run] for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0])]
    words: list[str] = []
    for run in runs:
        names = [DAY_NAMES[WEEKDAYS[day]] for day in run]
        words += [f"{names[0]} to {names[-1]}"] if len(names) > 2 else names
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _spoken_obligations(rule: Rule) -> list[str]:
    said = []
    for name, value in rule.obligations.items():
        words = DUTIES[name].said if name in DUTIES else _ADVICE[name]
        said.append(words.format(value.strip()))
    return said

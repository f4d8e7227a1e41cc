"""Whether one rule matches all that another matches: sets of peers, hours and days, ranges, words.

The answer `True` is certain. `False` may also mean that it takes more than these two rules to see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from indai.policy.conditions import Limits
from indai.policy.fields import FIELDS
from indai.policy.peers import matches
from indai.policy.rules import ANYONE, VERIFIED, Effect, Rule, Rules
from indai.policy.values import Hours


def covers(rules: Rules, wide: Rule, narrow: Rule) -> bool:
    """Whether every request that `narrow` matches is matched by `wide`; both of one layer."""
    return (
        set(narrow.kinds) <= set(wide.kinds)
        and _peers_cover(rules, wide.peers, narrow.peers)
        and _limits_cover(wide.duration, narrow.duration)
        and _limits_cover(wide.notice, narrow.notice)
        and _times_cover(wide, narrow)
        and _counts_cover(wide.daily_limit, narrow.daily_limit)
        and all(
            name in narrow.where and FIELDS[name].notation.covers(value, narrow.where[name])
            for name, value in wide.where.items()
        )
    )


def apart(one: Rule, other: Rule) -> bool:
    """Whether no request can match both, by their ranges alone."""
    pairs = [(one.duration, other.duration), (one.notice, other.notice)]
    for name, value in one.where.items():
        if isinstance(value, Limits) and isinstance(other.where.get(name), Limits):
            pairs.append((value, other.where[name]))  # type: ignore[arg-type]
    return any(_disjoint(left, right) or _disjoint(right, left) for left, right in pairs)


def _disjoint(low: Limits, high: Limits) -> bool:
    return low.max is not None and high.min is not None and low.max < high.min


def _peers_cover(rules: Rules, wide: Sequence[str], narrow: Sequence[str]) -> bool:
    if ANYONE in wide:
        return True
    patterns = _patterns(rules, wide)
    return ANYONE not in narrow and all(
        (name == VERIFIED and VERIFIED in wide) or any(matches(pattern, name) for pattern in patterns)
        for name in _patterns(rules, narrow)
    )


def _patterns(rules: Rules, terms: Iterable[str]) -> list[str]:
    # A circle that nobody is in yet stands for itself: who comes into it is in no other.
    return [pattern for term in terms for pattern in rules.circles.get(term) or (term,)]


def _limits_cover(wide: Limits, narrow: Limits) -> bool:
    low = wide.min is None or (narrow.min is not None and narrow.min >= wide.min)
    return low and (wide.max is None or (narrow.max is not None and narrow.max <= wide.max))


def _counts_cover(wide: int | None, narrow: int | None) -> bool:
    return wide is None or (narrow is not None and narrow <= wide)


def _times_cover(wide: Rule, narrow: Rule) -> bool:
    """A rule that wants everything inside its hours never covers one that is content with a touch."""
    if not wide.hours and not wide.weekdays:
        return True
    if _inside(wide) and not _inside(narrow):
        return False
    days = not wide.weekdays or (bool(narrow.weekdays) and set(narrow.weekdays) <= set(wide.weekdays))
    return days and _hours_cover(wide.hours, narrow.hours)


def _inside(rule: Rule) -> bool:
    return rule.effect in (Effect.ALLOW, Effect.ADVISE)


def _hours_cover(wide: Sequence[Hours], narrow: Sequence[Hours]) -> bool:
    if not wide:
        return True
    return bool(narrow) and all(
        any(outer.start <= inner.start and inner.end <= outer.end for outer in wide) for inner in narrow
    )

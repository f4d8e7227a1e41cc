"""When a meeting may be: time spans derived from the rules, so that a negotiator proposes slots that will
be permitted.

Nothing here decides: Cedar judges the concrete slot. The spans follow the same rules by another way (interval
arithmetic over the *starts* of meetings of the given length), and a test holds the two against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from indai.client.decisions import Outcome
from indai.policy.compiled import OWNER, CompiledPolicy
from indai.policy.facts import Facts
from indai.policy.fields import holds
from indai.policy.intervals import Interval, Intervals, intersect, subtract, union
from indai.policy.kinds import MEET
from indai.policy.localtime import (
    DAY_MS,
    MAX_MS,
    MIN_MS,
    MINUTE_MS,
    Piece,
    local_day,
    pieces_by_day,
    weekday_of,
    zone_of,
)
from indai.policy.rules import Effect, Rule, Rules
from indai.policy.values import MINUTES_PER_DAY, Hours
from indai.protocol.errors import InvalidInput, Reason

MAX_RANGE_MS = 366 * DAY_MS
_NOTHING_ELSE = Facts("", 0, 0, 0)
_WHOLE_DAY = (Hours(0, MINUTES_PER_DAY),)


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A meeting of `duration_ms` looked for between `start_ms` and `end_ms` (ms since the epoch).

    `agreed_ms`: starts of meetings agreed or reserved already; they count against daily limits. `about`: what
    else is known; its peer and times are not looked at. `relationship`: what the owner's lists say.
    """

    peer: str
    duration_ms: int
    start_ms: int
    end_ms: int
    now_ms: int
    verified: bool = False
    agreed_ms: Sequence[int] = ()
    about: Facts = _NOTHING_ELSE
    relationship: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """Any slot of the asked length inside [start_ms, end_ms] gets this outcome: PERMIT or ASK."""

    start_ms: int
    end_ms: int
    outcome: Outcome


def allowed_windows(policy: CompiledPolicy, facts: WindowFacts) -> list[Window]:
    """Spans in order of time. Raises InvalidInput(INVALID_ARGUMENT) for a range that is none, or beyond 366
    days.
    """
    _check(facts)
    facts = replace(facts, relationship=policy.rules[OWNER].relationship(facts.peer))
    calendar = _Calendar(policy.time_zone, facts)
    whole: Intervals = union([(facts.start_ms, facts.end_ms - facts.duration_ms + 1)])
    permit = possible = whole
    for rules in policy.rules.values():
        layer_permit, layer_ask = _layer(rules, facts, calendar, whole)
        permit = intersect(permit, layer_permit)
        possible = intersect(possible, union([*layer_permit, *layer_ask]))
    starts = [(part, Outcome.PERMIT) for part in permit]
    starts += [(part, Outcome.ASK) for part in subtract(possible, permit)]
    return [Window(first, end - 1 + facts.duration_ms, outcome) for (first, end), outcome in sorted(starts)]


def _check(facts: WindowFacts) -> None:
    fields = {}
    if facts.duration_ms <= 0:
        fields["duration"] = "must be longer than nothing"
    if not MIN_MS <= facts.start_ms <= facts.end_ms <= MAX_MS:
        fields["end_ms"] = "must not be before the start, and both between 1970 and 9999"
    elif facts.end_ms - facts.start_ms > MAX_RANGE_MS:
        fields["end_ms"] = "must be at most 366 days after the start"
    if fields:
        name, why = next(iter(fields.items()))
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{name} {why}", fields=fields)


class _Calendar:
    """The owner's local days around the range, each with its pieces of constant offset, and how full they
    are.
    """

    def __init__(self, time_zone: str, facts: WindowFacts) -> None:
        self._zone = zone_of(time_zone)
        self._facts = facts

    @cached_property
    def days(self) -> dict[int, list[Piece]]:
        """By number; worked out for rules that look at days, which many don't."""
        # Whole days: a slot at an edge of the range is judged by everything its days hold.
        start, end = max(0, self._facts.start_ms - 2 * DAY_MS), self._facts.end_ms + 2 * DAY_MS
        cut = pieces_by_day(self._zone, start, end)
        return {day: [piece for _, piece in pieces] for day, pieces in groupby(cut, key=lambda part: part[0])}

    @cached_property
    def agreed(self) -> Counter[int]:
        """Meetings by day."""
        return Counter(local_day(self._zone, at) for at in self._facts.agreed_ms)

    def spans(self, day: int, hours: Hours) -> Intervals:
        """The instants at which the day's clock shows these hours; two where an hour is repeated outside of
        them."""
        return union(
            (
                max(piece.start, day * DAY_MS + hours.start * MINUTE_MS - piece.offset),
                min(piece.end, day * DAY_MS + hours.end * MINUTE_MS - piece.offset),
            )
            for piece in self.days[day]
        )

    def jumps(self, day: int, hours: Hours) -> Iterable[int]:
        """Instants within the day at which the clock jumps over, or back over, some of these hours."""
        for before, after in zip(self.days[day], self.days[day][1:], strict=False):
            shown = before.end + before.offset - day * DAY_MS, after.start + after.offset - day * DAY_MS
            if hours.start * MINUTE_MS < max(shown) and hours.end * MINUTE_MS > min(shown):
                yield after.start


def _layer(
    rules: Rules, facts: WindowFacts, calendar: _Calendar, whole: Intervals
) -> tuple[Intervals, Intervals]:
    """Starts that the layer permits, and those it asks about."""
    by_effect: Mapping[Effect, list[Interval]] = {effect: [] for effect in Effect}
    for rule in rules.every:
        if rule.effect is not Effect.ADVISE and _concerns(rules, rule, facts):
            by_effect[rule.effect].extend(_starts(rule, facts, calendar, whole))
    grant, ask, deny = (union(by_effect[effect]) for effect in (Effect.ALLOW, Effect.ASK, Effect.DENY))
    if rules.unmatched is Outcome.ASK:
        ask = union([*ask, *subtract(whole, grant)])
    return subtract(subtract(grant, ask), deny), subtract(ask, deny)


def _concerns(rules: Rules, rule: Rule, facts: WindowFacts) -> bool:
    """Conditions that do not depend on when: whom with, and how long."""
    shortest, longest = rule.duration.min, rule.duration.max
    long_enough = shortest is None or facts.duration_ms >= shortest * MINUTE_MS
    short_enough = longest is None or facts.duration_ms <= longest * MINUTE_MS
    if not (MEET in rule.kinds and long_enough and short_enough):
        return False
    if not rules.concerns(rule, facts.peer, facts.verified):
        return False
    about = facts.about.values(facts.relationship) if rule.where else {}
    return all(holds(name, value, about) for name, value in rule.where.items())


def _starts(rule: Rule, facts: WindowFacts, calendar: _Calendar, whole: Intervals) -> Intervals:
    """Starts of meetings that the rule matches."""
    starts = intersect(whole, _noticed(rule, facts.now_ms))
    if rule.hours or rule.weekdays:
        when = _inside if rule.effect is Effect.ALLOW else _touching
        starts = intersect(starts, when(rule, calendar, facts.duration_ms))
    if rule.daily_limit is not None:
        full = [day for day, count in calendar.agreed.items() if count >= rule.daily_limit]
        starts = subtract(starts, union(_whole_day(calendar, day) for day in full if day in calendar.days))
    return starts


def _noticed(rule: Rule, now_ms: int) -> Intervals:
    earliest = -(10**18) if rule.notice.min is None else now_ms + rule.notice.min * MINUTE_MS
    latest = 10**18 if rule.notice.max is None else now_ms + rule.notice.max * MINUTE_MS
    return union([(earliest, latest + 1)])


def _whole_day(calendar: _Calendar, day: int) -> Interval:
    return calendar.days[day][0].start, calendar.days[day][-1].end


def _days_of(rule: Rule, calendar: _Calendar) -> list[int]:
    return [day for day in calendar.days if not rule.weekdays or weekday_of(day) in rule.weekdays]


def _inside(rule: Rule, calendar: _Calendar, duration_ms: int) -> Intervals:
    """The meeting lies in one window, or in the last of a day and the first of the next, joined at
    midnight.
    """
    joined: Intervals = []
    for day in _days_of(rule, calendar):
        midnight = _whole_day(calendar, day)[0]
        spans = [span for hours in rule.hours or _WHOLE_DAY for span in calendar.spans(day, hours)]
        for start, end in sorted(spans):
            # Only across midnight: two windows of one day never become one, even when a skipped hour lets
            # them touch.
            if joined and joined[-1][1] == start == midnight:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
    return union((start, end - duration_ms + 1) for start, end in joined)


def _touching(rule: Rule, calendar: _Calendar, duration_ms: int) -> Intervals:
    """The meeting overlaps a window, or runs over an instant at which the clock jumps over one."""
    touched: Intervals = []
    for day in _days_of(rule, calendar):
        for hours in rule.hours or _WHOLE_DAY:
            touched.extend(calendar.spans(day, hours))
            touched.extend((jump, jump) for jump in calendar.jumps(day, hours))
    return union((start - duration_ms + 1, end) for start, end in touched)

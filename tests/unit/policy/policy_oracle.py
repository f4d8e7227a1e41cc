"""The meaning of the rules, told a second time: minute by minute, without Cedar or interval arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from indai.client.decisions import Outcome
from indai.policy.facts import MeetFacts
from indai.policy.rules import Effect, Limits, Rule, Rules

MINUTE = 60_000
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def expected(platform: Rules, owner: Rules, facts: MeetFacts) -> Outcome:
    zone = ZoneInfo(owner.time_zone)
    answers = [_one_layer(rules, facts, zone) for rules in (platform, owner)]
    for outcome in (Outcome.REFUSE, Outcome.ASK):
        if outcome in answers:
            return outcome
    return Outcome.PERMIT


def _one_layer(rules: Rules, facts: MeetFacts, zone: ZoneInfo) -> Outcome:
    matching = {rule.effect for rule in rules.rules if _matches(rules, rule, facts, zone)}
    if Effect.DENY in matching:
        return Outcome.REFUSE
    if Effect.ASK in matching:
        return Outcome.ASK
    return Outcome.PERMIT if Effect.ALLOW in matching else rules.unmatched


def _matches(rules: Rules, rule: Rule, facts: MeetFacts, zone: ZoneInfo) -> bool:
    if not any(_names(rules, peer, facts) for peer in rule.peers):
        return False
    if not _in(rule.duration, facts.end_ms - facts.start_ms):
        return False
    if not _in(rule.notice, facts.start_ms - facts.now_ms):
        return False
    if rule.daily_limit is not None and facts.already_that_day >= rule.daily_limit:
        return False
    shown = _clock_faces(facts, zone)
    if rule.effect is Effect.ALLOW:
        return all(_shows(rule, day, hull) for day, hull in shown.items()) and _one_window(rule, shown)
    return any(_shows_some(rule, day, hull) for day, hull in shown.items())


def _names(rules: Rules, peer: str, facts: MeetFacts) -> bool:
    if peer == "anyone" or (peer == "verified" and facts.verified):
        return True
    for handle in rules.circles.get(peer, (peer,)):
        if handle == facts.peer:
            return True
        if "*" in handle:
            head, tail = handle.split("*")
            if facts.peer.startswith(head) and facts.peer.endswith(tail):
                return True
    return False


def _in(limits: Limits, span_ms: int) -> bool:
    low = limits.min is None or span_ms >= limits.min * MINUTE
    return low and (limits.max is None or span_ms <= limits.max * MINUTE)


def _clock_faces(facts: MeetFacts, zone: ZoneInfo) -> dict[str, tuple[int, int]]:
    """ISO date -> (first, last) minute shown by a clock on the owner's wall during the meeting."""
    faces: dict[str, list[int]] = {}
    at = datetime.fromtimestamp(facts.start_ms // 1000, UTC)
    end = datetime.fromtimestamp(max(facts.end_ms, facts.start_ms + MINUTE) // 1000, UTC)
    while at < end:
        local = at.astimezone(zone)
        faces.setdefault(local.date().isoformat(), []).append(local.hour * 60 + local.minute)
        at += timedelta(minutes=1)
    return {day: (min(minutes), max(minutes)) for day, minutes in faces.items()}


def _weekday(day: str) -> str:
    return DAYS[datetime.fromisoformat(day).weekday()]


def _shows(rule: Rule, day: str, hull: tuple[int, int]) -> bool:
    if rule.weekdays and _weekday(day) not in rule.weekdays:
        return False
    return not rule.hours or any(hours.start <= hull[0] and hull[1] < hours.end for hours in rule.hours)


def _shows_some(rule: Rule, day: str, hull: tuple[int, int]) -> bool:
    if rule.weekdays and _weekday(day) not in rule.weekdays:
        return False
    return not rule.hours or any(hull[0] < hours.end and hull[1] >= hours.start for hours in rule.hours)


def _one_window(rule: Rule, shown: dict[str, tuple[int, int]]) -> bool:
    """Limited hours never cover a whole day in the middle."""
    return not rule.hours or len(shown) <= 2

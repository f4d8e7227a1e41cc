"""From facts to what Cedar is asked: one canonical JSON request, and the entities of the peer.

The host states facts; local time, weekdays and circles are derived here, so that every caller derives them
alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indai.client.decisions import canonical_json
from indai.policy.cedar import circle_id
from indai.policy.localtime import DAY_MS, MAX_MS, MIN_MS, LocalDay, touched_days, zone_of
from indai.policy.peers import matches
from indai.policy.rules import Rules
from indai.protocol.errors import InvalidInput, Reason

MAX_SPAN_MS = 31 * DAY_MS  # longer than any layer allows; bounds the walk over local days


@dataclass(frozen=True, slots=True)
class MeetFacts:
    """A concrete meeting with `peer` (a handle, canonical; "" for an anonymous visitor). Times in ms since
    the epoch.

    `already_that_day`: meetings agreed or reserved on the owner's local day of the start. `outgoing`: our
    owner asked for it. `channel`: where it came from, e.g. `agent` or `web`.
    """

    peer: str
    start_ms: int
    end_ms: int
    now_ms: int
    verified: bool = False
    already_that_day: int = 0
    channel: str = "agent"
    outgoing: bool = False


def request_json(owner: str, facts: MeetFacts, time_zone: str) -> str:
    """The Cedar request. Raises InvalidInput(INVALID_ARGUMENT) for times outside 1970 to 9999 or longer than
    31 days.
    """
    _check_span(facts)
    days = touched_days(zone_of(time_zone), facts.start_ms, facts.end_ms)
    context = {
        "start_ms": facts.start_ms,
        "end_ms": facts.end_ms,
        "now_ms": facts.now_ms,
        "first": _day(days[0]),
        "last": _day(days[-1]),
        "weekdays": _weekdays(days),
        "between": _weekdays(days[1:-1]),
        "already_that_day": facts.already_that_day,
        "channel": facts.channel,
        "outgoing": facts.outgoing,
    }
    return canonical_json(
        {
            "principal": {"type": "Peer", "id": facts.peer},
            "action": {"type": "Action", "id": "meet"},
            "resource": {"type": "Agent", "id": owner},
            "context": context,
        }
    )


def entities_json(peer: str, verified: bool, layers: Mapping[str, Rules]) -> str:
    """The peer with every circle of every layer that names it: the snapshot a replay needs, and no more."""
    circles = [
        {"type": "Circle", "id": circle_id(layer, circle)}
        for layer, rules in layers.items()
        for circle, patterns in rules.circles.items()
        if any(matches(pattern, peer) for pattern in patterns)
    ]
    uid = {"type": "Peer", "id": peer}
    entities: list[object] = [{"uid": circle, "attrs": {}, "parents": []} for circle in circles]
    entities.append({"uid": uid, "attrs": {"handle": peer, "verified": verified}, "parents": circles})
    return canonical_json(entities)


def _check_span(facts: MeetFacts) -> None:
    times = {"start_ms": facts.start_ms, "end_ms": facts.end_ms, "now_ms": facts.now_ms}
    wrong = {name: "not between 1970 and 9999" for name, at in times.items() if not MIN_MS <= at <= MAX_MS}
    if facts.end_ms - facts.start_ms > MAX_SPAN_MS:
        wrong["end_ms"] = "more than 31 days after the start"
    if wrong:
        name, why = next(iter(wrong.items()))
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"the meeting's {name} is {why}", fields=wrong)


def _day(day: LocalDay) -> dict[str, object]:
    return {"weekday": day.weekday, "start": day.start, "end": day.end}


def _weekdays(days: Sequence[LocalDay]) -> list[str]:
    return sorted({day.weekday for day in days})

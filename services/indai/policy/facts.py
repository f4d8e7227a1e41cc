"""From facts to what Cedar is asked: one canonical JSON request, and the entities of the peer.

The host states facts; local time, weekdays and circles are derived here, in the owner's zone, so that every
caller derives them alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from indai.client.decisions import canonical_json
from indai.policy.cedar import circle_id
from indai.policy.kinds import COMMON, KINDS, MEET, TIMED, Value, check_common, complete, types_of
from indai.policy.localtime import DAY_MS, MAX_MS, MIN_MS, LocalDay, touched_days
from indai.policy.peers import matches
from indai.policy.rules import Rules
from indai.protocol.errors import InvalidInput, Reason

MAX_SPAN_MS = 31 * DAY_MS  # longer than any layer allows; bounds the walk over local days


@dataclass(frozen=True, slots=True)
class Facts:
    """Something the agent is about to do with `peer` (a handle, canonical; "" for an anonymous visitor).

    `start_ms`, `end_ms`: the time of a meeting or booking; for what happens now, `now_ms` (ms since the
    epoch). `already_that_day`: of this kind, agreed or reserved on the owner's local day of the start.
    `outgoing`: our owner asked for it. `channel`: where it came from, e.g. `agent` or `web`. `details`: the
    facts of its own kind, see `indai.policy.kinds`.
    """

    peer: str
    start_ms: int
    end_ms: int
    now_ms: int
    verified: bool = False
    already_that_day: int = 0
    channel: str = "agent"
    outgoing: bool = False
    kind: str = MEET
    door: str = "agent"
    relationship: str = ""
    known_days: int = 0
    trust: int = 0
    hops: int = 0
    depth: int = 0
    from_peer_today: int = 0
    details: Mapping[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, peer: str, now_ms: int, details: Mapping[str, Value], **common: Any) -> Facts:
        """About a kind that happens now, or has its times in `common`."""
        times = {"start_ms": now_ms, "end_ms": now_ms} | common
        return cls(peer=peer, now_ms=now_ms, kind=kind, details=details, **times)

    def values(self, relationship: str = "") -> dict[str, Value]:
        """Every fact by its name in a condition. Raises InvalidInput(INVALID_ARGUMENT) for a wrong one.

        `relationship`: what the owner's own lists say; it counts before what the host states.
        """
        common: dict[str, Value] = {name: getattr(self, name) for name in COMMON}
        common["relationship"] = relationship or self.relationship
        check_common(common)
        return common | complete(self.kind, self.details)


def request_json(owner: str, facts: Facts, time_zone: str, relationship: str = "") -> str:
    """The Cedar request. Raises InvalidInput(INVALID_ARGUMENT) for times outside 1970 to 9999 or longer than
    31 days, and for facts that are missing or wrong.
    """
    return written(request_of(owner, facts, time_zone, relationship))


def written(request: Mapping[str, Any]) -> str:
    """Canonical JSON of what `request_of` gives: sorted keys, no white space."""
    action, principal, resource = (
        canonical_json(request[name]) for name in ("action", "principal", "resource")
    )
    head = f'{{"action":{action},"context":{request["context"]},"principal":{principal}'
    return f'{head},"resource":{resource}}}'


def request_of(owner: str, facts: Facts, time_zone: str, relationship: str = "") -> dict[str, Any]:
    """The same as the engine takes it, with the context as canonical JSON."""
    _check_span(facts)
    days = touched_days(_zone(time_zone), facts.start_ms, facts.end_ms)
    context: dict[str, object] = {
        "start_ms": facts.start_ms,
        "end_ms": facts.end_ms,
        "now_ms": facts.now_ms,
        "first": _day(days[0]),
        "last": _day(days[-1]),
        "weekdays": _weekdays(days),
        "between": _weekdays(days[1:-1]),
        "already_that_day": facts.already_that_day,
    }
    return {
        "principal": {"type": "Peer", "id": facts.peer},
        "action": {"type": "Action", "id": facts.kind},
        "resource": {"type": "Agent", "id": owner},
        "context": canonical_json(context | facts.values(relationship)),
    }


def facts_of(request: str, entities: str) -> Facts | None:
    """The facts behind a recorded request, also of an older version; None if it is none of ours."""
    try:
        parsed, known = json.loads(request), json.loads(entities)
        kind, context = parsed["action"]["id"], parsed["context"]
        peer = str(parsed["principal"]["id"])
        verified = any(one["uid"]["id"] == peer and one["attrs"].get("verified") is True for one in known)
        common: Any = {name: context[name] for name in COMMON if name in context}
        names = types_of(kind) if kind in KINDS else {}
        details: Any = {name: _value(context[name]) for name in names if name in context}
        times: Any = {
            name: int(context[name]) for name in ("start_ms", "end_ms", "now_ms", "already_that_day")
        }
        return Facts(peer=peer, verified=verified, kind=kind, details=details, **times, **common)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


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


def _check_span(facts: Facts) -> None:
    times = {"start_ms": facts.start_ms, "end_ms": facts.end_ms, "now_ms": facts.now_ms}
    wrong = {name: "not between 1970 and 9999" for name, at in times.items() if not MIN_MS <= at <= MAX_MS}
    if facts.end_ms - facts.start_ms > MAX_SPAN_MS:
        wrong["end_ms"] = "more than 31 days after the start"
    if facts.kind not in TIMED and not facts.start_ms == facts.end_ms == facts.now_ms:
        wrong["start_ms"] = "not now, and only a meeting or a booking has a time of its own"
    if wrong:
        name, why = next(iter(wrong.items()))
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"the {facts.kind}'s {name} is {why}", fields=wrong)


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _value(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _day(day: LocalDay) -> dict[str, object]:
    return {"weekday": day.weekday, "start": day.start, "end": day.end}


def _weekdays(days: Sequence[LocalDay]) -> list[str]:
    return sorted({day.weekday for day in days})

"""Meetings: set one up, move it, call it off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from indai.mcp.values import stamp
from indai.protocol.errors import InvalidInput, Reason
from indai.tools.desk import Desk, Desks, request_id, settle
from indai.tools.files import Keep
from indai.tools.intents.common import (
    ACTS,
    MINUTES,
    THREAD,
    TIME,
    TIMEOUT_S,
    WHEN,
    WITH,
    arguments,
    shown,
    zone_of,
)
from indai.tools.intents.handing import with_invitation
from indai.tools.normalise import local_time, one_line
from indai.tools.people import People
from indai.tools.values import Act, Caller, Effect, Progress, Spec
from indai.tools.when import When, read_when
from indai.v1 import group_pb2, intents_pb2, negotiation_pb2, owner_pb2

MINUTE_MS: Final = 60_000
TITLE: Final = {
    "type": "string",
    "maxLength": 200,
    "description": "What it is about; the other side reads it.",
    "x-label": "About",
}
_LIVE: Final = (
    owner_pb2.COMMITMENT_STATE_COMMITTED,
    owner_pb2.COMMITMENT_STATE_OVERDUE,
)
_OPEN: Final = (
    owner_pb2.THREAD_STATE_NEGOTIATING,
    owner_pb2.THREAD_STATE_ASKING_OWNER,
    owner_pb2.THREAD_STATE_ON_HOLD,
)


@dataclass(frozen=True, slots=True)
class Meet:
    """Asks the agents of one or several for a meeting."""

    desks: Desks
    people: People
    keep: Keep

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "meet",
            "Set up a meeting or call with one or several people. Their agents answer within seconds.",
            arguments(
                ("with",),
                **{"with": WITH, "duration_minutes": MINUTES, "when": WHEN, "time": TIME, "title": TITLE},
                place={"type": "string", "maxLength": 200, "x-label": "Place"},
            ),
            THREAD,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
            files=True,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        desk, minutes = self.desks(caller.owner), int(arguments.get("duration_minutes", 30))
        peers = await self.people.all(caller, desk, arguments["with"])
        when = read_when(
            arguments.get("when", "") or ("" if arguments.get("time") else "this week"),
            arguments.get("time", ""),
            minutes,
            caller.now_ms,
            zone_of(caller),
        )
        made = {
            "peers": list(peers),
            "minutes": minutes,
            "windows": [[each.start_ms, each.end_ms] for each in when.windows],
            "words": when.words,
            "title": one_line(arguments.get("title") or "Meeting", 200),
            "place": one_line(arguments.get("place", ""), 200),
        }
        return Act(made, _terms(f"Ask {', '.join(peers)} for {minutes} minutes", made, when, caller))

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, peers = self.desks(caller.owner), list(arguments["peers"])
        await progress(f"asking {', '.join(peers)} for {arguments['minutes']} minutes {arguments['words']}")
        # Not the windows: what is left of today is another stretch when a turn is taken up again.
        once = request_id(
            caller, "meet", *peers, *(arguments[name] for name in ("words", "minutes", "title"))
        )
        start = _start_one if len(peers) == 1 else _start_several
        thread = await settle(desk, await start(desk, once, peers, arguments), progress)
        result = await with_invitation(desk, self.keep, await shown(caller, desk, thread))
        return result if len(peers) == 1 else result | {"with": ", ".join(peers)}


async def _start_one(
    desk: Desk, once: str, peers: list[str], arguments: Mapping[str, Any]
) -> owner_pb2.Thread:
    wish = intents_pb2.MeetWish(
        title=arguments["title"],
        duration_minutes=arguments["minutes"],
        windows=[intents_pb2.Window(start_ms=start, end_ms=end) for start, end in arguments["windows"]],
        place=arguments["place"],
    )
    propose = negotiation_pb2.Propose(meet=wish)
    request = owner_pb2.StartIntentRequest(request_id=once, peer=peers[0], wish=propose)
    return (await desk.owner.StartIntent(request)).thread


async def _start_several(
    desk: Desk, once: str, peers: list[str], arguments: Mapping[str, Any]
) -> owner_pb2.Thread:
    request = group_pb2.StartGroupRequest(
        request_id=once,
        peers=peers,
        title=arguments["title"],
        duration_minutes=arguments["minutes"],
        start_time=stamp(arguments["windows"][0][0]),
        end_time=stamp(arguments["windows"][-1][1]),
        place=arguments["place"],
    )
    return (await desk.groups.StartGroup(request)).thread


@dataclass(frozen=True, slots=True)
class MoveMeeting:
    """Asks to move a meeting that stands."""

    desks: Desks
    people: People
    keep: Keep

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "move-meeting",
            "Move a meeting that stands to another time. The old one stands until both have agreed.",
            arguments(
                ("when",),
                **{
                    "with": WITH,
                    "from": {**WHEN, "x-label": "Of"},
                    "when": {**WHEN, "x-label": "To"},
                    "time": TIME,
                },
            ),
            THREAD,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
            files=True,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        desk = self.desks(caller.owner)
        old = await _the_one(caller, desk, self.people, arguments, "from", open_too=False)
        minutes = (old.end_time.ToMilliseconds() - old.start_time.ToMilliseconds()) // MINUTE_MS
        days = arguments["when"] or _same_day(old, caller)
        when = read_when(days, arguments.get("time", ""), minutes, caller.now_ms, zone_of(caller))
        first = when.windows[0]
        made = {
            "thread_id": old.thread_id,
            "with": old.peer,
            "start_ms": first.start_ms,
            "end_ms": first.end_ms,
            "words": when.words,
        }
        was = local_time(old.start_time.ToMilliseconds(), zone_of(caller))
        return Act(
            made,
            f"Ask {old.peer} to move the meeting of {was}\n  to: {when.words}\n"
            f"  about: {one_line(old.title)}",
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk = self.desks(caller.owner)
        await progress(f"asking {arguments['with']} to move it to {arguments['words']}")
        request = owner_pb2.RescheduleCommitmentRequest(
            request_id=request_id(caller, "move-meeting", arguments["thread_id"], arguments["start_ms"]),
            thread_id=arguments["thread_id"],
            start_time=stamp(arguments["start_ms"]),
            end_time=stamp(arguments["end_ms"]),
        )
        thread = await settle(desk, (await desk.owner.RescheduleCommitment(request)).thread, progress)
        if thread.state == owner_pb2.THREAD_STATE_COMMITTED:
            # The old one ends a message later; whoever says "cancel it" next means the new one.
            old = owner_pb2.GetThreadRequest(thread_id=arguments["thread_id"])
            await settle(desk, (await desk.owner.GetThread(old)).thread, progress, _is_off)
            off = arguments["thread_id"]
        else:
            off = ""
        return await with_invitation(desk, self.keep, await shown(caller, desk, thread), off)


@dataclass(frozen=True, slots=True)
class CancelMeeting:
    """Calls a meeting off, or takes a request for one back."""

    desks: Desks
    people: People
    keep: Keep

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "cancel-meeting",
            "Call a meeting off, or take back a request for one.",
            arguments(
                (),
                **{"with": WITH, "when": {**WHEN, "x-label": "Of"}, "time": TIME},
                say={
                    "type": "string",
                    "maxLength": 300,
                    "description": "One sentence for the other side.",
                    "x-label": "Say",
                },
            ),
            THREAD,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
            files=True,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        desk = self.desks(caller.owner)
        found = await _the_one(caller, desk, self.people, arguments, "when", open_too=True)
        agreed = bool(found.commitment_state)
        at = _start(found, caller)
        made = {
            "thread_id": found.thread_id,
            "with": found.peer,
            "agreed": agreed,
            "say": one_line(arguments.get("say", ""), 300),
        }
        what = (
            f"Call off the meeting with {found.peer}" if agreed else f"Take back the request to {found.peer}"
        )
        return Act(
            made, f"{what}\n  {at}\n  about: {one_line(found.title)}\n  say: {made['say'] or 'nothing'}"
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, thread_id = self.desks(caller.owner), arguments["thread_id"]
        await progress(f"calling it off with {arguments['with']}")
        if arguments["agreed"]:
            cancel = owner_pb2.CancelCommitmentRequest(thread_id=thread_id, sentence=arguments["say"])
            begun = (await desk.owner.CancelCommitment(cancel)).thread
            thread, off = await settle(desk, begun, progress, _is_off), thread_id
        else:
            withdraw = owner_pb2.WithdrawThreadRequest(thread_id=thread_id)
            thread, off = (await desk.owner.WithdrawThread(withdraw)).thread, ""
        return await with_invitation(desk, self.keep, await shown(caller, desk, thread), off)


async def _the_one(
    caller: Caller, desk: Desk, people: People, arguments: Mapping[str, Any], day: str, *, open_too: bool
) -> owner_pb2.Thread:
    """The one meeting that is meant. Raises InvalidInput with a question for the person."""
    peer = await people.one(caller, desk, arguments["with"]) if arguments.get("with") else ""
    found = [each for each in await _standing(caller, desk, open_too=open_too) if peer in ("", each.peer)]
    if arguments.get(day):
        clock = arguments.get("time", "") if day == "when" else ""
        found = _on(found, read_when(arguments[day], clock, 1, caller.now_ms, zone_of(caller)))
    if not found:
        whom = f" with {peer}" if peer else ""
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"You have no such meeting{whom}.", metadata={"code": "NO_SUCH_MEETING"}
        )
    if len(found) > 1:
        each = [f"{one.peer}, {_start(one, caller) or 'not agreed'}" for one in found[:6]]
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"Which meeting: {'; '.join(each)}?",
            metadata={"code": "AMBIGUOUS_MEETING"},
        )
    return found[0]


async def _standing(caller: Caller, desk: Desk, *, open_too: bool) -> list[owner_pb2.Thread]:
    agreed = await desk.owner.ListCommitments(owner_pb2.ListCommitmentsRequest(page_size=500))
    found = [
        each
        for each in agreed.threads
        if each.kind == "meet"
        and each.commitment_state in _LIVE
        and each.end_time.ToMilliseconds() > caller.now_ms
    ]
    if open_too:
        threads = (await desk.owner.ListThreads(owner_pb2.ListThreadsRequest(page_size=200))).threads
        found += [each for each in threads if each.kind == "meet" and each.outgoing and each.state in _OPEN]
    return sorted(found, key=lambda each: each.start_time.ToMilliseconds() or 1 << 62)


def _is_off(thread: owner_pb2.Thread) -> bool:
    return thread.commitment_state not in _LIVE


def _on(found: list[owner_pb2.Thread], when: When) -> list[owner_pb2.Thread]:
    return [
        each
        for each in found
        if any(one.start_ms <= each.start_time.ToMilliseconds() < one.end_ms for one in when.windows)
    ]


def _start(thread: owner_pb2.Thread, caller: Caller) -> str:
    if not thread.start_time.seconds:
        return ""
    return local_time(thread.start_time.ToMilliseconds(), zone_of(caller))


def _same_day(thread: owner_pb2.Thread, caller: Caller) -> str:
    """`2026-11-24` in the caller's zone."""
    at = thread.start_time.ToMilliseconds() / 1000
    return f"{datetime.fromtimestamp(at, zone_of(caller)):%Y-%m-%d}"


def _terms(head: str, made: Mapping[str, Any], when: When, caller: Caller) -> str:
    zone = zone_of(caller)
    lines = [head, f"  {when.words}"]
    for window in when.windows[:3]:
        lines.append(
            f"  {local_time(window.start_ms, zone)} to {local_time(window.end_ms, zone)} ({zone.key})"
        )
    if len(when.windows) > 3:
        lines.append(f"  and {len(when.windows) - 3} more such times")
    lines.append(f"  about: {made['title']}")
    if made["place"]:
        lines.append(f"  at: {made['place']}")
    return "\n".join(lines)

"""What lets a conversation at the public door end in a meeting: a tool that asks as the form of a page does.

The owner's rules for strangers decide (`indai.node.visiting`), whatever the model says of the visitor. There
are two of it, by what a channel tells of people: on a page nobody is known, so they are asked for a name and
an address first; a messenger or telephone knows whom it carries. Somebody who has an agent at this node is
asked by that agent first: a model at another's door begins nothing in their name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from indai.memory.translit import romanise
from indai.node.agents import Agents
from indai.node.throttle import Throttle
from indai.node.visiting import Visits
from indai.page.meeting import Asked, Slot
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.protocol.handles import Handle
from indai.tools.files import CALENDAR, FILES
from indai.tools.intents.common import MINUTES, TIME, WHEN, WITH, arguments
from indai.tools.intents.handing import INVITATION
from indai.tools.normalise import one_line
from indai.tools.values import Caller, Effect, Progress, Spec, Status, Touch
from indai.tools.words import said

NAME: Final = "meet-owner"
NAME_HERE: Final = "meet-owner-here"
ASKS, ASKS_MS = 6, 3_600_000  # of one visitor
KNOWN_BY: Final = frozenset({"whatsapp", "telegram", "slack", "voice"})
USUAL_MINUTES: Final = 30
REACHED: Final = "At which e-mail address can you be reached?"
"""Asked again when an address is none, in the words of the built-in provider, which goes on from them."""
_ADDRESS: Final = re.compile(
    r"[^@\s\"<>]{1,64}@[^@\s\"<>]{1,180}\.[^@\s\"<>.]{2,24}|\+?[0-9][0-9 ()-]{5,20}[0-9]"
)
_OWNER: Final = ("you", "your", "owner", "him", "her", "them", "aap", "आप")
_TITLE: Final = {
    "type": "string",
    "maxLength": 200,
    "description": "What it is about, in the visitor's words.",
    "x-label": "About",
}
_WHO: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 100,
    "description": "What the visitor is called, as they said.",
    "x-label": "Name",
}
_CONTACT: Final = {
    "type": "string",
    "minLength": 3,
    "maxLength": 200,
    "description": "The visitor's e-mail address or telephone number, as they said.",
    "x-label": "Contact",
    "x-unkept": True,
}
_SENT: Final = "The invitation goes to your number on WhatsApp."
_NOT_SENT: Final = "An invitation cannot be sent to a telephone; {who} has your number."
_HEARD: Final = "You get the answer on WhatsApp."
_CALLED: Final = "The answer cannot be sent to a telephone; {who} has your number."
_STATES: Final = {"booked": "booked", "waiting": "waiting", "needs_you": "waits for your word"}
_RESULT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "state": {"type": "string", "x-format": "code", "x-names": _STATES, "x-importance": 3},
        "with": {"type": "string", "x-importance": 3},
        "when": {"type": "string", "x-importance": 3},
        "minutes": {"type": "integer", "x-importance": 2},
        "invitation": {"type": "string", "x-importance": 3},
        "told": {"type": "string", "x-label": "and", "x-importance": 3},
        "files": FILES,
        "where": {"type": "string", "x-label": "why", "x-importance": 3},
    },
    "required": ["state"],
}

Link = Callable[[str, Slot], Awaitable[str]]
"""The address at which a visitor of a handle sees their meeting, and takes it into their own calendar."""


@dataclass(frozen=True, slots=True)
class MeetOwner:
    """See the module. `known`: the one for channels that know whom they carry."""

    visits: Visits
    agents: Agents
    link: Link
    throttle: Throttle
    known: bool

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        who = {} if self.known else {"name": _WHO, "contact": _CONTACT}
        return Spec(
            NAME_HERE if self.known else NAME,
            "Set up a meeting of the visitor with the owner of this agent. The owner's rules decide at once.",
            arguments(
                tuple(who),
                **{"with": WITH, "duration_minutes": MINUTES, "when": WHEN, "time": TIME},
                **{"title": _TITLE, **who},
            ),
            _RESULT,
            Effect.ACT,
            frozenset({Touch.OUTSIDE}),
            doors=frozenset({"public"}),
            channels=KNOWN_BY if self.known else frozenset({"web"}),
            timeout_s=20.0,
            files=True,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. The same wish of the same turn is one meeting."""
        owner = caller.owner
        if with_whom := arguments.get("with", ""):
            _check_owner(with_whom, owner)
        number = await self.visits.callers.number(caller.person, caller.channel)
        asked = self._asked(caller, arguments, number)
        if not self.throttle.admits((owner, caller.person), caller.now_ms):
            raise Refused(Reason.RATE_LIMITED, "You asked for enough meetings for now.", hint="try later")
        if caller.verified and caller.person in self.agents and caller.person != owner:
            return await self._by_their_agent(caller, asked)
        await progress(f"looking for {asked.minutes} minutes")
        state, slot = await self.visits.ask_as(caller, asked)
        booked = state == "booked"
        found: dict[str, Any] = {
            "state": "booked" if booked else "waiting",
            "with": owner,
            "when": slot.when,
            "minutes": asked.minutes,
        }
        if number:  # an address that is read out is no use to anybody
            return found | {"told": await self._told(caller, number, booked=booked)}
        found["invitation"] = await self.link(owner, slot)
        if booked:
            file = self.visits.invitation(owner, slot)
            found["files"] = [await self.visits.keep(INVITATION, CALENDAR, file)]
        return found

    async def _told(self, caller: Caller, number: str, *, booked: bool) -> str:
        """What a caller hears of how they get the invitation, or the answer."""
        if await self.visits.callers.writes(caller.owner, number):
            words = _SENT if booked else _HEARD
        else:
            words = _NOT_SENT if booked else _CALLED
        return said(words, caller.language, who=caller.owner)

    def _asked(self, caller: Caller, arguments: Mapping[str, Any], number: str) -> Asked:
        contact = arguments.get("contact", "")
        if not self.known and not _ADDRESS.fullmatch(contact.strip()):
            raise InvalidInput(Reason.INVALID_ARGUMENT, REACHED, metadata={"code": "NO_ADDRESS"})
        minutes, when = int(arguments.get("duration_minutes", USUAL_MINUTES)), arguments.get("when", "")
        time, title = arguments.get("time", ""), arguments.get("title", "")
        wish = "\0".join((caller.turn, str(minutes), when, time, title))
        return Asked(
            one_line(arguments.get("name") or caller.called or "Somebody", 100),
            contact.strip() or _reached(caller, number),
            minutes,
            when or ("" if time else "this week"),
            time,
            title,
            hashlib.sha256(wish.encode()).digest()[:10],
            caller.channel,
        )

    async def _by_their_agent(self, caller: Caller, asked: Asked) -> Mapping[str, Any]:
        """Their own agent asks them, at their own door: the question and its code are theirs alone."""
        found = await self.visits.for_member(caller.person, caller.owner, asked, confirm=True)
        if found.status is Status.FAILED:
            raise Refused(Reason.POLICY_DENIED, "Your own agent could not ask for this meeting.")
        return {"state": "needs_you", "with": caller.owner, "where": "your agent asks you in your own inbox"}


def _reached(caller: Caller, number: str) -> str:
    return f"{number}, as the network says" if number else f"the conversation on {caller.channel}"


def _check_owner(named: str, owner: str) -> None:
    """A door makes meetings with its owner alone. Raises InvalidInput."""
    handle = Handle.parse(owner)
    own = {owner, *handle.name.split("-"), *(handle.sub or "").split("-"), *_OWNER}
    heard = {word.strip(".,!?@").casefold() for word in named.split()}
    if not own & {*heard, *(romanise(word) for word in heard)}:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"Here I make meetings with {owner} alone.",
            hint="ask at the page of whom you want to meet",
            metadata={"code": "NOT_HERE"},
        )


def visitor_tools(visits: Visits, agents: Agents, link: Link) -> tuple[MeetOwner, MeetOwner]:
    """Both, which count a visitor's wishes together."""
    one = MeetOwner(visits, agents, link, Throttle(ASKS, ASKS_MS), known=False)
    return one, replace(one, known=True)

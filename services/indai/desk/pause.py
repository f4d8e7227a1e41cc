"""The pause switch: a rule in the owner's `agent` layer that stands above what their own rules permit.

It is an ordinary rule, so it pauses every way into the agent, is part of each decision that is taken
meanwhile, and an auditor finds it. What the owner wrote into that layer themselves stays as it is around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from indai.desk.frame import ROLES, Frame
from indai.desk.rules import active
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import owner_pb2
from indai.web.visit import Visit

LAYER: Final = "agent"
WAYS: Final = {
    "ask": """\
  - id: desk-paused
    say: "Paused: everything waits for my word"
    ask: anything
    with: anyone
""",
    "refuse": """\
  - id: desk-paused
    say: "Paused: nothing new is taken on"
    deny: anything
    with: anyone
""",
}
_BEGIN: Final = "  # paused at the desk: from here\n"
_END: Final = "  # paused at the desk: to here\n"
_BLOCK: Final = re.compile(rf"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)
_RULES: Final = re.compile(r"^rules:[ ]*(?:#.*)?\n", re.MULTILINE)
_EMPTY: Final = "version: 1\nrules:\n"


class Pause:
    """The page and acts of pausing."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._owner = frame, frame.calls.owner

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk/pause", ROLES, self.page),
            site.act("/desk/pause/on", ROLES, self.pause),
            site.act("/desk/pause/off", ROLES, self.resume),
        )

    async def page(self, visit: Visit) -> web.StreamResponse:
        """Whether it is paused, and the switch."""
        return await self._frame.page(
            visit, "pause.html", "/desk/pause", paused=way_of(await self._layer(visit))
        )

    async def pause(self, visit: Visit) -> web.StreamResponse:
        """Put the rule in."""
        way = visit.said("way")
        if way not in WAYS:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "Paused is: ask me everything, or refuse everything.")
        await self._set(visit, paused(await self._layer(visit), way))
        return visit.go("/desk/pause", "paused")

    async def resume(self, visit: Visit) -> web.StreamResponse:
        """Take the rule out."""
        await self._set(visit, resumed(await self._layer(visit)))
        return visit.go("/desk/pause", "resumed")

    async def _layer(self, visit: Visit) -> str:
        now = await active(self._frame, visit)
        layers = now.version.layers if now else []
        return next((one.yaml for one in layers if one.name == LAYER), "")

    async def _set(self, visit: Visit, text: str) -> None:
        request = owner_pb2.ActivatePolicyRequest(yaml=text, layer=LAYER)
        await self._owner.ActivatePolicy(request, metadata=visit.metadata)


def way_of(text: str) -> str:
    """`ask`, `refuse`, or nothing for a layer that does not pause."""
    block = _BLOCK.search(text)
    return next((way for way, rule in WAYS.items() if block and rule in block[0]), "")


def paused(text: str, way: str) -> str:
    """The layer's text with the rule in it. Raises InvalidInput where it has no place for one."""
    own = resumed(text)
    block = _BEGIN + WAYS[way] + _END
    into = own or _EMPTY
    head = _RULES.search(into)
    if head is None:
        raise InvalidInput(
            Reason.INVALID_POLICY,
            "Your rules for this agent have no list of rules to pause in.",
            hint="begin the list with a line `rules:`",
        )
    return into[: head.end()] + block + into[head.end() :]


def resumed(text: str) -> str:
    """The layer's text without the rule; nothing, which removes the layer, where pausing made it."""
    rest = _BLOCK.sub("", text)
    return "" if rest == _EMPTY else rest

"""Who may use which tool: layers that only ever narrow. Pure.

    allowed = platform ∩ organisation ∩ agent ∩ session, and by door and channel

The platform's and the organisations' lists are an operator's file; the agent's list is its binding's tools;
a session may be narrowed further, and loses a tool that failed too often. A list that isn't there lets
everything through; a list that is there and empty, nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import yaml
from indai.protocol.errors import InvalidInput, Reason
from indai.tools.values import Caller, Spec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
MAX_FILE = 64 * 1024


class Layer(BaseModel):
    """One list. `allow`: only these, where it is said; `deny`: never these; `doors`: further lists by door,
    `channels` by channel."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    allow: frozenset[Slug] | None = None
    deny: frozenset[Slug] = frozenset()
    doors: dict[Literal["private", "public", "distribution"], frozenset[Slug]] = {}
    channels: dict[str, frozenset[Slug]] = {}

    def lets(self, name: str, door: str, channel: str) -> bool:
        """Whether a tool passes this layer."""
        if name in self.deny or (self.allow is not None and name not in self.allow):
            return False
        at_door, on_channel = self.doors.get(door), self.channels.get(channel)  # type: ignore[call-overload]
        return (at_door is None or name in at_door) and (on_channel is None or name in on_channel)


class Place(BaseModel):
    """A tool of another MCP server."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    server: str
    tool: str


class Lists(BaseModel):
    """The file: the platform's layer, and one for each organisation by the slug of its tenant; tools under
    repair; names of the agents' own for tools of other MCP servers."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    version: Literal[1] = 1
    platform: Layer = Layer()
    organisations: dict[Slug, Layer] = {}
    maintenance: frozenset[Slug] = frozenset()
    aliases: dict[Slug, Place] = {}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tool may not be used: a code for machines and a sentence."""

    code: str
    words: str


@dataclass(frozen=True, slots=True)
class Scoping:
    """The layers above agents."""

    lists: Lists = field(default_factory=Lists)

    def offers(self, spec: Spec, door: str, channel: str) -> bool:
        """Whether a tool may be shown at a door on a channel at all; what a tenant forbids is refused when
        it is called, so that what is offered stays the same for a binding."""
        fits = door in spec.doors and (not spec.channels or channel in spec.channels)
        return fits and self.lists.platform.lets(spec.name, door, channel)

    def refusal(
        self,
        caller: Caller,
        names: Sequence[str],
        spec: Spec,
        connected: bool = True,
        disabled: bool = False,
    ) -> Refusal | None:
        """Why this caller may not use a tool; None when every layer lets it through."""
        name = spec.name
        if name not in names:
            return Refusal("NOT_ALLOWED", f"This agent has no tool {name}.")
        if caller.session_tools is not None and name not in caller.session_tools:
            return Refusal("NOT_ALLOWED", f"{name} may not be used in this conversation.")
        if not self.offers(spec, caller.door, caller.channel):
            return Refusal("NOT_ALLOWED", f"{name} may not be used here.")
        if caller.door == "private" and not (caller.verified and caller.person == caller.owner):
            return Refusal("NOT_ALLOWED", "Only the owner may do that, once it is proved who they are.")
        if not self._organisation(caller, name):
            return Refusal("NOT_ALLOWED", f"Your organisation does not allow {name}.")
        if name in self.lists.maintenance:
            return Refusal("MAINTENANCE", f"{name} is being repaired. Please try later.")
        if not connected:
            return Refusal("NEEDS_INTEGRATION", f"{name} needs {spec.needs}, which is not connected yet.")
        if disabled:
            return Refusal("TOOL_DISABLED", f"{name} failed too often in this conversation.")
        return None

    def _organisation(self, caller: Caller, name: str) -> bool:
        layer = self.lists.organisations.get(caller.tenant)
        return layer is None or layer.lets(name, caller.door, caller.channel)


def read_lists(text: str, where: str) -> Lists:
    """The lists of a YAML file. Raises InvalidInput that names the first wrong place."""
    if len(text) > MAX_FILE:
        raise InvalidInput(Reason.TOO_LARGE, f"{where} is longer than {MAX_FILE // 1024} KiB.")
    try:
        value = yaml.safe_load(text) or {}
        return Lists.model_validate(value)
    except yaml.YAMLError:
        problem = "it is no YAML"
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    raise InvalidInput(
        Reason.INVALID_ARGUMENT, f"{where} cannot be used: {problem}.", hint="see docs/tools.md"
    )

"""What a turn knows while it runs. Stages read it; a specialist changes only the fields of `Answer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import structlog
from indai.runtime.composed import Composed
from indai.runtime.conversations.values import Turn
from indai.runtime.prompt import Dynamic, Said
from indai.runtime.turn.perceive import Perceived
from indai.runtime.turn.plan import Slots
from indai.tools.values import Caller, Spec

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a specialist may say and change: the answer, offered choices as (id, title), tags for who runs
    the agent, pending slots for working memory, another binding to hand the person to."""

    text: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    slots: Mapping[str, Any] = field(default_factory=dict)
    hand_to: str = ""


LISTED: Final = frozenset(each.name for each in fields(Answer))


@dataclass(frozen=True, slots=True)
class Context:
    """One turn: the message, its configuration, and what was found out so far."""

    turn: Turn
    composed: Composed
    caller: Caller
    tools: tuple[Spec, ...]
    perceived: Perceived
    working: Mapping[str, Any]
    slots: Slots = field(default_factory=Slots)
    history: tuple[Said, ...] = ()
    dynamic: Dynamic = field(default_factory=Dynamic)


def merged(answer: Answer, changes: Mapping[str, Any]) -> Answer:
    """An answer with what a specialist changed. What is not listed is left out, and logged: one specialist
    must not be able to move another's state."""
    strange = sorted(set(changes) - LISTED)
    if strange:
        log.warning("a specialist changed what it may not", fields=strange)
    return replace(answer, **{name: value for name, value in changes.items() if name in LISTED})

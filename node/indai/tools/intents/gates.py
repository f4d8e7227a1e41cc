"""Gates as a tool: what holds an owner's agent back from doing anything unasked, changed in conversation.

They hold for everything that goals begin, so they are the owner's alone, like goals: see there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from indai.protocol.errors import InvalidInput, Reason
from indai.tools.intents.common import ACTS, arguments
from indai.tools.intents.goals import GoalsOf
from indai.tools.values import Act, Caller, Effect, Progress, Spec
from indai.tools.words import said
from indai.v1 import goals_pb2 as pb

_HOURS: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d) ?- ?([01]?\d|2[0-3]):([0-5]\d)")
_NONE: Final = "none"
_OWN: Final = {"type": "string", "x-importance": 3}


@dataclass(frozen=True, slots=True)
class SetGates:
    """Changes what is named; the other gates stay."""

    goals: GoalsOf

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        quiet = {
            "type": "string",
            "maxLength": 13,
            "description": "Nothing is told or begun within these hours: 22:00-07:00, or none.",
            "x-label": "Quiet hours",
        }
        most = {
            "type": "integer",
            "minimum": 1,
            "maximum": 50,
            "description": "At most so many acts and notices a day.",
            "x-label": "At most a day",
        }
        allowed = {
            "type": "boolean",
            "description": "Whether anything is told or begun unasked. Only if the owner said so.",
            "x-label": "Unasked",
        }
        return Spec(
            "set-gates",
            "Change when and how often the owner is told things or the agent acts unasked.",
            arguments((), quiet=quiet, most=most, allowed=allowed),
            {
                "type": "object",
                "properties": {"gates": {**_OWN, "x-label": "unasked"}},
                "required": ["gates"],
            },
            Effect.ACT,
            ACTS,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`: what is changed, in words."""
        if not arguments:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "Which quiet hours, or how often a day?",
                metadata={"code": "NO_GATE"},
            )
        words = []
        if "quiet" in arguments:
            _quiet(arguments["quiet"])
            words.append(f"quiet hours {arguments['quiet']}")
        if "most" in arguments:
            words.append(f"at most {arguments['most']} a day")
        if "allowed" in arguments:
            words.append("allowed" if arguments["allowed"] else "nothing at all")
        return Act(dict(arguments), f"Unasked, from now on: {', '.join(words)}")

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`; gives all gates as they are now."""
        stub = self.goals(caller.owner)
        gates = (await stub.GetGoalGates(pb.GetGoalGatesRequest())).gates
        if "quiet" in arguments:
            gates.quiet_from_minute, gates.quiet_until_minute = _quiet(arguments["quiet"])
        gates.most_per_day = arguments.get("most", gates.most_per_day)
        gates.allowed = arguments.get("allowed", gates.allowed)
        stored = (await stub.SetGoalGates(pb.SetGoalGatesRequest(gates=gates))).gates
        return {"gates": in_words(stored, caller.language)}


def in_words(gates: pb.GoalGates, language: str) -> str:
    """All gates, for their owner; `language` is BCP 47."""
    if not gates.allowed:
        return said("nothing", language)
    most = str(gates.most_per_day)
    if gates.quiet_from_minute == gates.quiet_until_minute:
        return said("at most {most} a day, at any hour", language, most=most)
    return said(
        "at most {most} a day, and nothing from {start} to {end}",
        language,
        most=most,
        start=_clock(gates.quiet_from_minute),
        end=_clock(gates.quiet_until_minute),
    )


def _quiet(text: str) -> tuple[int, int]:
    """Minutes of the day; the same twice for no quiet hours. Raises InvalidInput."""
    if text.strip().casefold() == _NONE:
        return 0, 0
    found = _HOURS.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "From when until when is it quiet?", hint="write 22:00-07:00, or none"
        )
    start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    if start == end:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "Quiet hours end at another time than they begin.", hint="or say: none"
        )
    return start, end


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"

"""Execute: tools are called through the toolbox, shown while they run, and reflected for the model."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from indai.runtime.conversations.talk import Talk
from indai.runtime.turn import handing
from indai.runtime.turn.reflect import completeness, figures_of, is_untrusted, names_of, reflected
from indai.runtime.turn.trace import Trace
from indai.tools.files import Attached
from indai.tools.values import Caller, Outcome, Status, Toolbox, Touch
from indai.v1 import conversation_pb2 as pb
from indai.v1 import llm_pb2

Extract = Callable[[Outcome], Awaitable[Outcome]]
"""Facts in the place of what outsiders wrote at length, by a model without tools."""


@dataclass(slots=True)
class Done:
    """What tools did in this turn. `untrusted`: the model has read words of outsiders."""

    outcomes: list[tuple[str, Outcome]] = field(default_factory=list)
    untrusted: bool = False
    names: frozenset[str] = frozenset()
    figures: frozenset[str] = frozenset()
    hand_to: str = ""

    @property
    def summary(self) -> str:
        """All results for the prompt's section of tools."""
        return "\n\n".join(reflected(outcome) for _, outcome in self.outcomes)

    @property
    def files(self) -> list[Attached]:
        """What tools hand to the person."""
        return [each for _, outcome in self.outcomes for each in outcome.files]

    @property
    def remembered(self) -> str:
        """The same for the working memory of later turns: without what is for this turn alone."""
        kept = (
            replace(outcome, fields=tuple(each for each in outcome.fields if not each.unkept))
            for _, outcome in self.outcomes
        )
        return "\n\n".join(map(reflected, kept))


class Executor:
    """Runs the calls of one turn. `names`: tools that the binding has."""

    def __init__(
        self,
        toolbox: Toolbox,
        caller: Caller,
        names: Sequence[str],
        talk: Talk,
        trace: Trace,
        extract: Extract,
    ) -> None:
        self._extract = extract
        self._toolbox, self._names, self._talk, self._trace = toolbox, names, talk, trace
        self._caller = caller
        self.done = Done()

    def read(self, caller: Caller) -> None:
        """The model has read more by now: what it wishes is weighed with that."""
        self._caller = caller

    async def run(self, call: llm_pb2.ToolCall) -> tuple[Outcome, str]:
        """One call that has been checked; its outcome, and what the model reads of it."""
        arguments: Mapping[str, Any] = json.loads(call.arguments_json or "{}")
        if call.name == handing.NAME:
            self.done.hand_to = str(arguments["to"])
            return Outcome(
                Status.DONE, "The conversation is handed over."
            ), "The conversation is handed over."
        caller = self._caller
        if self.done.untrusted:
            # What an outsider wrote may have wished this call: the toolbox weighs that.
            caller = replace(caller, context=caller.context | {Touch.UNTRUSTED})
        self._talk.tool(pb.TurnTool(name=call.name, words=_plain(call.name)))

        async def progress(words: str) -> None:
            self._talk.tool(pb.TurnTool(name=call.name, words=words[:500]))

        with self._trace.stage("execute"):
            outcome = await self._toolbox.call(caller, self._names, call.name, arguments, progress)
        self._show(call.name, outcome)
        with self._trace.stage("reflect"):
            if is_untrusted(outcome):
                outcome = await self._extract(outcome)
            text = reflected(outcome)
            self.done.outcomes.append((call.name, outcome))
            self.done.untrusted |= is_untrusted(outcome)
            self.done.names |= names_of(outcome)
            self.done.figures |= figures_of(outcome)
        return outcome, text

    def _show(self, name: str, outcome: Outcome) -> None:
        failed = outcome.status is Status.FAILED
        self._talk.tool(
            pb.TurnTool(
                name=name,
                words=outcome.words or _plain(name),
                # What waits for the owner's word has not happened.
                done=outcome.status is not Status.NEEDS_APPROVAL,
                failed=failed,
                thread_id=outcome.thread,
            )
        )
        if outcome.approval is not None:
            asked = pb.TurnApproval(code=outcome.approval.code, terms=outcome.approval.terms)
            asked.expire_time.FromMilliseconds(outcome.approval.expires_at_ms)
            self._talk.approval(asked)

    def noted(self) -> list[dict[str, str]]:
        """What was run, for the trace: no arguments, no results."""
        return [
            {
                "tool": name,
                "status": outcome.status.value,
                "code": outcome.code,
                "answers": completeness(outcome),
            }
            for name, outcome in self.done.outcomes
        ]


def _plain(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")

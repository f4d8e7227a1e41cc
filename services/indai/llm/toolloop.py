"""The loop of model and tools in one turn: what may be run, what the model is told, when it ends. Pure.

    loop = ToolLoop(tools, disabled)
    step = loop.take(calls)           # after each answer that ends in tool calls
    run step.run; loop.result(...)    # for each of them
    ask again with loop.messages      # or end with loop.ending

A tool that fails twice in a turn ends it with a plain sentence; three failures in a session disable it for
the session. A turn has at most `max_rounds` rounds of tools. An error is told to the model as
`{"ok": false, "code": …, "retryable": …}`. The same call with the same arguments is not run twice in a turn:
its result is given again. Who runs the tools, and whether they may run, is the caller's business.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from indai.llm.toolcheck import checked
from indai.llm.values import Message, Role, Tool, ToolCall, ToolResult

MAX_ROUNDS: Final = 4
FAILURES_A_TURN: Final = 2
FAILURES_A_SESSION: Final = 3
MAX_CALLS_A_ROUND: Final = 16

TOO_MANY_ROUNDS: Final = "I could not finish this in the steps I may take. Please tell me what matters most."


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with one round of calls: `run` these; the others are answered already."""

    run: tuple[ToolCall, ...]


@dataclass(slots=True)
class ToolLoop:
    """One turn. `failures` counts by tool over the session, and is the caller's to keep; `ending` is what to
    tell the person instead of asking the model again, empty while the loop goes on."""

    tools: Mapping[str, Tool]
    failures: dict[str, int] = field(default_factory=dict)
    max_rounds: int = MAX_ROUNDS
    messages: list[Message] = field(default_factory=list)
    ending: str = ""
    rounds: int = 0
    _turn: dict[str, int] = field(default_factory=dict)
    _open: dict[str, ToolCall] = field(default_factory=dict)
    _results: dict[str, ToolResult] = field(default_factory=dict)
    _known: dict[tuple[str, str], ToolResult] = field(default_factory=dict)
    _order: tuple[ToolCall, ...] = ()

    @property
    def disabled(self) -> frozenset[str]:
        """Tools that failed too often in this session."""
        return frozenset(name for name, count in self.failures.items() if count >= FAILURES_A_SESSION)

    def take(self, calls: Iterable[ToolCall], text: str = "") -> Step:
        """One answer of the model with its calls. Those that may run come back; a call that can't is
        answered at once, and so is one whose result is known."""
        self.rounds += 1
        self._order = checked(calls, self.tools)
        self._open, self._results = {}, {}
        self.messages.append(Message(Role.ASSISTANT, text, self._order))
        for number, call in enumerate(self._order):
            refusal = self._refusal(call, number)
            if refusal is not None:
                self._results[call.id] = refusal
            elif (known := self._known.get(_key(call))) is not None:
                self._results[call.id] = ToolResult(call.id, call.name, known.content, known.failed)
            else:
                self._open[call.id] = call
        run = tuple(self._open.values())
        self._close()
        return Step(run)

    def result(self, call_id: str, content: str) -> None:
        """A call that went well: its result as the model is to read it."""
        call = self._open.pop(call_id)
        self._results[call_id] = self._known[_key(call)] = ToolResult(call_id, call.name, content)
        self._close()

    def failure(self, call_id: str, code: str, *, retryable: bool, message: str = "") -> None:
        """A call that failed."""
        call = self._open.pop(call_id)
        self._results[call_id] = _error(call, code, retryable, message)
        self._turn[call.name] = self._turn.get(call.name, 0) + 1
        self.failures[call.name] = self.failures.get(call.name, 0) + 1
        if self._turn[call.name] >= FAILURES_A_TURN and not self.ending:
            self.ending = f"I could not do that: {_words(call.name)} does not work at the moment."
        self._close()

    def _refusal(self, call: ToolCall, number: int) -> ToolResult | None:
        if call.problem:
            code = "BAD_ARGUMENTS" if call.name in self.tools else "UNKNOWN_TOOL"
            return _error(call, code, call.name in self.tools, call.problem)
        if call.name in self.disabled:
            return _error(call, "TOOL_DISABLED", False, f"{call.name} failed too often in this session.")
        if number >= MAX_CALLS_A_ROUND:
            return _error(call, "TOO_MANY_CALLS", True, f"At most {MAX_CALLS_A_ROUND} calls at once.")
        return None

    def _close(self) -> None:
        """When all calls of the round are answered, their results are the next message."""
        if self._open:
            return
        results = tuple(self._results[call.id] for call in self._order)
        self.messages.append(Message(Role.TOOL, tool_results=results))
        if self.rounds >= self.max_rounds and not self.ending:
            self.ending = TOO_MANY_ROUNDS


def _key(call: ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(json.loads(call.arguments_json), sort_keys=True)


def _error(call: ToolCall, code: str, retryable: bool, message: str) -> ToolResult:
    told = {"ok": False, "code": code, "retryable": retryable}
    content = json.dumps(told | ({"message": message} if message else {}), ensure_ascii=False)
    return ToolResult(call.id, call.name, content, failed=True)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")

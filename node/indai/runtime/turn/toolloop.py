"""The loop of model and tools in one turn: what may be run, what the model is told, when it ends. Pure.

    loop = ToolLoop(tools, disabled)
    step = loop.take(calls)           # after each answer that ends in tool calls
    run step.run; loop.result(...)    # for each of them
    ask again with loop.messages      # or end with loop.ending

A tool that fails twice in a turn ends it with a plain sentence; three failures in a session disable it for
the session. A turn has at most `max_rounds` rounds of tools. An error is told to the model as
`{"ok": false, "code": …, "retryable": …}`. The same call with the same arguments is not run twice in a turn:
its result is given again. A call whose `problem` the gateway has found is never run. Who runs the tools, and
whether they may run, is the caller's business.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from indai.v1 import llm_pb2 as pb

MAX_ROUNDS: Final = 4
FAILURES_A_TURN: Final = 2
FAILURES_A_SESSION: Final = 3
MAX_CALLS_A_ROUND: Final = 16
_SHOWN: Final = 64  # characters of a name that a model made up

TOO_MANY_ROUNDS: Final = "TOO_MANY_ROUNDS"
TOOL_FAILED_TWICE: Final = "TOOL_FAILED_TWICE"
VIOLATES_PROCEDURE: Final = "VIOLATES_PROCEDURE"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with one round of calls: `run` these; the others are answered already."""

    run: tuple[pb.ToolCall, ...]


@dataclass(slots=True)
class ToolLoop:
    """One turn. `tools`: names of those that are offered. `failures` counts by tool over the session, and is
    the caller's to keep; `ending` is why the person is told something instead of the model being asked again,
    empty while the loop goes on, `failing` the tool that it is about, as it is said. `refused`: calls that
    were not run, with the reason. `narrowed`: tools that the agent has and its team leaves out."""

    tools: Container[str]
    failures: dict[str, int] = field(default_factory=dict)
    max_rounds: int = MAX_ROUNDS
    messages: list[pb.ChatMessage] = field(default_factory=list)
    ending: str = ""
    failing: str = ""
    refused: list[dict[str, str]] = field(default_factory=list)
    narrowed: Container[str] = frozenset()
    rounds: int = 0
    _turn: dict[str, int] = field(default_factory=dict)
    _open: dict[str, pb.ToolCall] = field(default_factory=dict)
    _results: dict[str, pb.ToolResult] = field(default_factory=dict)
    _known: dict[tuple[str, str], pb.ToolResult] = field(default_factory=dict)
    _order: tuple[pb.ToolCall, ...] = ()

    def take(self, calls: Iterable[pb.ToolCall], text: str = "") -> Step:
        """One answer of the model with its calls. Those that may run come back; a call that can't is
        answered at once, and so is one whose result is known."""
        self.rounds += 1
        self._order = tuple(calls)
        self._open, self._results = {}, {}
        self.messages.append(
            pb.ChatMessage(role=pb.MESSAGE_ROLE_ASSISTANT, text=text, tool_calls=self._order)
        )
        for number, call in enumerate(self._order):
            if refusal := self._refusal(call, number):
                code, retryable, words = refusal
                self._results[call.id] = _error(call, code, retryable, words)
                self.refused.append({"tool": call.name[:_SHOWN], "code": code})
            elif (known := self._known.get(_key(call))) is not None:
                self._results[call.id] = _result(call, known.content, failed=known.failed)
            else:
                self._open[call.id] = call
        run = tuple(self._open.values())
        self._close()
        return Step(run)

    def result(self, call_id: str, content: str) -> None:
        """A call that went well: its result as the model is to read it."""
        call = self._open.pop(call_id)
        self._results[call_id] = self._known[_key(call)] = _result(call, content)
        self._close()

    def failure(
        self, call_id: str, code: str, *, retryable: bool, message: str = "", faulty: bool = True
    ) -> None:
        """A call that failed. Not `faulty`: it was answered, with what is wrong about the request; that ends
        a turn when it comes twice, and does not disable the tool."""
        call = self._open.pop(call_id)
        self._results[call_id] = _error(call, code, retryable, message)
        self._turn[call.name] = self._turn.get(call.name, 0) + 1
        if faulty:
            self.failures[call.name] = self.failures.get(call.name, 0) + 1
        if self._turn[call.name] >= FAILURES_A_TURN and not self.ending:
            self.ending, self.failing = TOOL_FAILED_TWICE, _words(call.name)
        self._close()

    def _refusal(self, call: pb.ToolCall, number: int) -> tuple[str, bool, str] | None:
        """Code, whether another try may help, and words; None for a call that may run."""
        if call.name in self.narrowed:
            return (
                VIOLATES_PROCEDURE,
                False,
                "This violates procedure: the team does not work with this tool.",
            )
        if call.name not in self.tools:
            return "UNKNOWN_TOOL", False, call.problem or "There is no such tool here."
        if call.problem:
            return "BAD_ARGUMENTS", True, call.problem
        if call.name in disabled(self.failures):
            return "TOOL_DISABLED", False, f"{call.name} failed too often in this session."
        if number >= MAX_CALLS_A_ROUND:
            return "TOO_MANY_CALLS", True, f"At most {MAX_CALLS_A_ROUND} calls at once."
        return None

    def _close(self) -> None:
        """When all calls of the round are answered, their results are the next message."""
        if self._open:
            return
        results = tuple(self._results[call.id] for call in self._order)
        self.messages.append(pb.ChatMessage(role=pb.MESSAGE_ROLE_TOOL, tool_results=results))
        if self.rounds >= self.max_rounds and not self.ending:
            self.ending = TOO_MANY_ROUNDS


def disabled(failures: Mapping[str, int]) -> frozenset[str]:
    """Tools that failed too often in a session, by how often they failed."""
    return frozenset(name for name, count in failures.items() if count >= FAILURES_A_SESSION)


def _key(call: pb.ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(json.loads(call.arguments_json or "{}"), sort_keys=True)


def _result(call: pb.ToolCall, content: str, *, failed: bool = False) -> pb.ToolResult:
    return pb.ToolResult(call_id=call.id, name=call.name, content=content, failed=failed)


def _error(call: pb.ToolCall, code: str, retryable: bool, message: str) -> pb.ToolResult:
    told = {"ok": False, "code": code, "retryable": retryable}
    content = json.dumps(told | ({"message": message} if message else {}), ensure_ascii=False)
    return _result(call, content, failed=True)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")

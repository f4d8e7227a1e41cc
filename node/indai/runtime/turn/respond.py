"""Respond: the prompt is assembled, a model answers, and each sentence is released when it is checked.

The model may call tools first; then it is asked again with what they found, until it answers in words, the
rounds are used up, or a tool has failed twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from indai.protocol.errors import IndaiError, Reason
from indai.runtime.conversations.values import Breach, Turn
from indai.runtime.prompt import Moment, Prompt, Said, assemble
from indai.runtime.turn import plan
from indai.runtime.turn.execute import Executor
from indai.runtime.turn.release import Release
from indai.runtime.turn.schemas import wire_tools
from indai.runtime.turn.state import Context
from indai.runtime.turn.toolloop import TOO_MANY_ROUNDS, VIOLATES_PROCEDURE, ToolLoop
from indai.runtime.turn.trace import Trace
from indai.runtime.words import say
from indai.tools.values import Status
from indai.v1 import llm_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub

DEADLINES_MS: Final = {"whatsapp": 25_000, "voice": 12_000}
USUAL_DEADLINE_MS: Final = 20_000
CLASSES: Final = {
    "default": pb.MODEL_CLASS_DEFAULT,
    "cheap": pb.MODEL_CLASS_CHEAP,
    "multilingual": pb.MODEL_CLASS_MULTILINGUAL,
    "voice": pb.MODEL_CLASS_VOICE,
}
STRATEGIES: Final = {
    "rule": pb.ROUTING_STRATEGY_RULE,
    "classifier": pb.ROUTING_STRATEGY_CLASSIFIER,
    "hybrid": pb.ROUTING_STRATEGY_HYBRID,
}


@dataclass(slots=True)
class Spoken:
    """What a model's answer came to."""

    text: str = ""
    ending: str = "answered"
    reason: str = ""
    cost_micros: int = 0
    slots: plan.Slots = field(default_factory=plan.Slots)
    problems: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Round:
    text: str = ""
    calls: list[pb.ToolCall] = field(default_factory=list)
    done: pb.GenerationDone = field(default_factory=pb.GenerationDone)


class Responder:
    """Answers with a model. `scope`: whose money and rows."""

    def __init__(self, llm: LlmServiceAsyncStub | None) -> None:
        self._llm = llm

    async def respond(
        self, context: Context, executor: Executor, release: Release, trace: Trace, failures: dict[str, int]
    ) -> Spoken:
        """The whole answer. Never raises for what a provider does."""
        said = Spoken()
        loop = ToolLoop(
            {spec.name for spec in context.tools},
            failures,
            max_rounds=max(1, context.composed.agent.max_tool_iterations),
            narrowed=context.composed.narrowed,
        )
        while True:
            try:
                with trace.stage("respond"):
                    round_ = await self._ask(context, executor, loop, release, trace)
            except IndaiError as error:
                return _without_model(said, release, context, error)
            _count(said, round_.done)
            if round_.done.finish == pb.FINISH_DEGRADED:
                said.ending, said.reason = "degraded", Reason.PROVIDER_FAILED.name
            if round_.done.finish == pb.FINISH_INTERRUPTED:
                said.problems.append("the answer broke off")
            if not round_.calls:
                said.text = release.end()
                return said
            calls = [plan.completed(call, context.slots, context.tools) for call in round_.calls]
            said.slots = plan.lacking(calls[0], context.slots, context.tools)
            known = len(loop.refused)
            step = loop.take(calls, round_.text)
            waiting = await self._run(step.run, loop, executor)
            done = executor.done
            release.facts = replace(release.facts, skus=release.facts.skus | done.names, figures=done.figures)
            release.stand.informed |= bool(executor.done.outcomes)
            if executor.done.hand_to:
                said.text = release.end()
                return said
            if loop.refused:
                trace.note(refused=loop.refused)
                release.breaches += _against_procedure(loop.refused[known:])
            if loop.ending:
                said.problems.append(loop.ending)
            if waiting or loop.ending:
                release.end()
                release.say(waiting or _ended(loop, context.perceived.language))
                said.text = " ".join(release.sentences)
                return said

    async def _run(self, calls: Sequence[pb.ToolCall], loop: ToolLoop, executor: Executor) -> str:
        """What to say instead of asking the model again, when the owner is asked first."""
        waiting = ""
        for call in calls:
            outcome, text = await executor.run(call)
            if outcome.status is Status.FAILED:
                loop.failure(
                    call.id,
                    outcome.code,
                    retryable=outcome.retryable,
                    message=outcome.words,
                    faulty=outcome.faulty,
                )
            else:
                loop.result(call.id, text)
            if outcome.status is Status.NEEDS_APPROVAL:
                waiting = outcome.words
        return waiting

    async def _ask(
        self, context: Context, executor: Executor, loop: ToolLoop, release: Release, trace: Trace
    ) -> _Round:
        with trace.part("prompt_assemble"):
            request = self._request(context, executor, loop, trace)
        return await self._generated(request, release, trace)

    def _request(
        self, context: Context, executor: Executor, loop: ToolLoop, trace: Trace
    ) -> pb.GenerateRequest:
        turn, composed = context.turn, context.composed
        dynamic = replace(context.dynamic, tool_results=executor.done.summary, history=context.history)
        prompt = assemble(composed.static, dynamic, _moment(context), composed.agent)
        agent = composed.agent
        voice = turn.request.sender.channel == "voice"
        return pb.GenerateRequest(
            scope=scope_of(turn),
            system=_system(prompt),
            messages=[*_messages(prompt.history, context.perceived.text), *loop.messages],
            tools=wire_tools(context.tools, agent.uses),
            model_class=pb.MODEL_CLASS_VOICE if voice else _class(agent.model_class, agent.strategy),
            strategy=STRATEGIES[agent.strategy],
            deadline_ms=DEADLINES_MS.get(turn.request.sender.channel, USUAL_DEADLINE_MS),
            tokens_by_tier={"HISTORY": prompt.tokens_by_tier()["HISTORY"]},
            stage_ms=trace.whole_ms(),
            degraded_text=say("degraded", context.perceived.language),
            allowed_pii=[pb.PiiKind.Value(f"PII_KIND_{kind.upper()}") for kind in composed.binding.may_leave],
        )

    async def _generated(self, request: pb.GenerateRequest, release: Release, trace: Trace) -> _Round:
        if self._llm is None:
            raise IndaiError(Reason.PROVIDER_FAILED, "This node has no gateway to language models.")
        round_ = _Round()
        with trace.part("llm_total"):
            stream: Any = self._llm.Generate(request, timeout=request.deadline_ms / 1000 + 5)
            async with contextlib.aclosing(stream) as events:
                async for event in events:
                    match event.WhichOneof("event"):
                        case "text":
                            round_.text += event.text
                            release.add(event.text)
                        case "tool_call":
                            round_.calls.append(event.tool_call)
                        case "done":
                            round_.done = event.done
        if round_.done.ttft_ms:
            trace.ms["llm_ttft"] = trace.ms.get("llm_ttft", 0.0) + round_.done.ttft_ms
        return round_


def scope_of(turn: Turn) -> pb.LlmScope:
    """Whose money and rows a call of a model is."""
    place = turn.session.place
    return pb.LlmScope(
        tenant=place.tenant, binding=place.binding, owner=place.handle, session=turn.session.id.hex
    )


def _against_procedure(refused: Sequence[Mapping[str, str]]) -> list[Breach]:
    """What the TEAM tier refused upward, as events of its guardrails."""
    return [
        Breach("TEAM", "procedure", "block", True, f"asked for {each['tool']}")
        for each in refused
        if each["code"] == VIOLATES_PROCEDURE
    ]


def _ended(loop: ToolLoop, language: str) -> str:
    """What the person is told when tools lead nowhere."""
    key = "too_many_steps" if loop.ending == TOO_MANY_ROUNDS else "tool_fails"
    return say(key, language).format(name=loop.failing)


def _without_model(said: Spoken, release: Release, context: Context, error: IndaiError) -> Spoken:
    """The gateway refused or is away: plain words, and the reason for the row."""
    release.drop()
    key = "over_budget" if error.reason is Reason.OVER_BUDGET else "degraded"
    release.say(say(key, context.perceived.language))
    said.text, said.ending, said.reason = " ".join(release.sentences), "degraded", error.reason.name
    said.problems.append(error.message)
    return said


def _count(said: Spoken, done: pb.GenerationDone) -> None:
    said.cost_micros += done.cost_micros
    said.problems += done.problems
    if done.answered_by.model:
        said.models.append(f"{done.answered_by.model}: {done.answered_by.why}")


def _class(model_class: str, strategy: str) -> pb.ModelClass.ValueType:
    """A strategy that decides gets the choice; the plain rule is the tier's own class."""
    return pb.MODEL_CLASS_UNSPECIFIED if strategy != "rule" else CLASSES[model_class]


def _system(prompt: Prompt) -> list[pb.SystemBlock]:
    """The blocks in their order; the last static one ends what a provider may cache."""
    last = len(prompt.static) - 1
    static = [
        pb.SystemBlock(text=block.text, tier=block.tier.lower(), cache_boundary=at == last)
        for at, block in enumerate(prompt.static)
    ]
    return static + [pb.SystemBlock(text=block.text, tier=block.tier.lower()) for block in prompt.dynamic]


def _messages(history: Sequence[Said], text: str) -> list[pb.ChatMessage]:
    """The conversation, ending with the person's message, which stands by itself."""
    made: list[pb.ChatMessage] = []
    for said in history:
        role = pb.MESSAGE_ROLE_ASSISTANT if said.speaker == "agent" else pb.MESSAGE_ROLE_USER
        if made and made[-1].role == role:
            made[-1].text += f"\n{said.text}"
        elif made or role == pb.MESSAGE_ROLE_USER:
            made.append(pb.ChatMessage(role=role, text=said.text))
    return [*made, pb.ChatMessage(role=pb.MESSAGE_ROLE_USER, text=text)]


def _moment(context: Context) -> Moment:
    caller = context.caller
    return Moment(local_time(caller.now_ms, caller.time_zone), caller.language, caller.channel)


def local_time(now_ms: int, zone: str) -> str:
    """The time where the person is, in words."""
    there = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(ZoneInfo(zone))
    return there.strftime("%A %d %B %Y, %H:%M")

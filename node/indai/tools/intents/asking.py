"""Questions to a peer's agent, and requests to an office."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from indai.tools.desk import Desk, Desks, request_id, settle
from indai.tools.intents.common import ACTS, TIMEOUT_S, WITH, arguments, shown, with_more
from indai.tools.normalise import one_line
from indai.tools.people import People
from indai.tools.values import Act, Caller, Effect, Progress, Spec
from indai.v1 import asking_pb2, owner_pb2

_WORD: Final = "^[a-z0-9._-]*$"
ANSWERED: Final = with_more(
    answer={"type": "string", "x-untrusted": True, "x-importance": 3, "x-label": "they said"},
    sure_percent={"type": "integer", "x-label": "sure, percent", "x-importance": 1},
)
FILED: Final = with_more(
    reference={"type": "string", "x-untrusted": True, "x-importance": 3},
    department={"type": "string", "x-untrusted": True},
    due_ms={"type": "integer", "x-format": "local_time", "x-label": "due", "x-importance": 3},
)


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks a peer's agent a question."""

    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        question = {"type": "string", "minLength": 1, "maxLength": 1000, "x-label": "Question"}
        topic = {
            "type": "string",
            "maxLength": 64,
            "pattern": _WORD,
            "description": "One word, e.g. admission.",
        }
        return Spec(
            "ask",
            "Ask somebody's agent a question. The answer is their word.",
            arguments(("with", "question"), **{"with": WITH}, question=question, topic=topic),
            ANSWERED,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        peer = await self.people.one(caller, self.desks(caller.owner), arguments["with"])
        question = one_line(arguments["question"], 1000)
        made = {"with": peer, "question": question, "topic": arguments.get("topic", "")}
        return Act(made, f"Ask {peer}\n  {question}")

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, peer = self.desks(caller.owner), arguments["with"]
        await progress(f"asking {peer}")
        thread = await start_question(caller, desk, peer, arguments["question"], arguments["topic"], progress)
        return await question_result(caller, desk, thread)


async def start_question(
    caller: Caller, desk: Desk, peer: str, question: str, topic: str, progress: Progress
) -> owner_pb2.Thread:
    """Ask, and wait a little for the answer."""
    request = asking_pb2.AskQuestionRequest(
        request_id=request_id(caller, "ask", peer, question), peer=peer, question=question, topic=topic
    )
    return await settle(desk, (await desk.asking.AskQuestion(request)).thread, progress)


async def question_result(caller: Caller, desk: Desk, thread: owner_pb2.Thread) -> dict[str, Any]:
    """The thread of a question, with the answer where there is one."""
    result = await shown(caller, desk, thread)
    if result["state"] == "agreed":
        got = await desk.asking.GetAnswer(asking_pb2.GetAnswerRequest(thread_id=thread.thread_id))
        result |= {"answer": got.answer, "sure_percent": got.confidence_percent}
    return result


@dataclass(frozen=True, slots=True)
class Request:
    """Files a request with an office."""

    desks: Desks
    people: People

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "request",
            "File a request or complaint with an office (a municipality, a support desk).",
            arguments(
                ("with", "text"),
                **{"with": WITH},
                text={"type": "string", "minLength": 1, "maxLength": 4000, "x-label": "Text"},
                subject={"type": "string", "maxLength": 200, "x-label": "Subject"},
                category={
                    "type": "string",
                    "maxLength": 64,
                    "pattern": _WORD,
                    "description": "What sort, e.g. street-lights.",
                    "x-label": "Category",
                },
            ),
            FILED,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        office = await self.people.one(caller, self.desks(caller.owner), arguments["with"])
        text = arguments["text"].strip()
        made = {
            "with": office,
            "subject": one_line(arguments.get("subject") or text, 120),
            "text": text,
            "category": arguments.get("category") or "other",
        }
        return Act(made, _filing(made))

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, office = self.desks(caller.owner), arguments["with"]
        await progress(f"filing it with {office}")
        request = asking_pb2.FileRequestRequest(
            request_id=request_id(caller, "request", office, arguments["subject"], arguments["text"]),
            office=office,
            subject=arguments["subject"],
            text=arguments["text"],
            category=arguments["category"],
        )
        thread = await settle(desk, (await desk.asking.FileRequest(request)).thread, progress)
        result = await shown(caller, desk, thread)
        if result["state"] == "agreed":
            poll = asking_pb2.PollRequestRequest(request=thread.thread_id)
            filed = (await desk.asking.PollRequest(poll)).request
            result |= {
                "reference": filed.reference,
                "department": filed.department,
                "due_ms": filed.due_time.ToMilliseconds(),
            }
        return result


def _filing(made: Mapping[str, str]) -> str:
    lines = (made["subject"], one_line(made["text"], 4000), made["category"])
    return "\n  ".join([f"File with {made['with']}", *lines])

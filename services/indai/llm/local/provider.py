"""The provider `local`: rules instead of a model. It needs no key and no network, and is deterministic: the
same request gets the same answer, ids of tool calls included.

What a message means is in `understanding`, what is said in `phrasing`. Here an intent becomes the call of a
tool: the tool is found by its name, and its arguments by the names of its schema's properties.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final

from indai.llm.local.phrasing import ask_for, reply, tell
from indai.llm.local.understanding import Slot, Understood, understand
from indai.llm.pricing import estimate_tokens
from indai.llm.routing import last_words
from indai.llm.values import (
    Embedder,
    Event,
    Fault,
    Finish,
    Finished,
    Message,
    ModelRequest,
    ProviderFault,
    Role,
    TextDelta,
    Tool,
    ToolCall,
    Usage,
    Vectors,
)
from indai.protocol.errors import IndaiError

# Parts of a tool's name that mean the intent, and names of properties that mean the slot.
TOOLS: Final = {"meet": ("meet", "schedule", "calendar_book")}
PROPERTIES: Final = {
    "person": ("with", "person", "peer", "handle", "who", "attendee", "to"),
    "minutes": ("duration_minutes", "minutes", "duration", "length_minutes"),
    "when": ("when", "window", "within", "day", "time"),
}
MakeEmbedder = Callable[[], Embedder]
_DEFAULTS: Final[dict[str, Slot]] = {"minutes": 30, "when": "this week"}
_WORDS_AT_ONCE: Final = 8


class LocalProvider:
    """See the module. `embedder` makes its model of embeddings, which is loaded when it is first used."""

    def __init__(self, name: str, embedder: MakeEmbedder | None = None) -> None:
        self._name = name
        self._make_embedder = embedder
        self._embedder: Embedder | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """The answer of the rules, a few words at a time."""
        text, calls = answer(request)
        for piece in _pieces(text):
            yield TextDelta(piece)
            await asyncio.sleep(0)
        yield Finished(Finish.TOOL_CALLS if calls else Finish.STOP, _usage(request, text, calls), calls)

    async def embed(self, model: str, texts: Sequence[str], *, query: bool) -> Vectors:
        """See `indai.llm.values`; there is one model, whatever it is called."""
        if self._make_embedder is None:
            raise ProviderFault(Fault.NOT_FOUND, f"{self._name} has no model of embeddings.")
        try:
            if self._embedder is None:
                self._embedder = await asyncio.to_thread(self._make_embedder)
            values = await self._embedder.embed(texts, query=query)
        except IndaiError as error:
            raise ProviderFault(Fault.NOT_FOUND, f"{self._name} can't embed: {error.message}") from None
        return Vectors(tuple(map(tuple, values)), Usage(sum(map(estimate_tokens, texts))))

    async def close(self) -> None:
        """See `indai.llm.values`."""
        if self._embedder is not None:
            await asyncio.to_thread(self._embedder.close)


def answer(request: ModelRequest) -> tuple[str, tuple[ToolCall, ...]]:
    """Text and tool calls for a request."""
    last = request.messages[-1]
    if request.labels:
        return _label(request), ()
    if last.role is Role.TOOL:
        return tell(last.tool_results), ()
    understood = understand(last.text)
    if understood is None:
        return reply(""), ()
    tool = _tool(request.tools, understood.intent)
    if tool is None:
        return reply(understood.intent), ()
    return _call(tool, understood, request.messages)


def _call(
    tool: Tool, understood: Understood, messages: Sequence[Message]
) -> tuple[str, tuple[ToolCall, ...]]:
    slots = {**_DEFAULTS, **understood.slots}
    arguments = {}
    for name in tool.schema.get("properties", {}):
        slot = next((slot for slot, names in PROPERTIES.items() if name in names), None)
        if slot in slots:
            arguments[name] = _typed(slots[slot], tool.schema["properties"][name])
    missing = [name for name in tool.schema.get("required", ()) if name not in arguments]
    if missing:
        slot = next((slot for slot, names in PROPERTIES.items() if missing[0] in names), missing[0])
        return ask_for([slot]), ()
    written = json.dumps(arguments, ensure_ascii=False)
    seed = f"{tool.name}\n{written}\n{len(messages)}".encode()
    return "", (ToolCall(f"local_{hashlib.sha256(seed).hexdigest()[:16]}", tool.name, written),)


def _typed(value: Slot, schema: Any) -> Any:
    wanted = schema.get("type") if isinstance(schema, dict) else None
    if wanted == "string" and not isinstance(value, str):
        return str(value)
    return [value] if wanted == "array" else value


def _tool(tools: Sequence[Tool], intent: str) -> Tool | None:
    marks = TOOLS.get(intent, ())
    return next((tool for tool in tools if any(mark in tool.name for mark in marks)), None)


def _label(request: ModelRequest) -> str:
    """The label for a message: the last one (`complex`) when a rule knows that it needs a tool."""
    words = last_words(request.messages)
    understood = understand(words)
    needs_more = (understood is not None and understood.intent in TOOLS) or len(words) > 200
    return request.labels[-1] if needs_more else request.labels[0]


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    joined = [" ".join(words[at : at + _WORDS_AT_ONCE]) for at in range(0, len(words), _WORDS_AT_ONCE)]
    return [piece if at == 0 else f" {piece}" for at, piece in enumerate(joined) if piece]


def _usage(request: ModelRequest, text: str, calls: Sequence[ToolCall]) -> Usage:
    """As a tokeniser would count them, nearly; they cost nothing."""
    said = [each.text for each in request.messages]
    results = [result.content for each in request.messages for result in each.tool_results]
    read = "".join((request.static, request.dynamic, *said, *results))
    written = text + "".join(call.arguments_json for call in calls)
    return Usage(estimate_tokens(read), estimate_tokens(written) if written else 0)

"""The provider `local`: rules instead of a model. It needs no key and no network, and is deterministic: the
same request gets the same answer, ids of tool calls included.

What a message means is in `understanding`, what is said in `phrasing`. Here an intent becomes the call of a
tool: the tool is found by its name, and its arguments by the names of its schema's properties.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from indai.llm.local.gating import gating
from indai.llm.local.own import abilities_asked, about_oneself, goals_asked
from indai.llm.local.phrasing import DEEDS, able, ask_for, goals_told, reply, tell
from indai.llm.local.resuming import choice, resumed
from indai.llm.local.standing import payment, standing
from indai.llm.local.understanding import Slot, Understood, understand
from indai.llm.local.words import language
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

# Words in a tool's name that mean the intent (the first that fits is the tool's), and names of properties
# that mean the slot. `amount` is in paise, `rupees` the same in rupees.
TOOLS: Final = {
    "goal": ("set_goal",),
    "ungoal": ("change_goal",),
    "goals": ("goals",),
    "gates": ("set_gates",),
    "remind": ("schedule_job", "remind", "reminder"),
    "move": ("reschedule", "move", "postpone"),
    "cancel": ("cancel", "withdraw"),
    "meet": ("meet", "meeting", "schedule", "calendar_book"),
    "ask": ("ask", "query"),
    "share": ("share",),
    "pay": ("pay", "payment", "transfer"),
    "book": ("book", "booking", "reserve"),
    "agenda": ("agenda",),
    "free": ("free_time",),
    "waiting": ("threads",),
    "receipt": ("receipt",),
    "export": ("export",),
    "remember": ("remember",),
    "recall": ("recall",),
    "look_up": ("search_kb",),
    "forget": ("forget",),
}
PROPERTIES: Final = {
    "person": ("with", "person", "peer", "handle", "who", "attendee", "attendees", "to", "payee", "provider"),
    "minutes": ("duration_minutes", "minutes", "duration", "length_minutes"),
    "when": ("when", "window", "within", "day", "date"),
    "time": ("time", "at", "start_time"),
    "from": ("from", "moved_from"),
    "amount": ("amount", "amount_minor", "amount_paise"),
    "rupees": ("rupees", "amount_inr", "amount_rupees"),
    "quantity": ("quantity", "count", "party_size", "units"),
    "item": ("item", "resource", "what"),
    "field": ("field", "fields", "label", "what"),
    "text": ("text",),
    "task": ("task",),
    "every": ("every",),
    "kind": ("kind",),
    "act": ("act",),
    "goal": ("goal",),
    "change": ("change",),
    "quiet": ("quiet",),
    "most": ("most",),
    "allowed": ("allowed",),
    "purpose": ("purpose",),
    "query": ("query", "about"),
    "name": ("name", "visitor", "your_name"),
    "contact": ("contact", "email", "e_mail", "contact_address"),
}
MakeEmbedder = Callable[[], Embedder]
_DEFAULTS: Final[dict[str, dict[str, Slot]]] = {"meet": {"minutes": 30, "when": "this week"}}
_WORDS_AT_ONCE: Final = 8
_GOALS: Final = re.compile(r"^The owner's goals: (.+)\.$", re.MULTILINE)


class LocalProvider:
    """See the module. `embedder` makes its model of embeddings, which is loaded when it is first used."""

    def __init__(self, name: str, embedder: MakeEmbedder | None = None) -> None:
        self._name = name
        self._make_embedder = embedder
        self._embedder: Embedder | None = None
        self._ready = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """The answer of the rules, a few words at a time."""
        if not self._ready:
            # The word lists take some tenths of a second to read, once.
            await asyncio.to_thread(understand, "hello")
            self._ready = True
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
    spoken = language(last_words(request.messages))
    if last.role is Role.TOOL:
        return tell(last.tool_results, spoken), ()
    if goals_asked(last.text) and _tool(request.tools, "goals") is None:
        known = _GOALS.search(request.dynamic)
        return goals_told(known[1] if known else "", spoken), ()
    if abilities_asked(last.text):
        return _abilities(request.tools, spoken), ()
    understood = _understood(request)
    if understood is None and _serves_visitors(request.tools):
        return f"{reply('unknown.visitor', spoken)} {_abilities(request.tools, spoken)}", ()
    if understood is None:
        return reply("", spoken), ()
    tool = _tool(request.tools, understood.intent)
    if tool is None:
        return reply(understood.intent, spoken, understood.slots), ()
    return _call(tool, understood, request.messages, spoken)


def _serves_visitors(tools: Sequence[Tool]) -> bool:
    """Whether this is a door for others, where less can be done: what its owner can do is no answer."""
    return _tool(tools, "meet") is not None and _tool(tools, "move") is None


def _abilities(tools: Sequence[Tool], spoken: str) -> str:
    deeds = [each for each in DEEDS if _tool(tools, each)]
    return able(deeds, spoken, for_others=_tool(tools, "ask") is None)


def _understood(request: ModelRequest) -> Understood | None:
    """The last message, as the answer to a question of ours if it is no request of another kind. A question
    for which there is no tool is looked up, where there is one for that."""
    messages, said = request.messages, request.messages[-1].text
    if chosen := choice(messages):
        return chosen
    if goals_asked(said) and _tool(request.tools, "goals"):
        return Understood("goals")
    own = gating(said) if _tool(request.tools, "gates") else None
    own = own or (standing(said) if _tool(request.tools, "goal") else None)
    own = own or about_oneself(said)
    if own is not None and _tool(request.tools, own.intent) is None:
        own = None
    found = _for_visitors(own or understand(said), request.tools)
    before = _for_visitors(resumed(messages), request.tools)
    asked = before is not None and bool({"name", "contact"} & before.slots.keys())  # a name is no request
    if before is not None and (
        asked or found is None or found.intent not in TOOLS or found.intent == before.intent
    ):
        return replace(before, slots={**before.slots, **(found.slots if found else {})})
    helpless = found is None or (found.intent in TOOLS and _tool(request.tools, found.intent) is None)
    if helpless and said.rstrip().endswith("?") and _tool(request.tools, "look_up"):
        return Understood("look_up", {"query": said[:1_000]})
    return payment(found, said) if found is not None and found.intent == "pay" else found


def _for_visitors(found: Understood | None, tools: Sequence[Tool]) -> Understood | None:
    """Who asks for another time where nothing can be moved asks for a time: "can we meet next week?"."""
    moves = found is not None and found.intent == "move" and "from" not in found.slots
    if found is None or not moves or not _serves_visitors(tools):
        return found
    return replace(found, intent="meet")


def _call(
    tool: Tool, understood: Understood, messages: Sequence[Message], spoken: str
) -> tuple[str, tuple[ToolCall, ...]]:
    properties = tool.schema.get("properties", {})
    slots = _fitting(understood, properties)
    arguments = {}
    for name in properties:
        slot = next((slot for slot in _slots_of(name) if slot in slots), None)
        if slot is not None:
            arguments[name] = _typed(slots[slot], properties[name])
    missing = [name for name in tool.schema.get("required", ()) if name not in arguments]
    if missing:
        slot = next(iter(_slots_of(missing[0])), missing[0])
        return ask_for(["amount" if slot == "rupees" else slot], spoken, understood.intent), ()
    written = json.dumps(arguments, ensure_ascii=False)
    seed = f"{tool.name}\n{written}\n{len(messages)}".encode()
    return "", (ToolCall(f"local_{hashlib.sha256(seed).hexdigest()[:16]}", tool.name, written),)


def _slots_of(name: str) -> list[str]:
    return [slot for slot, names in PROPERTIES.items() if name in names]


def _fitting(understood: Understood, properties: Sequence[str]) -> dict[str, Slot]:
    """The slots as the tool can take them: a time goes with the day if the tool has no place for it."""
    slots: dict[str, Slot] = {**_DEFAULTS.get(understood.intent, {}), **understood.slots}
    if "time" in slots and not any(name in PROPERTIES["time"] for name in properties):
        slots["when"] = f"{understood.slots.get('when', '')} {slots['time']}".strip()
    if isinstance(amount := slots.get("amount"), int) and amount % 100 == 0:
        slots["rupees"] = amount // 100
    return slots


def _typed(value: Slot, schema: Any) -> Any:
    wanted = schema.get("type") if isinstance(schema, dict) else None
    if wanted == "string" and not isinstance(value, str):
        return str(value)
    if wanted == "array":
        return value.split(", ") if isinstance(value, str) else [value]
    return value


def _tool(tools: Sequence[Tool], intent: str) -> Tool | None:
    return next((tool for tool in tools if _intent_of(tool.name) == intent), None)


def _intent_of(name: str) -> str:
    """What a tool is for, by the words of its name: `cancel_meeting` cancels, `propose_meet` meets."""
    plain = "_" + re.sub(r"[^a-z]+", "_", name.lower()) + "_"
    fits = (intent for intent, marks in TOOLS.items() if any(f"_{mark}_" in plain for mark in marks))
    return next(fits, "")


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

"""The supervisor: which specialist answers. Clear intents are routed by rule, without a model.

    greet, thank      the persona's own words
    deflect           what the persona says to questions about what it is built of: never internals
    feedback          thanks; a complaint is tagged for who runs the agent
    decision          the owner's yes or no to what waits for them
    banking           a payment whose means are not known: UPI, card or net banking
    knowledge         everything else: retrieval and a model, with the binding's tools

A specialist gets the context and gives changes to the answer; what it may not change is left out, and one
that forgets its words yields a graceful answer, never a crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from indai.runtime.turn import banking
from indai.runtime.turn.state import Answer, Context, merged
from indai.runtime.words import deflection, say

Specialist = Callable[[Context], Awaitable[Mapping[str, Any]]]
KNOWLEDGE: Final = "knowledge"


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers, and why."""

    name: str
    why: str


def route(context: Context) -> Route:
    """By rule; what no rule knows is for knowledge."""
    perceived = context.perceived
    if perceived.decision is not None and context.turn.session.place.door == "private":
        return Route("decision", "says yes or no to a code")
    if banking.needs_mode(context):
        return Route("banking", "a payment, and nothing says by which means")
    if perceived.talk in ("greet", "thank"):
        return Route(perceived.talk, "nothing else was said")
    if perceived.talk == "platform":
        return Route("deflect", "asks about the platform, by its words")
    if perceived.talk in ("feedback", "complaint"):
        return Route("feedback", f"{perceived.talk}, by its words")
    return Route(KNOWLEDGE, "no rule knows it")


async def consult(specialist: Specialist, context: Context) -> Answer:
    """A specialist's answer, with words whatever it did."""
    answer = merged(Answer(), await specialist(context))
    if not answer.text.strip():
        return merged(answer, {"text": say("not_understood", context.perceived.language)})
    return answer


async def greet(context: Context) -> Mapping[str, Any]:
    """The persona's greeting in the person's language."""
    texts, language = context.composed.human.greetings, context.perceived.language
    wanted = (language, language.partition("-")[0], *context.composed.human.languages)
    text = next((texts[each] for each in wanted if each in texts), "")
    return {"text": text or say("greeting_plain", language)}


async def deflect(context: Context) -> Mapping[str, Any]:
    """The persona's own words for questions about models, makers and instructions."""
    return {"text": deflection(context.composed.human, context.perceived.language)}


async def thank(context: Context) -> Mapping[str, Any]:
    """Thanks are answered."""
    return {"text": say("thanks", context.perceived.language)}


async def feedback(context: Context) -> Mapping[str, Any]:
    """Noted; a complaint goes to a person."""
    complaint = context.perceived.talk == "complaint"
    words = say("complaint_noted" if complaint else "thanked", context.perceived.language)
    return {"text": words, "tags": ("complaint",) if complaint else ("feedback",)}

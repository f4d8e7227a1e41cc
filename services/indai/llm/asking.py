"""What a model is asked: the request in the provider's terms, scrubbed where it leaves the country."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from indai.llm.pii import Scrubber
from indai.llm.routing import Candidate
from indai.llm.values import ModelRequest
from indai.llm.wire import Asked

LARGE: Final = 20_000
"""Tokens of a prompt that is searched in a thread: that may take a tenth of a second and more."""

Ask = Callable[[Candidate, int], ModelRequest]


def model_request(asked: Asked) -> ModelRequest:
    return ModelRequest("", asked.messages, asked.static, asked.dynamic, asked.tools, asked.max_output_tokens)


def asking(request: ModelRequest, scrubber: Scrubber) -> Ask:
    """What each candidate is asked: its own model name and limit, and scrubbed if it computes abroad."""
    scrubbed: list[ModelRequest] = []

    def ask(candidate: Candidate, tokens: int) -> ModelRequest:
        if candidate.abroad and not scrubbed:
            scrubbed.append(_scrubbed(request, scrubber))
        chosen = scrubbed[0] if candidate.abroad else request
        most = min(tokens or chosen.max_output_tokens, candidate.config.max_output_tokens)
        return replace(chosen, model=candidate.config.model, max_output_tokens=most)

    return ask


async def searched(ask: Ask, tried: Sequence[Candidate], size: int) -> None:
    """Search a large prompt where nobody else waits, if a candidate computes abroad; done once for all."""
    abroad = next((each for each in tried if each.abroad), None)
    if abroad is not None and size > LARGE:
        await asyncio.to_thread(ask, abroad, 0)


def _scrubbed(request: ModelRequest, scrubber: Scrubber) -> ModelRequest:
    """In the order of the prompt, so that what is static stays the same."""
    static = scrubber.scrub_first(request.static)
    messages = tuple(
        replace(
            each,
            text=scrubber.scrub(each.text),
            tool_calls=tuple(
                replace(call, arguments_json=scrubber.scrub(call.arguments_json)) for call in each.tool_calls
            ),
            tool_results=tuple(
                replace(result, content=scrubber.scrub(result.content)) for result in each.tool_results
            ),
        )
        for each in request.messages
    )
    return replace(request, static=static, dynamic=scrubber.scrub(request.dynamic), messages=messages)

"""The values that the parts of this package hand each other, and what a provider must do.

A provider gets a `ModelRequest` and yields events: texts and marks of progress as they come, then the whole
tool calls, the usage, and one `Finished`. It raises `ProviderFault` and nothing else. Closing the generator
aborts the request upstream. Token counts are inclusive: `input_tokens` holds the cached parts,
`output_tokens` the thinking.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from indai.protocol.errors import IndaiError, Reason

JsonObject = dict[str, Any]


class ModelClass(StrEnum):
    """What an answer is for."""

    DEFAULT = "default"
    CHEAP = "cheap"
    MULTILINGUAL = "multilingual"
    VOICE = "voice"


class Strategy(StrEnum):
    """How the class is chosen when none is asked for."""

    RULE = "rule"
    CLASSIFIER = "classifier"
    HYBRID = "hybrid"


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Finish(StrEnum):
    """How an answer ended; the last three are the gateway's own words, never a provider's."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model makes. `problem`: why it must not be run. `opaque` goes back to the provider."""

    id: str
    name: str
    arguments_json: str
    problem: str = ""
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered, as the model reads it."""

    call_id: str
    name: str
    content: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool a model may call; `schema` keeps the order of its keys, since it stands above the cache
    boundary."""

    name: str
    description: str
    schema: JsonObject


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a provider is asked. `static` is the system prompt above the cache boundary, `dynamic` the rest.

    `labels`, if any: the whole answer is to be one of these words.
    """

    model: str
    messages: tuple[Message, ...]
    static: str = ""
    dynamic: str = ""
    tools: tuple[Tool, ...] = ()
    max_output_tokens: int = 1024
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens; inclusive, see the module."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_hit_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_hit_tokens + other.cache_hit_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text."""

    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The model works on what is not released yet: thinking, or a tool call's arguments."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the provider has counted so far; replaces what it said before."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Finished:
    """The end, with all tool calls and what the provider counted."""

    finish: Finish
    usage: Usage
    tool_calls: tuple[ToolCall, ...] = ()


Event = TextDelta | Progress | Counted | Finished


class Fault(StrEnum):
    """What went wrong with a provider; decides what is tried next (`indai.llm.chain`)."""

    AUTH = "auth"
    RATE_LIMITED = "rate limited"
    SERVER = "server error"
    TIMEOUT = "no answer in time"
    UNREACHABLE = "unreachable"
    BROKEN = "broken answer"
    REJECTED = "request rejected"
    NOT_FOUND = "model unknown"


_REASONS = {Fault.AUTH: Reason.PROVIDER_REFUSED, Fault.REJECTED: Reason.PROVIDER_REFUSED}


class ProviderFault(IndaiError):
    """A provider failed. The message is ours: what a provider writes may hold the prompt or a key."""

    def __init__(self, fault: Fault, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(_REASONS.get(fault, Reason.PROVIDER_FAILED), message)
        self.fault = fault
        self.retry_after_ms = retry_after_ms


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector for each text, and the tokens that were read."""

    values: tuple[tuple[float, ...], ...]
    usage: Usage = field(default_factory=Usage)


class Provider(Protocol):
    """One configured provider."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        """See the module."""
        ...

    async def embed(self, model: str, texts: Sequence[str], *, query: bool) -> Vectors:
        """Vectors of `texts`; `query`: they are to find with, not to be found. Raises ProviderFault."""
        ...

    async def close(self) -> None:
        """Let connections go."""
        ...


class Embedder(Protocol):
    """The built-in model of embeddings, if there is one; other errors than IndaiError never leave it."""

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        """One vector for each text."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...

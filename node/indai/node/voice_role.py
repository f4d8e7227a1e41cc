"""Speech at a node: microphones and telephones in front of its conversations, voice notes for messengers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from indai.edge.forms.plain import spoken
from indai.node.keystore import KeyStore
from indai.node.secrets import Secrets
from indai.page.visitors import who
from indai.v1 import conversation_pb2 as pb
from indai.voice.browser import Browsers
from indai.voice.config import engines, numbers, parse_config
from indai.voice.limits import Lines
from indai.voice.notes import transcribe
from indai.voice.speech import Chain
from indai.voice.telephone import Telephones
from indai.web.sessions import Session

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

TICKETS = "voice-tickets"
FILE = "speech.yaml"


@dataclass(frozen=True, slots=True)
class VoicePlan:
    """What speech is built from. `data` may hold `speech.yaml`; `url` is where the HTTP port is reached;
    `whose` says who is signed in, `visitor` which browser it is otherwise."""

    conversations: ConversationServiceAsyncStub
    secrets: Secrets
    keystore: KeyStore
    data: Path
    url: Callable[[], str]
    whose: Callable[[web.Request], Awaitable[Session | None]]
    visitor: Callable[[web.Request], str]


@dataclass(frozen=True, slots=True)
class VoiceRole:
    """Running speech: what it adds to the HTTP port, and the words of voice notes."""

    speech: Chain
    routes: Sequence[web.RouteDef]

    async def transcribe(self, data: bytes, media_type: str, language: str) -> str:
        """What a voice note says; "" when no word was recognised. The type it claims isn't believed."""
        return (await transcribe(self.speech, data, language)).text


@contextlib.asynccontextmanager
async def voice_role(plan: VoicePlan) -> AsyncIterator[VoiceRole]:
    """Start it; at the end of the block no process of its engines runs."""
    config = parse_config(await asyncio.to_thread(_read, plan.data / FILE))

    async def secret(reference: str) -> str:
        return await asyncio.to_thread(plan.secrets.get, reference)

    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), headers={"User-Agent": "ind.ai-node"})
        )
        speech = engines(config, session, secret)
        stack.push_async_callback(speech.close)
        lines = Lines()
        browsers = Browsers(speech, plan.conversations, spoken, Visitors(plan.whose, plan.visitor), lines)
        telephones = Telephones(
            speech,
            plan.conversations,
            spoken,
            numbers(config),
            secret,
            plan.url,
            plan.keystore.derive(TICKETS),
            lines,
        )
        yield VoiceRole(speech, (*telephones.routes(), *browsers.routes()))


@dataclass(frozen=True, slots=True)
class Visitors:
    """Who sits before a browser: an owner who is signed in at the desk, else the visitor who also chats
    there; a program that shows no cookie of ours is somebody new at each call."""

    whose: Callable[[web.Request], Awaitable[Session | None]]
    visitor: Callable[[web.Request], str]

    async def __call__(self, request: web.Request) -> pb.Identity:
        return who(await self.whose(request), self.visitor(request) or secrets.token_hex(32), "voice")


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""

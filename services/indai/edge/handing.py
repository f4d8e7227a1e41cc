"""From the inbox to the conversation: one message of a person at a time, and their answers into the outbox.

The message is done in the transaction that stores its answer. Whoever is killed before it hands the message
on again: the conversation knows it and tells the same answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog
from indai.client.tasks import end_tasks
from indai.edge.accounts import Directory, Served
from indai.edge.bringing import Link, unreachable
from indai.edge.channels.rendering import numbered
from indai.edge.doors import chosen, door
from indai.edge.inbox import Inbox, Standing, Waiting
from indai.edge.life import Life
from indai.edge.media import MOST_BYTES, Fetcher, Transcribe
from indai.edge.outbox import Line, Recipient, lines
from indai.edge.stopping import is_stopped
from indai.language import detect, say
from indai.language.catalogue import say_both
from indai.language.phrasebook import in_language
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import conversation_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

AT_ONCE: Final = 64
POLL_S: Final = 1.0
TURN_S: Final = 300.0
KEEPS: Final = timedelta(hours=24)
"""For how long a message is tried again while the conversation is away."""
_SAMPLE: Final = 500  # characters that tell the language
_AWAY: Final = ("UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED")
MOST_FAILURES: Final = 5
"""How often a message is tried that makes something fail, as nothing that is only away does."""

log = structlog.get_logger(__name__)


class Hander:
    """Hands messages on while `run` runs."""

    def __init__(
        self,
        inbox: Inbox,
        directory: Directory,
        conversation: ConversationServiceAsyncStub,
        fetcher: Fetcher,
        life: Life,
        authority: str,
        told: Callable[[str], None],
        transcribe: Transcribe | None = None,
        link: Link = unreachable,
    ) -> None:
        """`told` is called with a channel that has something to send."""
        self._inbox = inbox
        self._directory = directory
        self._conversation = conversation
        self._fetcher = fetcher
        self._life = life
        self._authority = authority
        self._told = told
        self._transcribe = transcribe
        self._link = link
        self._serving: dict[tuple[str, bytes], asyncio.Task[None]] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something may have come."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while not is_stopped():
                self._wake.clear()
                try:
                    await self._begin()
                except IndaiError as error:
                    log.warning("messages wait", reason=error.reason.name, error=error.message)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._wake.wait()
        finally:
            await end_tasks(*self._serving.values())

    async def _begin(self) -> None:
        free = AT_ONCE - len(self._serving)
        tenants = await self._directory.tenants()
        if free <= 0 or not tenants:
            return
        for waiting in await self._inbox.heads(tenants, self._serving, free):
            key = (waiting.channel, waiting.peer)
            self._serving[key] = asyncio.create_task(self._serve(waiting, key))

    async def _serve(self, waiting: Waiting, key: tuple[str, bytes]) -> None:
        try:
            await self._hand_on(waiting)
        except IndaiError as error:
            log.warning("a message waits", channel=waiting.channel, reason=error.reason.name)
            with contextlib.suppress(IndaiError):  # then it waits for the database anyway
                await self._inbox.again(waiting, _backoff(waiting.attempts))
        except Exception:
            log.exception("a message could not be handed on", channel=waiting.channel)
            with contextlib.suppress(IndaiError):
                await self._fail(waiting)
        finally:
            self._serving.pop(key, None)
            self.wake()

    async def _fail(self, waiting: Waiting) -> None:
        """A fault of ours: tried some times more, since those who wait behind it must not wait forever."""
        if waiting.attempts < MOST_FAILURES:
            await self._inbox.again(waiting, _backoff(waiting.attempts))
            return
        served = await self._directory.find(waiting.channel)
        to = Recipient(served.account, served.adapter, waiting.peer, waiting.address)
        reply = pb.Reply(text=say("error", _language(waiting.message)))
        await self._finish(waiting, lines(to, f"in/{waiting.id}", reply))

    async def _hand_on(self, waiting: Waiting) -> None:
        served = await self._directory.find(waiting.channel)
        to = Recipient(served.account, served.adapter, waiting.peer, waiting.address, self._link)
        source = f"in/{waiting.id}"
        language = _language(waiting.message)
        if waiting.unreadable:
            await self._finish(waiting, lines(to, source, pb.Reply(text=say("not_understood", language))))
            return
        async with self._life.shown(waiting.message.provider_message_id, waiting.address, served):
            message, refused = await self._whole(waiting, served)
            if not (message.text.strip() or message.media or message.choice or message.HasField("location")):
                await self._finish(waiting, lines(to, source, pb.Reply(text=refused)))
                return
            now = datetime.now(UTC)
            at = door(message.text, message.handle, waiting.handle, waiting.handle_at, now, self._authority)
            message.handle, message.text = at.handle, at.text
            if not message.choice:
                message.choice = chosen(message.text, waiting.choices)
            reply = await self._answer(waiting, message)
        if refused:
            reply.text = f"{refused}\n\n{reply.text}"
        offered = tuple(each.id for each in reply.choices) if numbered(reply, served.adapter.limits) else ()
        answer = lines(to, source, reply)
        await self._finish(waiting, answer, Standing(at.handle, offered))

    async def _finish(self, waiting: Waiting, answer: list[Line], standing: Standing | None = None) -> None:
        await self._inbox.done(waiting, answer, standing)
        self._told(waiting.channel)

    async def _answer(self, waiting: Waiting, message: pb.InboundMessage) -> pb.Reply:
        """What the conversation answers. Raises IndaiError when it may answer later."""
        shown: list[str] = []
        choices: list[pb.Choice] = []
        door_is = ""
        try:
            request = pb.SendMessageRequest(message=message)
            async for response in self._conversation.SendMessage(request, timeout=TURN_S):
                event = response.event
                match event.WhichOneof("event"):
                    case "accepted":
                        door_is = event.accepted.door
                    case "approval" if door_is == "private":
                        shown.append(approval_words(event.approval, _language(message)))
                        choices = _approval_choices(event.approval.code)
                    case "finished":
                        return _whole_reply(event.finished, shown, choices, _language(message))
        except IndaiError as error:
            status, age = error.reason.status.grpc, datetime.now(UTC) - waiting.arrived_at
            if (status in _AWAY and age < KEEPS) or (
                status == "INTERNAL" and waiting.attempts < MOST_FAILURES
            ):
                raise
            return _refusal(error, message)
        raise IndaiError(Reason.UNREACHABLE, "The conversation ended before its answer.")

    async def _whole(self, waiting: Waiting, served: Served) -> tuple[pb.InboundMessage, str]:
        """The message with its files, and what to say of those that are not taken."""
        message = pb.InboundMessage()
        message.CopyFrom(waiting.message)
        refused = ""
        for attachment in waiting.attachments:
            try:
                media, content = await self._fetcher.fetch(attachment, served)
                refused = await self._transcribed(media, content, message) or refused
                message.media.append(media)
            except IndaiError as error:
                if error.reason.status.grpc == "UNAVAILABLE" and waiting.attempts < 5:
                    raise
                log.info("a file was not taken", channel=waiting.channel, reason=error.reason.name)
                large = error.reason is Reason.TOO_LARGE
                words = say("media_too_large", _language(message), limit=MOST_BYTES >> 20)
                refused = words if large else say("media_refused", _language(message))
        return message, refused

    async def _transcribed(self, media: pb.Media, content: bytes, message: pb.InboundMessage) -> str:
        """Fill in what was said in a voice note; gives words when it can't be understood."""
        if media.kind != "audio" or self._transcribe is None or message.text:
            return ""
        try:
            media.transcript = await self._transcribe(content, media.media_type, message.language)
        except IndaiError as error:
            if error.reason.status.grpc == "UNAVAILABLE":
                raise
            log.info("a voice note was not understood", reason=error.reason.name)
        message.text = media.transcript
        return "" if media.transcript else say("voice_not_understood", _language(message))


def _language(message: pb.InboundMessage) -> str:
    """In which language the edge's own words are said."""
    return detect(message.text[:_SAMPLE], message.language).tag


def _whole_reply(
    finished: pb.TurnFinished, shown: list[str], choices: list[pb.Choice], language: str
) -> pb.Reply:
    reply = pb.Reply()
    reply.CopyFrom(finished.reply)
    # What must be approved is rendered by code; the words of the model stand beside it, not in its place.
    missing = [words for words in shown if words not in reply.text]
    reply.text = "\n\n".join(filter(None, [reply.text, *missing]))
    if choices and not reply.choices:
        reply.choices.extend(choices)
    if not reply.text and not reply.choices and not reply.media and not finished.stopped:
        reply.text = say("error", language)
    return reply


def approval_words(approval: pb.TurnApproval, language: str) -> str:
    """What the owner is asked in a chat; where the language is a draft the English follows, terms and all."""
    until = approval.expire_time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M UTC")
    shown = {"terms": approval.terms, "code": approval.code, "until": until}
    told = shown | {"terms": in_language(approval.terms, language)}
    return say_both("approval_asked", language, told, shown)


def _approval_choices(code: str) -> list[pb.Choice]:
    return [pb.Choice(id=f"{word} {code}", title=f"{word.capitalize()} {code}") for word in ("yes", "no")]


def _refusal(error: IndaiError, message: pb.InboundMessage) -> pb.Reply:
    log.warning("a message was refused", reason=error.reason.name, error=error.message)
    if error.reason in (Reason.NOT_FOUND, Reason.INVALID_HANDLE) and message.handle:
        return pb.Reply(text=say("no_such_handle", _language(message), handle=message.handle))
    return pb.Reply(text=say("error", _language(message)))


def _backoff(attempts: int) -> timedelta:
    return timedelta(seconds=min(60.0, 0.5 * 2 ** min(attempts, 10)) * random.uniform(0.7, 1.0))  # noqa: S311

"""`indai chat`: one's agent in the terminal. Sentences come as they are released, with what its tools do and
what waits for one's word."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from indai.cli.errors import INTERRUPTED, CheckFailed
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, clean, emit, wants_json
from indai.cli.session import owner_channel
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.v1 import conversation_pb2 as pb
from indai.v1.conversation_pb2_grpc import ConversationServiceStub

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

DEADLINE_S = 180.0


@dataclass(slots=True)
class Heard:
    """One turn as it was shown."""

    turn_id: str = ""
    accepted: pb.TurnAccepted = field(default_factory=pb.TurnAccepted)
    finished: pb.TurnFinished = field(default_factory=pb.TurnFinished)
    tools: list[pb.TurnTool] = field(default_factory=list)
    approvals: list[pb.TurnApproval] = field(default_factory=list)
    seq: int = 0


@command(
    "chat",
    "indai chat",
    'indai chat "Set up 30 min with bob this week"',
    'indai chat --with ind.ai/bob "What does your owner do?" --as ind.ai/alice',
)
@click.argument("text", required=False)
@click.option(
    "--with", "handle", metavar="HANDLE", default="", help="Somebody else's agent instead of yours."
)
@as_option
def chat(home: Home, acting: str, text: str | None, handle: str) -> None:
    """Talk to your agent.

    Without TEXT it goes on until you end the input (Ctrl-D); Ctrl-C stops an
    answer. What waits for your word is answered with: yes CODE, or no CODE.
    With --json there is one object for each message.
    """
    run(_chat(home, acting, text, handle))


async def _chat(home: Home, acting: str, text: str | None, handle: str) -> None:
    running, owner = home.running(), home.owner(acting)
    async with await owner_channel(running, home.owner_token(owner)) as channel:
        stub = ConversationServiceStub(channel)
        if text is not None:
            heard = await _say(stub, text, handle)
            _show_end(heard)
            if status := _status(heard.finished):
                raise CheckFailed(status)
            return
        watching = asyncio.create_task(_notices(stub))
        try:
            async for line in _lines("" if not sys.stdin.isatty() or wants_json() else "> "):
                if line.strip():
                    _show_end(await _say(stub, line, handle))
        finally:
            await end_tasks(watching)


async def _say(stub: ConversationServiceAsyncStub, text: str, handle: str) -> Heard:
    """One message; what is interrupted on the way is stopped, what breaks is gone on with."""
    heard = Heard()
    # No time zone: the owner's own is known where the agent lives.
    message = pb.InboundMessage(text=text, handle=handle, provider_message_id=str(uuid.uuid4()))
    with _stopping(stub, heard):
        try:
            stream: Any = stub.SendMessage(pb.SendMessageRequest(message=message), timeout=DEADLINE_S)
            async for response in stream:
                _take(heard, response)
        except Unavailable:
            if not heard.turn_id:
                raise
            request = pb.WatchTurnRequest(turn_id=heard.turn_id, after_seq=heard.seq)
            again: Any = stub.WatchTurn(request, timeout=DEADLINE_S)
            async for response in again:
                _take(heard, response)
    return heard


def _take(heard: Heard, response: pb.SendMessageResponse | pb.WatchTurnResponse) -> None:
    if not response.HasField("event"):
        return
    event, page = response.event, None if wants_json() else Page()
    heard.turn_id, heard.seq = event.turn_id, event.seq
    match event.WhichOneof("event"):
        case "accepted":
            heard.accepted = event.accepted
        case "sentence":
            if page is not None:
                page.line(event.sentence.text)
        case "tool":
            heard.tools.append(event.tool)
            if page is not None:
                _show_tool(page, event.tool)
        case "approval":
            heard.approvals.append(event.approval)
            if page is not None:
                _show_approval(page, event.approval)
        case "finished":
            heard.finished = event.finished


def _show_tool(page: Page, tool: pb.TurnTool) -> None:
    mark, style = ("✗", "red") if tool.failed else ("✓", "green") if tool.done else ("…", "dim")
    page.item(mark, f"{tool.name}: {tool.words}" if tool.words else tool.name, style, indent=2)


def _show_approval(page: Page, approval: pb.TurnApproval) -> None:
    page.line("This waits for your word:", "yellow")
    for line in clean(approval.terms).split("\n"):
        page.line(line, indent=2)
    page.line(f"Say: yes {approval.code}, or no {approval.code}", "yellow")


def _show_end(heard: Heard) -> None:
    finished = heard.finished
    value = {
        "text": finished.reply.text,
        "language": finished.reply.language,
        "turn_id": heard.turn_id,
        "session_id": heard.accepted.session_id,
        "door": heard.accepted.door,
        "handle": heard.accepted.handle,
        "degraded": finished.degraded,
        "stopped": finished.stopped,
        "reason": finished.reason,
        "tools": [
            {"name": each.name, "words": each.words, "failed": each.failed, "thread_id": each.thread_id}
            for each in heard.tools
            if each.done
        ],
        "approvals": [{"code": each.code, "terms": each.terms} for each in heard.approvals],
        "choices": [{"id": each.id, "title": each.title} for each in finished.reply.choices],
        "files": [
            {"name": each.file_name, "media_type": each.media_type, "size": each.size, "path": _kept(each)}
            for each in finished.reply.media
        ],
    }
    emit(value, lambda page: _show_rest(page, finished))


def _kept(file: pb.Media) -> str:
    """Where a file of an answer is, in the node's data directory."""
    digest = file.reference.rpartition(":")[2]
    return f"media/{digest[:2]}/{digest}"


def _show_rest(page: Page, finished: pb.TurnFinished) -> None:
    for file in finished.reply.media:
        page.item("+", f"{file.file_name}, in the node's data: {_kept(file)}", indent=2)
    for choice in finished.reply.choices:
        page.item("-", choice.title, indent=2)
    if finished.stopped:
        page.line("(stopped)", "dim")
    if finished.reason == "HANDED_OFF":
        page.line("(a person answers here; your message is with them)", "dim")


def _status(finished: pb.TurnFinished) -> int:
    """The exit status of a single message: an answer without a model is one that may work later."""
    if finished.stopped:
        return INTERRUPTED
    if finished.reason in Reason.__members__:
        return Reason[finished.reason].status.exit
    return Reason.PROVIDER_FAILED.status.exit if finished.degraded else 0


@contextlib.contextmanager
def _stopping(stub: ConversationServiceAsyncStub, heard: Heard) -> Any:
    """Ctrl-C stops the answer, here and at the provider."""
    loop, stops = asyncio.get_running_loop(), set[asyncio.Task[Any]]()

    def stop() -> None:
        if heard.turn_id:
            stops.add(asyncio.ensure_future(_stop(stub, heard.turn_id)))

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _stop(stub: ConversationServiceAsyncStub, turn_id: str) -> None:
    with contextlib.suppress(IndaiError):  # it has just ended
        await stub.StopTurn(pb.StopTurnRequest(turn_id=turn_id))


async def _notices(stub: ConversationServiceAsyncStub) -> None:
    """What the agent says of its own accord while one is here."""
    with contextlib.suppress(IndaiError):
        stream: Any = stub.WatchOutbound(pb.WatchOutboundRequest(channels=["cli"]), timeout=86_400)
        async for response in stream:
            _show_notice(response.message)
            await stub.AcknowledgeOutbound(
                pb.AcknowledgeOutboundRequest(outbound_id=response.message.outbound_id)
            )


def _show_notice(message: pb.OutboundMessage) -> None:
    text = message.reply.text
    emit({"notice": text, "outbound_id": message.outbound_id}, lambda page: page.item("·", text, "cyan"))


async def _lines(prompt: str) -> AsyncIterator[str]:
    """Lines of the input. Reading blocks, and the program must end without another line: so a thread that
    nobody waits for."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()
    wanted = threading.Semaphore(0)

    def read() -> None:
        while wanted.acquire():
            try:
                line: str | None = input(prompt)
            except EOFError:
                line = None
            loop.call_soon_threadsafe(lines.put_nowait, line)
            if line is None:
                return

    threading.Thread(target=read, daemon=True).start()
    while True:
        wanted.release()
        line = await lines.get()
        if line is None:
            return
        yield line

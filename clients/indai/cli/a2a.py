"""`indai a2a`: call any A2A agent, and hand out keys to those who call ours."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import click
import grpc.aio
import httpx
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError
from google.protobuf import json_format
from indai.cli.framework import SETTINGS, command, run
from indai.cli.home import Home, as_option, data_option
from indai.cli.output import Page, emit
from indai.cli.session import a2a_key_session, now_ms, registry_session
from indai.client.agentcard import VerifiedCard, verify_card
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused, Unavailable
from indai.protocol.quoting import quoted
from indai.v1 import a2a_pb2 as keys_pb

CARD = "/.well-known/agent-card.json"
MAX_CARD = 256 * 1024
TIMEOUT_S = 60.0
MAX_SHOWN = 2_000
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ENDED = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")


@click.group("a2a", context_settings=SETTINGS)
def a2a() -> None:
    """Speak A2A: call any agent, and let clients call yours."""


@command("card", "indai a2a card http://127.0.0.1:7406/alice --data ./node")
@click.argument("url")
@click.option("--verify/--no-verify", default=True, help="Check the signature against the registry.")
@data_option
def card(home: Home, url: str, verify: bool) -> None:
    """Show the card of the agent at URL, and whose it really is.

    The key is taken from the registry, never from where the card says.
    """
    found, owner, doubt = run(_card(home, url, verify=verify))
    value = {"card": found, "verified": owner.handle if owner else None, "doubt": doubt or None}
    emit(value, lambda page: _show_card(page, found, owner, doubt))


@command("send", 'indai a2a send http://127.0.0.1:7406/alice "Are you open on Sundays?"')
@click.argument("url")
@click.argument("text")
@click.option("--task", default="", metavar="ID", help="Go on with this task.")
@click.option("--key", default="", metavar="KEY", envvar="INDAI_A2A_KEY", help="Sent as X-API-Key.")
@click.option(
    "--binding", type=click.Choice(["JSONRPC", "HTTP+JSON", "GRPC"]), default=None, help="Only this one."
)
@click.option("--tenant", default="", help="Which agent there; a card's URL says it already.")
def send(url: str, text: str, task: str, key: str, binding: str | None, tenant: str) -> None:
    """Send TEXT to the agent at URL and show its answer.

    What it answers is data: it is shown, and nothing in it is followed.
    """
    answer = run(_send(url, text, task, key, binding, tenant))
    emit(answer, lambda page: _show_answer(page, answer))


@command("stream", 'indai a2a stream http://127.0.0.1:7406/alice "Plan a day in Pune"')
@click.argument("url")
@click.argument("text")
@click.option("--task", default="", metavar="ID", help="Go on with this task.")
@click.option("--key", default="", metavar="KEY", envvar="INDAI_A2A_KEY", help="Sent as X-API-Key.")
@click.option(
    "--binding", type=click.Choice(["JSONRPC", "HTTP+JSON", "GRPC"]), default=None, help="Only this one."
)
@click.option("--tenant", default="", help="Which agent there; a card's URL says it already.")
def stream(url: str, text: str, task: str, key: str, binding: str | None, tenant: str) -> None:
    """As `send`, with each event as it comes."""
    events = run(_stream(url, text, task, key, binding, tenant))
    emit({"events": events}, lambda page: _show_events(page, events))


@click.group("key", context_settings=SETTINGS)
def key() -> None:
    """Keys for clients that call your agent over A2A."""


@command("create", "indai a2a key create travel-bot --as ind.ai/alice")
@click.argument("name")
@as_option
def create(home: Home, acting: str, name: str) -> None:
    """Make a key. It is shown once."""
    text = run(_keys(home, acting, "CreateA2AKey", keys_pb.CreateA2AKeyRequest(name=name))).key
    emit({"name": name, "key": text}, lambda page: page.raw(text))


@command("list", "indai a2a key list --as ind.ai/alice")
@as_option
def listing(home: Home, acting: str) -> None:
    """All keys."""
    found = run(_keys(home, acting, "ListA2AKeys", keys_pb.ListA2AKeysRequest(page_size=500))).keys
    value = [{"name": each.name, "revoked": each.revoked} for each in found]
    emit({"keys": value}, lambda page: _show_keys(page, found))


@command("revoke", "indai a2a key revoke travel-bot --as ind.ai/alice")
@click.argument("name")
@as_option
def revoke(home: Home, acting: str, name: str) -> None:
    """The key, and tokens made with it, prove nothing from now on."""
    run(_keys(home, acting, "RevokeA2AKey", keys_pb.RevokeA2AKeyRequest(name=name)))
    emit({"name": name, "revoked": True}, lambda page: page.line(f"{name} is revoked.", "green"))


for each in (create, listing, revoke):
    key.add_command(each)
for part in (card, send, stream, key):
    a2a.add_command(part)


async def _keys(home: Home, acting: str, method: str, request: Any) -> Any:
    async with a2a_key_session(home, acting) as stub:
        return await getattr(stub, method)(request)


async def _card(home: Home, url: str, *, verify: bool) -> tuple[dict[str, Any], VerifiedCard | None, str]:
    found = await _fetch(url)
    if not verify:
        return found, None, "not checked"
    try:
        async with registry_session(home) as registry:
            return found, await verify_card(found, registry.resolver, now_ms()), ""
    except IndaiError as error:
        return found, None, error.message


async def _fetch(url: str) -> dict[str, Any]:
    where = url if url.endswith(CARD) else url.rstrip("/") + CARD
    if not where.startswith(("https://", "http://")):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{quoted(url)} is no address.", hint="such as https://example.org/alice"
        )
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            answer = await client.get(where)
    except httpx.HTTPError as error:
        raise Unavailable(Reason.UNREACHABLE, f"{where} can't be read: {type(error).__name__}.") from None
    if answer.status_code != 200 or len(answer.content) > MAX_CARD:
        raise Unavailable(Reason.UNREACHABLE, f"{where} answers {answer.status_code}, and no card.")
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"What {where} serves is no card.")
    return found


@contextlib.asynccontextmanager
async def _client(url: str, key: str, binding: str | None) -> AsyncIterator[tuple[Client, pb.AgentCard]]:
    made = pb.AgentCard()
    try:
        json_format.ParseDict(await _fetch(url), made, ignore_unknown_fields=True)
    except json_format.ParseError:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The card of {url} can't be read.") from None
    headers = {"A2A-Version": "1.0"} | ({"X-API-Key": key} if key else {})
    bindings = [binding] if binding else ["JSONRPC", "HTTP+JSON", "GRPC"]
    async with httpx.AsyncClient(timeout=TIMEOUT_S, headers=headers) as http:
        config = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=bindings,
            use_client_preference=True,
        )
        try:
            client = ClientFactory(config).create(made)
        except ValueError:
            raise Refused(
                Reason.UNSUPPORTED, f"{made.name or url} speaks none of {', '.join(bindings)}."
            ) from None
        async with client:
            try:
                yield client, made
            except A2AError as error:
                raise Refused(Reason.UNSUPPORTED, f"It answers: {quoted(error.message)}") from None
            except httpx.HTTPError as error:
                raise Unavailable(
                    Reason.UNREACHABLE, f"It can't be reached: {type(error).__name__}."
                ) from None


def _request(made: pb.AgentCard, text: str, task: str, tenant: str) -> pb.SendMessageRequest:
    message = pb.Message(
        message_id=str(uuid.uuid4()), role=pb.ROLE_USER, task_id=task, parts=[pb.Part(text=text)]
    )
    known = made.supported_interfaces[0].tenant if made.supported_interfaces else ""
    return pb.SendMessageRequest(message=message, tenant=tenant or known)


async def _send(url: str, text: str, task: str, key: str, binding: str | None, tenant: str) -> dict[str, Any]:
    events = await _stream(url, text, task, key, binding, tenant)
    last = next((each["task"] for each in reversed(events) if "task" in each), None)
    if last is None:
        return events[-1] if events else {}
    for event in events:
        if "statusUpdate" in event:
            last["status"] = event["statusUpdate"]["status"]
        if "artifactUpdate" in event:
            last.setdefault("artifacts", []).append(event["artifactUpdate"]["artifact"])
    return {"task": last}


async def _stream(
    url: str, text: str, task: str, key: str, binding: str | None, tenant: str
) -> list[dict[str, Any]]:
    async with _client(url, key, binding) as (client, made):
        request = _request(made, text, task, tenant)
        return [json_format.MessageToDict(event) async for event in client.send_message(request)]


def _show_card(page: Page, found: dict[str, Any], owner: VerifiedCard | None, doubt: str) -> None:
    page.line(_plain(str(found.get("name", ""))), "bold")
    page.line(_plain(str(found.get("description", ""))))
    skills = [str(each.get("id")) for each in found.get("skills") or [] if isinstance(each, dict)]
    interfaces = [
        f"{each.get('protocolBinding')} {each.get('url')}" for each in found.get("supportedInterfaces") or []
    ]
    page.fields([("skills", ", ".join(skills)), *(("reached by", each) for each in interfaces)])
    if owner:
        page.line(f"Signed by {owner.handle}, key {owner.key_id[:24]}….", "green")
    else:
        page.line(f"Not verified: {doubt}", "yellow")


def _show_answer(page: Page, answer: dict[str, Any]) -> None:
    if "message" in answer:
        _show_parts(page, answer["message"].get("parts", []))
        return
    found = answer.get("task", {})
    state = str(found.get("status", {}).get("state", "")).removeprefix("TASK_STATE_")
    page.line(f"{state.lower().replace('_', ' ')}", "bold")
    _show_parts(page, found.get("status", {}).get("message", {}).get("parts", []))
    for made in found.get("artifacts", []):
        page.line(str(made.get("name") or "artifact"), "dim")
        _show_parts(page, made.get("parts", []))
    page.fields([("task", str(found.get("id", "")))])
    if state not in ENDED:
        page.next_step(f'indai a2a send URL "…" --task {found.get("id", "")}')


def _show_events(page: Page, events: list[dict[str, Any]]) -> None:
    for each in events:
        _show_event(page, each)


def _show_event(page: Page, event: dict[str, Any]) -> None:
    kind = next(iter(event), "")
    if kind == "statusUpdate":
        status = event[kind]["status"]
        page.line(str(status["state"]).removeprefix("TASK_STATE_").lower(), "bold")
        _show_parts(page, status.get("message", {}).get("parts", []))
    elif kind == "artifactUpdate":
        _show_parts(page, event[kind]["artifact"].get("parts", []))
    elif kind == "message":
        _show_parts(page, event[kind].get("parts", []))
    elif kind == "task":
        page.line(f"task {event[kind].get('id', '')}", "dim")


def _show_parts(page: Page, parts: list[dict[str, Any]]) -> None:
    """A stranger's words, each line marked as such."""
    for part in parts:
        if "text" in part:
            for line in str(part["text"]).splitlines():
                page.line(f"> {_plain(line)}", indent=2)
        elif "data" in part:
            page.line(f"> {_plain(json.dumps(part['data'], ensure_ascii=False))}", indent=2)
        else:
            name = part.get("filename") or part.get("url") or "file"
            page.line(f"> [{_plain(str(name))}]", indent=2)


def _plain(text: str) -> str:
    """Text of any language without what could drive a terminal or turn its direction."""
    shown = "".join(
        char if char.isprintable() and char not in _BIDI_CONTROLS else "\ufffd" for char in text[:MAX_SHOWN]
    )
    return shown + ("…" if len(text) > MAX_SHOWN else "")


def _show_keys(page: Page, found: Any) -> None:
    if not found:
        page.line("There is no key yet.")
        page.next_step("indai a2a key create NAME")
    page.fields([(each.name, "revoked" if each.revoked else "valid") for each in found])

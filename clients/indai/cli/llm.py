"""`indai llm`: the gateway to language models: ask, what there is, what was called, what it cost."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from indai.cli.files import read_text
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.llm_words import FINISHES, money, price, scope_json, usage_json
from indai.cli.output import Page, clean, emit, wants_json
from indai.cli.session import owner_channel
from indai.llm.config import parse_config
from indai.llm.openai_values import CLASSES as CLASS_NUMBERS
from indai.v1 import llm_pb2 as pb
from indai.v1.llm_pb2_grpc import LlmServiceStub

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub

_HERE = "indai.cli.llm:"
_MONEY = "indai.cli.llm_money:"
SECTIONS = {
    "Commands": {
        "ask": _HERE + "ask",
        "models": _HERE + "models",
        "providers": _HERE + "providers",
        "check": _HERE + "check",
        "calls": _HERE + "calls",
        "cost": _MONEY + "cost",
        "limit": _MONEY + "limit",
        "limits": _MONEY + "limits",
    }
}
CLASSES = tuple(CLASS_NUMBERS)


@click.command("llm", cls=Group, sections=SECTIONS)
def llm() -> None:
    """Language models: ask one, see what there is and what it cost.

    Providers, models, prices and routes stand in DATA/llm.yaml; without that
    file the built-in provider answers. See docs/services/llm.md.
    """


@contextlib.asynccontextmanager
async def llm_session(
    home: Home, acting: str, *, operator: bool = False
) -> AsyncIterator[LlmServiceAsyncStub]:
    """The gateway, as an owner or as the operator."""
    token = home.operator_token() if operator else home.owner_token(home.owner(acting))
    async with await owner_channel(home.running(), token) as channel:
        yield LlmServiceStub(channel)


@command("ask", 'indai llm ask "What is a ledger?"', 'indai llm ask --class multilingual "நலமா?"')
@click.argument("text")
@click.option("--class", "model_class", type=click.Choice(CLASSES), default="auto", show_default=True)
@click.option("--model", default="", metavar="NAME", help="A configured model, before the class's others.")
@click.option("--max-tokens", type=click.IntRange(1, 64_000), default=1024, show_default=True)
@as_option
def ask(home: Home, acting: str, text: str, model_class: str, model: str, max_tokens: int) -> None:
    """Ask a model; the answer is shown as it comes."""
    request = pb.GenerateRequest(
        messages=[pb.ChatMessage(role=pb.MESSAGE_ROLE_USER, text=text)],
        model_class=CLASS_NUMBERS[model_class],
        model=model,
        max_output_tokens=max_tokens,
    )
    said, done = run(_ask(home, acting, request))
    by = done.answered_by
    value = {
        "text": said,
        "finish": FINISHES[done.finish],
        "model": by.model,
        "provider": by.provider,
        "why": by.why,
        "usage": usage_json(done.usage),
        "cost_micros": done.cost_micros,
        "currency": done.currency,
        "problems": list(done.problems),
        "ttft_ms": done.ttft_ms,
        "total_ms": done.total_ms,
        "attempts": done.attempts,
    }
    emit(value, lambda page: _show_answer(page, done))


async def _ask(home: Home, acting: str, request: pb.GenerateRequest) -> tuple[str, pb.GenerationDone]:
    said, done, show = "", pb.GenerationDone(), not wants_json()
    async with llm_session(home, acting) as stub:
        stream: Any = stub.Generate(request)
        async for event in stream:
            said += event.text
            if show and event.text:
                click.echo(clean(event.text), nl=False)
                sys.stdout.flush()
            if event.HasField("done"):
                done = event.done
    if show:
        click.echo()
    return said, done


def _show_answer(page: Page, done: pb.GenerationDone) -> None:
    page.line()
    by = done.answered_by
    used = f"{done.usage.input_tokens} tokens in, {done.usage.output_tokens} out"
    page.fields(
        [
            ("model", by.model),
            ("why", by.why),
            ("used", f"{used}, {money(done.cost_micros, done.currency)}" if by.model else ""),
            ("time", f"{done.ttft_ms} ms to the first word, {done.total_ms} ms in all"),
            ("ended", "" if done.finish == pb.FINISH_STOP else FINISHES[done.finish]),
        ]
    )
    for problem in done.problems:
        page.item("!", problem, "yellow")


@command("models", "indai llm models")
@as_option
def models(home: Home, acting: str) -> None:
    """List the configured models, with prices and the classes they serve."""
    found = run(_models(home, acting))
    value = [
        {
            "name": each.name,
            "provider": each.provider,
            "upstream": each.upstream,
            "classes": [CLASSES[number] for number in each.classes],
            "prices_micros_per_million_tokens": {
                "input": each.input_price,
                "output": each.output_price,
                "cache_read": each.cache_read_price,
                "cache_write": each.cache_write_price,
            },
            "embeds": each.embeds,
        }
        for each in found.models
    ]
    emit({"models": value, "currency": found.currency}, lambda page: _show_models(page, found))


async def _models(home: Home, acting: str) -> pb.ListModelsResponse:
    async with llm_session(home, acting) as stub:
        return await stub.ListModels(pb.ListModelsRequest())


def _show_models(page: Page, found: pb.ListModelsResponse) -> None:
    rows = [
        (
            each.name,
            each.provider,
            price(each.input_price),
            price(each.output_price),
            "embeddings" if each.embeds else ", ".join(CLASSES[number] for number in each.classes),
        )
        for each in found.models
    ]
    page.table(("model", "provider", "in", "out", "serves"), rows)
    page.line(f"Prices in {found.currency} for a million tokens.", "dim")
    page.next_step('indai llm ask "hello"')


@command("providers", "indai llm providers")
@as_option
def providers(home: Home, acting: str) -> None:
    """List the providers and how they are, and what you should know."""
    found, notices = run(_providers(home, acting))
    value = {
        "providers": [
            {
                "name": each.name,
                "kind": each.kind,
                "country": each.country,
                "key": each.key_reference,
                "available": each.available,
                "problem": each.problem,
            }
            for each in found
        ],
        "notices": [
            {"kind": each.kind, "subject": each.subject, "message": each.message, "times": each.times}
            for each in notices
        ],
    }
    emit(value, lambda page: _show_providers(page, found, notices))


async def _providers(home: Home, acting: str) -> tuple[list[pb.ProviderInfo], list[pb.LlmNotice]]:
    async with llm_session(home, acting) as stub:
        listed = await stub.ListModels(pb.ListModelsRequest())
        notices = await stub.ListNotices(pb.ListNoticesRequest(page_size=5))
    return list(listed.providers), list(notices.notices)


def _show_providers(page: Page, found: list[pb.ProviderInfo], notices: list[pb.LlmNotice]) -> None:
    rows = [
        (
            each.name,
            each.kind,
            each.country or "-",
            each.key_reference or "-",
            "ready" if each.available else each.problem or "kept out",
        )
        for each in found
    ]
    page.table(("provider", "kind", "country", "key", "state"), rows, {"ready": "green"})
    for notice in notices:
        page.item("!", f"{notice.message} ({notice.times}x)", "yellow")
    if any(notice.kind == "PROVIDER_KEY_REFUSED" for notice in notices):
        page.next_step("indai secret set NAME")


@command("check", "indai llm check llm.yaml")
@click.argument("file")
def check(file: str) -> None:
    """Check a configuration FILE without a running node."""
    config = parse_config(read_text(file))

    def show(page: Page) -> None:
        page.line(f"{file} is valid.", "green")
        for name, route in config.routes.items():
            page.fields([(name, " then ".join(route))])

    routes = {name.value: route for name, route in config.routes.items()}
    emit({"valid": True, "routes": routes, "models": list(config.models)}, show)


@command("calls", "indai llm calls", "indai llm calls --tenant acme --binding desk")
@click.option("--tenant", default="", metavar="SLUG", help="As the operator: all calls of a tenant.")
@click.option("--binding", default="", metavar="SLUG", help="Only those of a binding.")
@click.option("--last", type=click.IntRange(1, 500), default=20, show_default=True, help="How many.")
@as_option
def calls(home: Home, acting: str, tenant: str, binding: str, last: int) -> None:
    """List calls to providers, the newest first."""
    found = run(_calls(home, acting, tenant, binding, last))
    emit({"calls": [_call_json(each) for each in found]}, lambda page: _show_calls(page, found))


async def _calls(home: Home, acting: str, tenant: str, binding: str, last: int) -> list[pb.LlmCall]:
    scope = pb.LlmScope(tenant=tenant, binding=binding)
    async with llm_session(home, acting, operator=bool(tenant)) as stub:
        return list((await stub.ListCalls(pb.ListCallsRequest(scope=scope, page_size=last))).calls)


def _show_calls(page: Page, found: list[pb.LlmCall]) -> None:
    if not found:
        page.line("No model was called yet.")
        page.next_step('indai llm ask "hello"')
        return
    rows = [
        (
            _at(each.started_at_ms),
            each.model or "-",
            str(each.usage.input_tokens),
            str(each.usage.output_tokens),
            money(each.cost_micros, each.currency),
            f"{each.latency_ms} ms",
            each.error or FINISHES[each.finish],
        )
        for each in found
    ]
    page.table(("at (UTC)", "model", "in", "out", "cost", "took", "ended"), rows)


def _call_json(call: pb.LlmCall) -> dict[str, Any]:
    return {
        "id": call.id.hex(),
        "generation": call.generation_id.hex(),
        "attempt": call.attempt,
        "scope": scope_json(call.scope),
        "class": CLASSES[call.model_class],
        "provider": call.provider,
        "model": call.model,
        "why": call.why,
        "started_at": _at(call.started_at_ms, full=True),
        "usage": usage_json(call.usage),
        "cost_micros": call.cost_micros,
        "currency": call.currency,
        "latency_ms": call.latency_ms,
        "ttft_ms": call.ttft_ms,
        "finish": FINISHES[call.finish],
        "error": call.error,
        "tokens_by_tier": dict(call.tokens_by_tier),
        "stage_ms": dict(call.stage_ms),
    }


def _at(ms: int, *, full: bool = False) -> str:
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return at.isoformat().replace("+00:00", "Z") if full else f"{at:%m-%d %H:%M:%S}"

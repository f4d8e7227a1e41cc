"""`indai memory`: what the agent remembers; put in, asked, listed and corrected."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_channel
from indai.cli.words import iso, milliseconds, moment
from indai.v1 import memory_pb2 as pb
from indai.v1.memory_pb2_grpc import MemoryServiceStub

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

_HERE, _MORE = "indai.cli.memory:", "indai.cli.memory_more:"
SECTIONS = {
    "Use": {
        "remember": _HERE + "remember",
        "recall": _HERE + "recall",
        "facts": _HERE + "facts",
        "correct": _HERE + "correct",
    },
    "Own": {
        "forget": _MORE + "forget",
        "export": _MORE + "export",
        "import": _MORE + "take_in",
    },
    "Administer": {
        "document": _MORE + "document",
        "scopes": _MORE + "scopes",
        "jobs": _MORE + "jobs",
        "bench": "indai.cli.memory_bench:bench_command",
    },
}
KINDS = {
    "private": pb.SCOPE_KIND_PRIVATE,
    "public": pb.SCOPE_KIND_PUBLIC,
    "relationship": pb.SCOPE_KIND_RELATIONSHIP,
    "team": pb.SCOPE_KIND_TEAM,
    "human": pb.SCOPE_KIND_HUMAN,
}
_STATES = {"active": pb.FACT_STATE_ACTIVE, "pending": pb.FACT_STATE_PENDING, "ended": pb.FACT_STATE_ENDED}
_PAGE = 1_000
_WHY = {
    "lexical": "has the words",
    "vector": "means the same",
    "neighbours": "beside what fits",
    "speaker": "said by whom you named",
    "time": "said at that time",
    "when": "names a time",
    "recency": "recent",
    "importance": "important",
}

scope_option = click.option(
    "--scope",
    metavar="KIND[:ID]",
    default="",
    help="private, public, relationship:HANDLE, team:NAME or human:NAME.",
)


@click.command("memory", cls=Group, sections=SECTIONS)
def memory() -> None:
    """Remember, recall, correct and forget what your agent knows."""


@contextlib.asynccontextmanager
async def memory_session(home: Home, acting: str) -> AsyncIterator[MemoryServiceAsyncStub]:
    """The owner's own memory."""
    running, handle = home.running(), home.owner(acting)
    async with await owner_channel(running, home.owner_token(handle)) as channel:
        yield MemoryServiceStub(channel)


def scope_of(text: str) -> pb.Scope | None:
    """The scope that was named; None for none."""
    if not text:
        return None
    kind, _, name = text.partition(":")
    if kind not in KINDS:
        raise wrong(f"{text!r} is no scope.", f"write it like {', '.join(KINDS)}, or relationship:ind.ai/bob")
    return pb.Scope(kind=KINDS[kind], id=name)


def access_to(scope: pb.Scope | None) -> pb.Access:
    """Teams and personas are reached as the administrator, everything else as the owner."""
    knowledge = scope is not None and scope.kind in (pb.SCOPE_KIND_TEAM, pb.SCOPE_KIND_HUMAN)
    return pb.Access(door=pb.DOOR_ADMIN if knowledge else pb.DOOR_PRIVATE)


def scope_name(scope: pb.Scope) -> str:
    """A scope as it is written on the command line."""
    kind = pb.ScopeKind.Name(scope.kind).removeprefix("SCOPE_KIND_").lower()
    return f"{kind}:{scope.id}" if scope.id else kind


@command(
    "remember",
    'indai memory remember "My dentist is Dr. Rao in Indiranagar"',
    'indai memory remember --fact home.city=Pune "We moved to Pune in May"',
)
@click.argument("texts", metavar="TEXT...", nargs=-1)
@click.option("--fact", "stated", metavar="KEY=VALUE", multiple=True, help="A fact that holds (repeat).")
@click.option("--speaker", metavar="NAME", default="", help="Who said it (you).")
@click.option("--session", metavar="NAME", default="cli", show_default=True, help="The conversation.")
@scope_option
@as_option
def remember(
    home: Home,
    acting: str,
    texts: tuple[str, ...],
    stated: tuple[str, ...],
    speaker: str,
    session: str,
    scope: str,
) -> None:
    """Store what was said, and facts; the same again changes nothing."""
    if not texts and not stated:
        raise wrong(
            "There is nothing to remember.", "say it in quotes, or state a fact with --fact KEY=VALUE"
        )
    where = scope_of(scope)
    request = pb.RememberRequest(
        access=access_to(where), scope=where, facts=[_stated(each) for each in stated]
    )
    who = speaker or home.owner(acting)
    for text in texts:
        digest = hashlib.sha256(f"{session}\n{who}\n{text}".encode()).hexdigest()
        role = pb.SPEAKER_ROLE_PERSON
        request.turns.append(
            pb.Turn(source_id=f"cli-{digest}", session=session, speaker=who, role=role, text=text)
        )
    answer = run(_remember(home, acting, request))
    found = {
        "stored": answer.stored,
        "duplicates": answer.duplicates,
        "facts": [fact_json(fact) for fact in answer.facts],
    }
    emit(found, lambda page: _show_remembered(page, answer))


def _stated(text: str) -> pb.Fact:
    key, _, value = text.partition("=")
    if not key or not value:
        raise wrong(f"{text!r} is no fact.", "write it like home.city=Pune")
    try:
        json.loads(value)
    except ValueError:
        value = json.dumps(value, ensure_ascii=False)
    return pb.Fact(key=key, value_json=value)


async def _remember(home: Home, acting: str, request: pb.RememberRequest) -> pb.RememberResponse:
    async with memory_session(home, acting) as stub:
        return await stub.Remember(request)


def _show_remembered(page: Page, answer: pb.RememberResponse) -> None:
    known = f"; {answer.duplicates} known already" if answer.duplicates else ""
    page.line(f"Remembered: {answer.stored} new{known}.", "green" if answer.stored else "")
    if answer.facts:
        page.table(("fact", "value", "state"), [(f.key, _value(f), fact_state(f)) for f in answer.facts])
    page.next_step('indai memory recall "…"', "indai memory facts")


@command(
    "recall",
    'indai memory recall "who is my dentist?"',
    'indai memory recall "mera dentist kaun hai" --explain --scope private',
)
@click.argument("question")
@click.option("--explain", is_flag=True, help="Why each was found, and where the time went.")
@click.option("--limit", type=click.IntRange(1, 50), default=5, show_default=True, help="Most hits.")
@click.option("--speaker", metavar="NAME", default="", help="Prefer what NAME said.")
@scope_option
@as_option
def recall(
    home: Home, acting: str, question: str, explain: bool, limit: int, speaker: str, scope: str
) -> None:
    """What the agent remembers that bears on QUESTION, best first."""
    where = scope_of(scope)
    request = pb.RecallRequest(
        access=access_to(where),
        query=question,
        limit=limit,
        speaker=speaker,
        scopes=[where] if where else [],
    )
    answer = run(_recall(home, acting, request))
    found: dict[str, Any] = {"hits": [_hit_json(hit) for hit in answer.hits], "notes": list(answer.notes)}
    if explain:
        times = answer.times
        found |= {
            "model": answer.model,
            "microseconds": {"embed": times.embed_us, "search": times.search_us, "rank": times.rank_us},
        }
    emit(found, lambda page: show_hits(page, answer.hits, list(answer.notes), answer if explain else None))


async def _recall(home: Home, acting: str, request: pb.RecallRequest) -> pb.RecallResponse:
    async with memory_session(home, acting) as stub:
        return await stub.Recall(request)


def _hit_json(hit: pb.Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "scope": scope_name(hit.scope),
        "kind": pb.MemoryKind.Name(hit.kind).removeprefix("MEMORY_KIND_").lower(),
        "text": hit.text,
        "score": hit.score,
        "why": {reason.signal: reason.part for reason in hit.why},
        "terms": list(hit.terms),
        "speaker": hit.speaker,
        "session": hit.session,
        "said_time": iso(milliseconds(hit.said_time)),
        "source_id": hit.source_id,
        "trust": pb.Trust.Name(hit.trust).removeprefix("TRUST_").lower(),
    }


def show_hits(page: Page, hits: Any, notes: list[str], explained: pb.RecallResponse | None = None) -> None:
    """Hits for a person; with `explained`, why each was found."""
    for hit in hits:
        said = moment(milliseconds(hit.said_time), ZoneInfo("UTC"))
        page.item(f"{hit.score:.2f}", hit.text)
        about = ", ".join(filter(None, (hit.speaker, said, scope_name(hit.scope), hit.id)))
        page.line(about, "dim", indent=6)
        if explained is not None:
            parts = ", ".join(
                f"{_WHY.get(reason.signal, reason.signal)} {reason.part:.2f}" for reason in hit.why
            )
            page.line(f"why: {parts}", "dim", indent=6)
    if not hits:
        page.line("Nothing that is remembered bears on it.")
    for text in notes:
        page.line(f"Note: {text}", "yellow")
    if explained is not None:
        times = explained.times
        spent = f"embedding {times.embed_us} us, search {times.search_us} us, ranking {times.rank_us} us"
        page.line(f"{explained.model or 'words only'}: {spent}", "dim")


@command("facts", "indai memory facts", "indai memory facts preference --state ended")
@click.argument("prefix", default="")
@click.option(
    "--state", type=click.Choice([*_STATES, "all"]), default="active", show_default=True, help="Which facts."
)
@scope_option
@as_option
def facts(home: Home, acting: str, prefix: str, state: str, scope: str) -> None:
    """List facts, those whose key begins with PREFIX."""
    where = scope_of(scope)
    request = pb.ListFactsRequest(
        access=access_to(where),
        scopes=[where] if where else [],
        key_prefix=prefix,
        state=_STATES.get(state, pb.FACT_STATE_UNSPECIFIED),
        all_states=state == "all",
        page_size=_PAGE,
    )
    found = run(_facts(home, acting, request))
    emit({"facts": [fact_json(fact) for fact in found]}, lambda page: _show_facts(page, found))


async def _facts(home: Home, acting: str, request: pb.ListFactsRequest) -> list[pb.Fact]:
    async with memory_session(home, acting) as stub:
        found: list[pb.Fact] = []
        while True:
            answer = await stub.ListFacts(request)
            found += answer.facts
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token


def _show_facts(page: Page, found: list[pb.Fact]) -> None:
    if not found:
        page.line("No such fact is known.")
        page.next_step("indai memory facts --state all")
        return
    rows = [(fact.key, fact_state(fact), fact.id, _value(fact)) for fact in found]
    page.table(("key", "state", "id", "value"), rows, {"active": "green", "ended": "dim"})


@command("correct", "indai memory correct 01a206ab-0140-70fe-9b4d-81ea4eaff841 Pune")
@click.argument("identifier", metavar="ID")
@click.argument("value", default="")
@as_option
def correct(home: Home, acting: str, identifier: str, value: str) -> None:
    """Put VALUE in the place of the fact ID; without VALUE it only ends."""
    text = _stated(f"value={value}").value_json if value else ""
    request = pb.CorrectFactRequest(access=access_to(None), id=identifier, value_json=text)
    answer = run(_correct(home, acting, request))
    now = fact_json(answer.fact) if answer.HasField("fact") else None
    words = f"{answer.fact.key} is now {answer.fact.value_json}." if now else "The fact has ended."
    emit({"fact": now}, lambda page: page.line(words, "green"))


async def _correct(home: Home, acting: str, request: pb.CorrectFactRequest) -> pb.CorrectFactResponse:
    async with memory_session(home, acting) as stub:
        return await stub.CorrectFact(request)


def fact_state(fact: pb.Fact) -> str:
    """Where a fact stands."""
    return pb.FactState.Name(fact.state).removeprefix("FACT_STATE_").lower()


def _value(fact: pb.Fact) -> str:
    value = json.loads(fact.value_json)
    return value if isinstance(value, str) else fact.value_json


def fact_json(fact: pb.Fact) -> dict[str, Any]:
    """A fact for `--json`."""
    return {
        "id": fact.id,
        "scope": scope_name(fact.scope),
        "key": fact.key,
        "value": json.loads(fact.value_json),
        "state": fact_state(fact),
        "confidence": fact.confidence,
        "mentions": fact.mentions,
        "valid_from": iso(milliseconds(fact.valid_from_time)),
        "valid_to": iso(milliseconds(fact.valid_to_time)),
        "origin": fact.origin,
        "person": fact.person,
        "source": fact.source,
    }

"""`indai ask`, `answer`, `request`, `requests`, `office`: questions, and requests to offices."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import click
import yaml
from indai.cli.exchange import rest, show_thread, span_of
from indai.cli.files import read_text
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit, note
from indai.cli.session import owner_session
from indai.cli.words import iso, milliseconds, moment, thread_json
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.v1 import asking_pb2 as pb
from indai.v1 import owner_pb2

MINUTE_MS = 60_000
_FIELDS = frozenset({"name", "title", "within", "categories", "keywords", "fallback"})


@command("ask", 'indai ask ind.ai/bob "When does your shop open?"')
@click.argument("peer")
@click.argument("question")
@click.option("--topic", metavar="NAME", default="", help="What it is about, for their rules.")
@as_option
def ask(home: Home, acting: str, peer: str, question: str, topic: str) -> None:
    """Ask PEER's agent a QUESTION.

    It answers from what its owner lets you read, with its sources, or asks
    its owner. The answer is the other side's word, signed.
    """
    Handle.parse(peer)
    answer, zone = run(_ask(home, acting, peer, question, topic))
    emit(thread_json(answer.thread) | _answer_json(answer), lambda page: _show_answer(page, answer, zone))


async def _ask(
    home: Home, acting: str, peer: str, question: str, topic: str
) -> tuple[pb.GetAnswerResponse, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = pb.AskQuestionRequest(
            request_id=str(uuid.uuid4()), peer=peer, question=question, topic=topic
        )
        note(f"{owner.handle} asks {peer}")
        thread = await rest(owner, (await owner.asking.AskQuestion(request)).thread)
        got = await owner.asking.GetAnswer(pb.GetAnswerRequest(thread_id=thread.thread_id))
        return got, await owner.zone()


def _answer_json(answer: pb.GetAnswerResponse) -> dict[str, Any]:
    return {
        "question": answer.question,
        "answer": answer.answer or None,
        "sources": [{"title": source.title, "uri": source.uri} for source in answer.sources],
        "confidence_percent": answer.confidence_percent,
    }


def _show_answer(page: Page, answer: pb.GetAnswerResponse, zone: ZoneInfo) -> None:
    if not answer.answer:
        show_thread(page, answer.thread, zone, "Answered.")
        page.next_step(f"indai threads {answer.thread.thread_id[:12]}")
        return
    page.line(answer.answer, "green")
    sources = ", ".join(f"{one.title} {one.uri}".strip() for one in answer.sources)
    page.fields([("from", sources), ("sure", f"{answer.confidence_percent} %")])


@command("answer", 'indai answer 3f9a1c02 "We are open till nine."')
@click.argument("code")
@click.argument("text")
@as_option
def answer(home: Home, acting: str, code: str, text: str) -> None:
    """Answer what the inbox asks under CODE, in your own words.

    TEXT is signed and sent just as it is.
    """
    thread, zone = run(_answer(home, acting, pb.AnswerQuestionRequest(code=code, answer=text)))
    emit(
        thread_json(thread),
        lambda page: show_thread(page, thread, zone, f"{thread.peer} has your answer."),
    )


async def _answer(
    home: Home, acting: str, request: pb.AnswerQuestionRequest
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        thread = await rest(owner, (await owner.asking.AnswerQuestion(request)).thread)
        return thread, await owner.zone()


@command("request", 'indai request ind.ai/office "The street light is dark" --category street-lights')
@click.argument("office")
@click.argument("subject")
@click.option("--text", metavar="TEXT", default="", help="In full.")
@click.option("--category", metavar="NAME", required=True, help="What sort of request.")
@click.option("--department", metavar="NAME", default="", help="Whose it is, where you know.")
@as_option
def request(
    home: Home, acting: str, office: str, subject: str, text: str, category: str, department: str
) -> None:
    """File a request with OFFICE; it says who does it, and until when.

    The categories pitch and introduction go to the owner in person.
    """
    Handle.parse(office)
    wanted = pb.FileRequestRequest(
        request_id=str(uuid.uuid4()),
        office=office,
        subject=subject,
        text=text,
        category=category,
        department=department,
    )
    thread, zone = run(_file(home, acting, wanted))
    emit(thread_json(thread), lambda page: _show_filed(page, thread, zone))


async def _file(home: Home, acting: str, wanted: pb.FileRequestRequest) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        thread = await rest(owner, (await owner.asking.FileRequest(wanted)).thread)
        return thread, await owner.zone()


def _show_filed(page: Page, thread: owner_pb2.Thread, zone: ZoneInfo) -> None:
    due = moment(milliseconds(thread.due_time), zone) if thread.HasField("due_time") else ""
    show_thread(page, thread, zone, f"Filed with {thread.peer}; it will be resolved by {due}.")
    if thread.state == owner_pb2.THREAD_STATE_COMMITTED:
        page.next_step(f"indai requests status {thread.thread_id[:12]}")


@click.command(
    "requests",
    cls=Group,
    sections={
        "Requests": {
            "list": "indai.cli.asking:list_requests",
            "status": "indai.cli.asking:status",
            "stage": "indai.cli.asking:stage",
            "resolve": "indai.cli.asking:resolve",
        }
    },
)
def requests() -> None:
    """Requests that you filed, or that were filed with you."""


@command("list", "indai requests list", "indai requests list --department water --as ind.ai/office")
@click.option("--all", "everything", is_flag=True, help="Also those that are resolved or called off.")
@click.option("--department", metavar="NAME", default="", help="Only of this department.")
@as_option
def list_requests(home: Home, acting: str, everything: bool, department: str) -> None:
    """List requests by due time; what is overdue says so."""
    found, zone = run(_requests(home, acting, pb.ListRequestsRequest(all=everything, department=department)))
    emit({"requests": [_filed(one) for one in found]}, lambda page: _show_requests(page, found, zone))


async def _requests(
    home: Home, acting: str, wanted: pb.ListRequestsRequest
) -> tuple[list[pb.FiledRequest], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        found: list[pb.FiledRequest] = []
        while True:
            answer = await owner.asking.ListRequests(wanted)
            found += answer.requests
            if not answer.next_page_token:
                return found, await owner.zone()
            wanted.page_token = answer.next_page_token


def _show_requests(page: Page, found: Sequence[pb.FiledRequest], zone: ZoneInfo) -> None:
    if not found:
        page.line("There are no requests.")
        return
    for one in found:
        way = "from" if one.incoming else "to"
        style = {"OVERDUE": "red", "FULFILLED": "green"}.get(one.state, "bold")
        page.line(f"{one.reference} {way} {one.peer}: {one.state.lower()}", style)
        page.fields(_lines(one, zone), indent=2)


def _lines(one: pb.FiledRequest, zone: ZoneInfo) -> list[tuple[str, str]]:
    return [
        ("about", one.subject),
        ("department", one.department),
        ("due", moment(milliseconds(one.due_time), zone)),
        ("stage", one.stage),
        ("outcome", one.outcome),
    ]


def _filed(one: pb.FiledRequest) -> dict[str, Any]:
    return {
        "thread": one.thread_id,
        "peer": one.peer,
        "incoming": one.incoming,
        "reference": one.reference,
        "subject": one.subject,
        "text": one.text,
        "category": one.category,
        "department": one.department,
        "due": iso(milliseconds(one.due_time)),
        "created": iso(milliseconds(one.create_time)),
        "state": one.state,
        "stage": one.stage,
        "outcome": one.outcome,
    }


@command("status", "indai requests status WATER-4FA2B81C07")
@click.argument("name")
@as_option
def status(home: Home, acting: str, name: str) -> None:
    """Ask the office how the request NAME (its number or thread) stands."""
    one, zone = run(_poll(home, acting, name))
    emit(_filed(one), lambda page: _show_requests(page, [one], zone))


async def _poll(home: Home, acting: str, name: str) -> tuple[pb.FiledRequest, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        polled = await owner.asking.PollRequest(pb.PollRequestRequest(request=name))
        return polled.request, await owner.zone()


@command("stage", 'indai requests stage WATER-4FA2B81C07 "A crew is on its way."')
@click.argument("name")
@click.argument("words")
@as_option
def stage(home: Home, acting: str, name: str, words: str) -> None:
    """Say where the request NAME stands; whoever filed it may ask."""
    one, zone = run(_stage(home, acting, pb.SetRequestStageRequest(request=name, stage=words)))
    emit(_filed(one), lambda page: _show_requests(page, [one], zone))


async def _stage(
    home: Home, acting: str, wanted: pb.SetRequestStageRequest
) -> tuple[pb.FiledRequest, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        return (await owner.asking.SetRequestStage(wanted)).request, await owner.zone()


@command("resolve", 'indai requests resolve WATER-4FA2B81C07 --outcome "The tap was mended."')
@click.argument("name")
@click.option("--outcome", metavar="TEXT", required=True, help="What came of it; they read it.")
@as_option
def resolve(home: Home, acting: str, name: str, outcome: str) -> None:
    """Say that the request NAME is done, with what came of it."""
    one, zone = run(_resolve(home, acting, pb.ResolveRequestRequest(request=name, outcome=outcome)))
    emit(_filed(one), lambda page: _show_requests(page, [one], zone))


async def _resolve(
    home: Home, acting: str, wanted: pb.ResolveRequestRequest
) -> tuple[pb.FiledRequest, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        return (await owner.asking.ResolveRequest(wanted)).request, await owner.zone()


@click.command(
    "office",
    cls=Group,
    sections={"Office": {"departments": "indai.cli.asking:departments"}},
)
def office() -> None:
    """An office: who does what, and within what time."""


@command("departments", "indai office departments", "indai office departments --set departments.yaml")
@click.option("--set", "path", metavar="FILE", default="", help="Replace all with those of this YAML file.")
@as_option
def departments(home: Home, acting: str, path: str) -> None:
    """Show the departments, or set them.

    FILE is a list: name, within (its service level, as 7d or 12h), and
    title, categories, keywords, fallback where wanted.
    """
    wanted = read_departments(read_text(path)) if path else None
    found = run(_departments(home, acting, wanted))
    value = [
        {
            "name": one.name,
            "title": one.title,
            "service_minutes": one.service_minutes,
            "categories": list(one.categories),
            "keywords": list(one.keywords),
            "fallback": one.fallback,
        }
        for one in found
    ]
    emit({"departments": value}, lambda page: _show_departments(page, found))


def _show_departments(page: Page, found: Sequence[pb.Department]) -> None:
    if not found:
        page.line("You have no departments: requests go to you in person.")
        page.next_step("indai office departments --set FILE")
        return
    rows = [
        (
            one.name,
            f"{one.service_minutes / 1440:g} d",
            " ".join(one.categories) or ("the rest" if one.fallback else ""),
        )
        for one in found
    ]
    page.table(("department", "within", "categories"), rows)


async def _departments(home: Home, acting: str, wanted: list[pb.Department] | None) -> list[pb.Department]:
    async with owner_session(home, acting) as owner:
        if wanted is not None:
            return list(
                (await owner.asking.SetDepartments(pb.SetDepartmentsRequest(departments=wanted))).departments
            )
        return list((await owner.asking.ListDepartments(pb.ListDepartmentsRequest())).departments)


def read_departments(text: str) -> list[pb.Department]:
    """Departments out of YAML. Raises InvalidInput."""
    try:
        listed = yaml.safe_load(text) or []
    except yaml.YAMLError:
        raise _wrong("The file is no YAML.") from None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise _wrong("The file is a list of departments.")
    return [_department(one) for one in listed]


def _department(fields: dict[str, Any]) -> pb.Department:
    unknown = set(fields) - _FIELDS
    if unknown or "name" not in fields or "within" not in fields:
        what = f"{min(unknown)!r} is no field of it" if unknown else "it has a name and a time (within)"
        raise _wrong(f"A department can't be read: {what}.")
    number, unit = span_of(str(fields["within"]))
    try:
        return pb.Department(
            name=fields["name"],
            title=fields.get("title", ""),
            service_minutes=number * unit.length_ms // MINUTE_MS,
            categories=fields.get("categories", []),
            keywords=fields.get("keywords", []),
            fallback=fields.get("fallback", False),
        )
    except (TypeError, ValueError):
        raise _wrong(f"The department {fields['name']!r} has a field of the wrong type.") from None


def _wrong(message: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, message, hint="see: indai office departments --help")

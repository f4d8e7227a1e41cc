"""`indai tool`: what one's agent can do, what it did, and what it works on."""

from __future__ import annotations

import json
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import iso, milliseconds, moment
from indai.protocol.errors import NotFound, Reason
from indai.v1 import tools_pb2 as pb

_HERE = "indai.cli.tool:"
SECTIONS = {
    "Tools": {
        "list": _HERE + "listing",
        "show": _HERE + "show",
        "call": _HERE + "call",
        "calls": _HERE + "calls",
        "jobs": _HERE + "jobs",
        "retry": _HERE + "retry",
    },
    "Records": {
        "records": "indai.cli.tool_records:records",
        "status": "indai.cli.tool_records:status",
    },
}
FAILED = 3


@click.command("tool", cls=Group, sections=SECTIONS)
def tool() -> None:
    """What your agent can do, what it did, and what it works on.

    Its AGENT tier names its tools; DATA/tools.yaml narrows them for all.
    """


@command("list", "indai tool list", "indai tool list --door public")
@click.option("--door", type=click.Choice(["private", "public", "distribution"]), help="Only at this door.")
@as_option
def listing(home: Home, acting: str, door: str | None) -> None:
    """List the tools of this node."""
    found = run(_tools(home, acting, door or ""))
    rows = [[each.name, each.effect, ", ".join(each.doors), each.description] for each in found]
    emit(
        {"tools": [_tool_json(each) for each in found]},
        lambda page: page.table(["tool", "effect", "doors", "what it does"], rows),
    )


async def _tools(home: Home, acting: str, door: str = "") -> list[pb.ToolInfo]:
    async with owner_session(home, acting) as owner:
        return list((await owner.tools.ListTools(pb.ListToolsRequest(door=door))).tools)


@command("show", "indai tool show meet")
@click.argument("name")
@as_option
def show(home: Home, acting: str, name: str) -> None:
    """Show the tool NAME with the schema of its arguments."""
    found = next((each for each in run(_tools(home, acting)) if each.name == name), None)
    if found is None:
        raise NotFound(Reason.NOT_FOUND, f"There is no tool {name}.", hint="indai tool list")
    emit(_tool_json(found), lambda page: _show(page, found))


def _show(page: Page, found: pb.ToolInfo) -> None:
    page.line(found.name, "bold")
    page.line(found.description)
    page.fields(
        [
            ("effect", found.effect),
            ("touches", ", ".join(found.touches)),
            ("doors", ", ".join(found.doors)),
            ("needs", found.needs),
            ("runs", "as a job" if found.long_running else ""),
        ]
    )
    schema = json.loads(found.arguments_schema_json)
    required = schema.get("required", [])
    for name, about in schema.get("properties", {}).items():
        mark = "*" if name in required else "-"
        page.item(mark, f"{name} ({about.get('type', 'any')}) {about.get('description', '')}".rstrip())


@command(
    "call", """indai tool call meet '{"with": "bob", "when": "this week"}'""", "indai tool call my-agenda"
)
@click.argument("name")
@click.argument("arguments", default="{}", metavar="[JSON]")
@as_option
def call(home: Home, acting: str, name: str, arguments: str) -> None:
    """Call the tool NAME as you, with its arguments as JSON.

    The same path as your agent's own calls, at your private door. Exit status
    3 when it failed.
    """
    outcome = run(_call(home, acting, name, arguments))
    emit(outcome_json(outcome), lambda page: show_call(page, outcome))
    if outcome.status == "failed":
        raise SystemExit(FAILED)


async def _call(home: Home, acting: str, name: str, arguments: str) -> pb.CallToolResponse:
    async with owner_session(home, acting) as owner:
        request = pb.CallToolRequest(request_id=str(uuid.uuid4()), tool=name, arguments_json=arguments)
        return await owner.tools.CallTool(request, timeout=60)


def show_call(page: Page, outcome: pb.CallToolResponse) -> None:
    """What became of a call."""
    styles = {"done": "green", "failed": "red", "running": "yellow", "needs_approval": "yellow"}
    head = outcome.words or {"running": "It goes on.", "needs_approval": "It waits for your word."}.get(
        outcome.status, "Done."
    )
    page.line(head, styles.get(outcome.status, ""))
    for line in outcome.approval_terms.splitlines():
        page.line(line, indent=2)
    page.fields(
        [(each.label, each.text) for each in outcome.fields]
        + [("code", outcome.code), ("thread", outcome.thread_id), ("job", outcome.job_id)]
    )
    if outcome.approval_code:
        page.next_step(f"indai approve {outcome.approval_code}", f"indai decline {outcome.approval_code}")


def outcome_json(outcome: pb.CallToolResponse) -> dict[str, Any]:
    """The same for programs."""
    return {
        "status": outcome.status,
        "words": outcome.words,
        "fields": [
            {"label": each.label, "text": each.text, "untrusted": each.untrusted} for each in outcome.fields
        ],
        "result": json.loads(outcome.result_json or "{}"),
        "code": outcome.code,
        "retryable": outcome.retryable,
        "approval": outcome.approval_code,
        "job": outcome.job_id,
        "thread": outcome.thread_id,
    }


@command("calls", "indai tool calls --limit 20")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="How many.")
@as_option
def calls(home: Home, acting: str, limit: int) -> None:
    """List what tools did, newest first."""
    found, zone = run(_calls(home, acting, limit))
    value = [
        {
            "time": iso(milliseconds(each.time)),
            "tool": each.tool,
            "session": each.session_id,
            "door": each.door,
            "channel": each.channel,
            "arguments": json.loads(each.arguments_json),
            "result": each.result,
            "status": each.status,
            "error": each.error,
            "latency_ms": each.latency_ms,
            "cached": each.cached,
        }
        for each in found
    ]
    rows = [
        [
            moment(milliseconds(each.time), zone),
            each.tool,
            each.error or each.status,
            f"{each.latency_ms} ms",
            each.arguments_json[:80],
        ]
        for each in found
    ]
    emit({"calls": value}, lambda page: page.table(["when", "tool", "outcome", "took", "arguments"], rows))


async def _calls(home: Home, acting: str, limit: int) -> tuple[list[pb.ToolCallRecord], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        answer = await owner.tools.ListToolCalls(pb.ListToolCallsRequest(page_size=limit))
        return list(answer.calls), await owner.zone()


@command("jobs", "indai tool jobs", "indai tool jobs --state dead")
@click.option("--state", type=click.Choice(["waiting", "done", "dead"]), help="Only these.")
@as_option
def jobs(home: Home, acting: str, state: str | None) -> None:
    """List what tools work on or have given up, newest first."""
    found, zone = run(_jobs(home, acting, state or ""))
    value = [
        {
            "job": each.job_id,
            "kind": each.kind,
            "tool": each.tool,
            "state": each.state,
            "attempts": each.attempts,
            "error": each.error,
            "due": iso(milliseconds(each.due_time)),
            "created": iso(milliseconds(each.create_time)),
        }
        for each in found
    ]
    rows = [
        [
            each.job_id,
            each.kind,
            each.tool,
            each.error or each.state,
            moment(milliseconds(each.due_time), zone),
        ]
        for each in found
    ]
    emit({"jobs": value}, lambda page: page.table(["job", "kind", "tool", "state", "due"], rows))


async def _jobs(home: Home, acting: str, state: str) -> tuple[list[pb.ToolJob], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        answer = await owner.tools.ListToolJobs(pb.ListToolJobsRequest(state=state, page_size=100))
        return list(answer.jobs), await owner.zone()


@command("retry", "indai tool retry 5f6d2c1e-7d7c-5a3e-9c55-7b8f5d2c1e00")
@click.argument("job")
@as_option
def retry(home: Home, acting: str, job: str) -> None:
    """Try JOB again, which was given up."""
    try:
        uuid.UUID(job)
    except ValueError:
        raise wrong(f"{job} is no job.", "indai tool jobs --state dead") from None
    run(_retry(home, acting, job))
    emit({"job": job, "state": "waiting"}, lambda page: page.line("It is tried again.", "green"))


async def _retry(home: Home, acting: str, job: str) -> None:
    async with owner_session(home, acting) as owner:
        await owner.tools.RetryToolJob(pb.RetryToolJobRequest(job_id=job))


def _tool_json(each: pb.ToolInfo) -> dict[str, Any]:
    return {
        "name": each.name,
        "description": each.description,
        "effect": each.effect,
        "touches": list(each.touches),
        "doors": list(each.doors),
        "needs": each.needs,
        "long_running": each.long_running,
        "arguments": json.loads(each.arguments_schema_json),
        "result": json.loads(each.result_schema_json),
    }

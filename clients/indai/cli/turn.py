"""`indai turn`: how an answer of an agent came about."""

from __future__ import annotations

import json
from typing import Any

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_channel
from indai.v1 import conversation_pb2 as pb
from indai.v1.conversation_pb2_grpc import ConversationServiceStub


@command("turn", "indai turn 019ab2c3d4e57f60a1b2c3d4e5f60718")
@click.argument("turn_id", metavar="TURN")
@as_option
def turn(home: Home, acting: str, turn_id: str) -> None:
    """Show how a turn went: stages, tools, models, guardrails.

    TURN is the turn_id that `indai chat --json` prints.
    """
    found = run(_turn(home, acting, turn_id))
    value = {
        "turn_id": found.turn_id,
        "session_id": found.session_id,
        "ending": found.ending,
        "reason": found.reason,
        "attempts": found.attempts,
        "cost_micros": found.cost_micros,
        "stage_ms": dict(found.stage_ms),
        "trace": json.loads(found.trace_json),
        "breaches": [
            {"tier": each.tier, "rule": each.rule, "severity": each.severity} for each in found.breaches
        ],
    }
    emit(value, lambda page: _show(page, found, value["trace"]))


async def _turn(home: Home, acting: str, turn_id: str) -> pb.GetTurnResponse:
    owner = home.owner(acting)
    async with await owner_channel(home.running(), home.owner_token(owner)) as channel:
        return await ConversationServiceStub(channel).GetTurn(pb.GetTurnRequest(turn_id=turn_id))


def _show(page: Page, found: pb.GetTurnResponse, trace: Any) -> None:
    tries = f", after {found.attempts} tries" if found.attempts > 1 else ""
    page.fields(
        [
            ("ended", f"{found.ending or 'not yet'}{tries}"),
            ("reason", found.reason),
            ("route", f"{trace.get('route', '')}: {trace.get('why', '')}" if trace.get("route") else ""),
            ("models", "; ".join(trace.get("models", ()))),
            ("tools", ", ".join(f"{each['tool']} ({each['status']})" for each in trace.get("tools", ()))),
            ("problems", "; ".join(trace.get("problems", ()))),
            ("guardrails", ", ".join(f"{each.rule} ({each.severity})" for each in found.breaches)),
        ]
    )
    page.table(("stage", "ms"), [(name, f"{took:.1f}") for name, took in found.stage_ms.items()])

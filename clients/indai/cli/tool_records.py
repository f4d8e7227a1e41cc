"""`indai tool records`, `indai tool status`: what agents took down for a team."""

from __future__ import annotations

import json
from typing import Any

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import emit
from indai.cli.session import record_session
from indai.cli.words import iso, milliseconds
from indai.v1 import tools_pb2 as pb


@command("records", "indai tool records", "indai tool records --kind lead --tenant acme")
@click.option("--kind", default="", metavar="KIND", help="Only these: lead, demo, fan, visit, document …")
@click.option("--tenant", default="", metavar="SLUG", help="Those of a tenant, as the node's operator.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="How many.")
@as_option
def records(home: Home, acting: str, kind: str, tenant: str, limit: int) -> None:
    """List what agents took down, newest first.

    It may hold what people said of their health.
    """
    found = run(_records(home, acting, kind, tenant, limit))
    value = [_json(each) for each in found]
    rows = [[each["record"], each["kind"], each["status"], _line(each["data"])] for each in value]
    emit({"records": value}, lambda page: page.table(["record", "kind", "status", "what"], rows))


async def _records(home: Home, acting: str, kind: str, tenant: str, limit: int) -> list[pb.ToolRecord]:
    async with record_session(home, acting, tenant) as stub:
        request = pb.ListRecordsRequest(kind=kind, tenant=tenant, page_size=limit)
        return list((await stub.ListRecords(request)).records)


@command("status", "indai tool status 5f6d2c1e-7d7c-5a3e-9c55-7b8f5d2c1e00 contacted --tenant acme")
@click.argument("record")
@click.argument("status")
@click.option("--tenant", default="", metavar="SLUG", help="Of a tenant, as the node's operator.")
@as_option
def status(home: Home, acting: str, record: str, status: str, tenant: str) -> None:
    """Move RECORD to another STATUS of its kind."""
    moved = _json(run(_move(home, acting, record, status, tenant)))
    emit(moved, lambda page: page.line(f"It is {moved['status']}.", "green"))


async def _move(home: Home, acting: str, record: str, status: str, tenant: str) -> pb.ToolRecord:
    async with record_session(home, acting, tenant) as stub:
        request = pb.SetRecordStatusRequest(record_id=record, status=status, tenant=tenant)
        return (await stub.SetRecordStatus(request)).record


def _json(each: pb.ToolRecord) -> dict[str, Any]:
    return {
        "record": each.record_id,
        "kind": each.kind,
        "status": each.status,
        "data": json.loads(each.data_json),
        "time": iso(milliseconds(each.time)) if each.HasField("time") else None,
        "binding": each.binding,
        "created": iso(milliseconds(each.create_time)),
        "updated": iso(milliseconds(each.update_time)),
    }


def _line(data: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in data.items())[:200]

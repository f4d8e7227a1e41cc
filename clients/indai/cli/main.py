"""The `indai` command: which commands there are, and in which module each lives."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
from indai.cli.framework import Program

SECTIONS = {
    "Run": {
        "up": "indai.cli.up:up",
        "demo": "indai.cli.demo.command:demo",
        "health": "indai.cli.health:health",
        "token": "indai.cli.token:token",
        "secret": "indai.cli.secret:secret",
        "desk": "indai.cli.desk:desk",
    },
    "Be somebody": {
        "handle": "indai.cli.handle:handle",
        "policy": "indai.cli.policy:policy",
        "calendar": "indai.cli.calendar:calendar",
        "profile": "indai.cli.belongings:profile",
        "document": "indai.cli.belongings:document",
        "office": "indai.cli.asking:office",
        "memory": "indai.cli.memory:memory",
        "connect": "indai.cli.connect:connect",
    },
    "Deal": {
        "meet": "indai.cli.meet:meet",
        "pay": "indai.cli.pay:pay",
        "book": "indai.cli.book:book",
        "share": "indai.cli.sharing:share",
        "ask-for": "indai.cli.sharing:ask_for",
        "consents": "indai.cli.sharing:consents",
        "disclosures": "indai.cli.sharing:disclosures",
        "ask": "indai.cli.asking:ask",
        "request": "indai.cli.asking:request",
        "requests": "indai.cli.asking:requests",
        "group": "indai.cli.group:group",
        "threads": "indai.cli.threads:threads",
        "commitments": "indai.cli.commitments:commitments",
        "reschedule": "indai.cli.reschedule:reschedule",
        "cancel": "indai.cli.commitments:cancel",
        "fulfil": "indai.cli.commitments:fulfil",
        "dispute": "indai.cli.commitments:dispute",
        "inbox": "indai.cli.inbox:inbox",
        "approve": "indai.cli.inbox:approve",
        "decline": "indai.cli.inbox:decline",
        "answer": "indai.cli.asking:answer",
        "withdraw": "indai.cli.threads:withdraw",
        "journal": "indai.cli.journal:journal",
        "stock": "indai.cli.stock:stock",
        "mandate": "indai.cli.mandate:mandate",
    },
    "Think": {
        "chat": "indai.cli.chat:chat",
        "turn": "indai.cli.turn:turn",
        "tool": "indai.cli.tool:tool",
        "llm": "indai.cli.llm:llm",
    },
    "Run agents": {
        "tenant": "indai.cli.tiers:tenant",
        "persona": "indai.cli.tiers:persona",
        "team": "indai.cli.tiers:team",
        "agent": "indai.cli.tiers:agent",
        "binding": "indai.cli.tiers:binding",
    },
    "Speak with others": {
        "channel": "indai.cli.channel:channel",
        "voice": "indai.cli.voice:voice",
        "a2a": "indai.cli.a2a:a2a",
        "mcp": "indai.cli.mcp:mcp",
    },
    "Prove": {
        "receipt": "indai.cli.receipt:receipt",
        "ledger": "indai.cli.ledger:ledger",
        "registry": "indai.cli.registry:registry",
        "audit": "indai.cli.audit:audit_command",
    },
}


def _version() -> str:
    try:
        return version("indai-node")
    except PackageNotFoundError:
        return "0.0.0 (from source)"


@click.command(cls=Program, sections=SECTIONS)
@click.version_option(_version(), prog_name="indai")
def cli() -> None:
    """One agent for every handle: it deals with other people's agents under
    your policy, and keeps a ledger that an auditor can replay.

    Start with `indai demo`, or `indai up` and then `indai handle claim`.
    """


def main(**settings: Any) -> None:
    """The entry point."""
    # gRPC's own notes are no part of a log that people read: what matters in them, our errors say.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    cli(prog_name="indai", **settings)


if __name__ == "__main__":
    main()

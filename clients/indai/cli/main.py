"""The `indai` command: which commands there are, in which module each lives, and what it is for.

The words are those that each command begins its own help with (a test compares them): a list of all commands
loads none of them.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
from indai.cli.framework import Program

SECTIONS = {
    "Run": {
        "up": ".up:up Run a node with everything it needs, until Ctrl-C.",
        "demo": ".demo.command:demo Two agents on two nodes settle meetings, and an auditor proves it.",
        "health": ".health:health Say whether the process on this data directory serves.",
        "token": ".token:token Print a fresh random token.",
        "secret": ".secret:secret Keep keys of providers and the like, sealed under the node key.",
        "desk": ".desk:desk Who signs in at the desks.",
    },
    "Be somebody": {
        "handle": ".handle:handle Claim and resolve handles, change them, get them back.",
        "policy": ".policy:policy Check, explain, test, simulate and set an owner's rules.",
        "calendar": ".calendar:calendar An owner's calendars, and how they like to meet.",
        "profile": ".belongings:profile Your profile: fields that your agent shares by your rules.",
        "document": ".belongings:document Your documents: files that your agent shares by your rules.",
        "office": ".asking:office An office: who does what, and within what time.",
        "memory": ".memory:memory Remember, recall, correct and forget what your agent knows.",
        "connect": ".connect:connect Connect DigiLocker, bank accounts and a payment provider.",
    },
    "Deal": {
        "meet": ".meet:meet Ask PEER's agent, or those of several, for a meeting.",
        "pay": ".pay:pay Pay a peer, or ask to be paid.",
        "book": ".book:book Book SKU of PEER's stock.",
        "share": ".sharing:share Offer PEER a profile field or a document, under a consent.",
        "ask-for": ".sharing:ask_for Ask PEER for a profile field or a document, and read it once agreed.",
        "consents": ".sharing:consents Consents that you gave and received.",
        "disclosures": ".sharing:disclosures List what was disclosed to whom, and how often.",
        "ask": ".asking:ask Ask PEER's agent a QUESTION.",
        "request": ".asking:request File a request with OFFICE; it says who does it, and until when.",
        "requests": ".asking:requests Requests that you filed, or that were filed with you.",
        "group": ".group:group Meetings of three or more that you have asked for.",
        "threads": ".threads:threads List your threads, or show one with every message.",
        "commitments": ".commitments:commitments List what you agreed to, with due dates; the latest first.",
        "reschedule": ".reschedule:reschedule Ask to move the meeting of THREAD to another time.",
        "cancel": ".commitments:cancel Call off what was agreed in THREAD.",
        "fulfil": ".commitments:fulfil Record that what was agreed in THREAD took place, once it is over.",
        "dispute": ".commitments:dispute Object, in both ledgers, to what was agreed or said in THREAD.",
        "inbox": ".inbox:inbox Show what waits for your word.",
        "approve": ".inbox:approve Say yes to what the inbox shows under CODE.",
        "decline": ".inbox:decline Say no to what the inbox shows under CODE.",
        "counter": ".counter:counter Propose something else than what the inbox shows under CODE.",
        "answer": ".asking:answer Answer what the inbox asks under CODE, in your own words.",
        "withdraw": ".threads:withdraw Take back what THREAD is about, as far as that is still possible.",
        "journal": ".journal:journal Show why your agent did what it did; no peer ever sees this.",
        "stock": ".stock:stock What peers can book of you: articles, and resources for a time.",
        "mandate": ".mandate:mandate Standing permissions to pay somebody.",
    },
    "Think": {
        "chat": ".chat:chat Talk to your agent.",
        "turn": ".turn:turn Show how a turn went: stages, tools, models, guardrails.",
        "goal": ".goal:goal What you want kept up: meet somebody so often, hear of what waits.",
        "tool": ".tool:tool What your agent can do, what it did, and what it works on.",
        "llm": ".llm:llm Language models: ask one, see what there is and what it cost.",
    },
    "Run agents": {
        "tenant": ".tiers:tenant Configure tenants, in versions.",
        "persona": ".tiers:persona Configure personas, in versions.",
        "team": ".tiers:team Configure teams, in versions.",
        "agent": ".tiers:agent Configure agents, in versions.",
        "binding": ".tiers:binding Configure bindings, in versions.",
    },
    "Speak with others": {
        "channel": ".channel:channel Let people reach agents by WhatsApp, Telegram and Slack.",
        "voice": ".voice:voice Try the engines of speech that this node uses.",
        "page": ".page:page Your public page: which other sites may show its chat.",
        "a2a": ".a2a:a2a Speak A2A: call any agent, and let clients call yours.",
        "mcp": ".mcp:mcp Let your assistant drive your node over MCP; use other servers.",
    },
    "Prove": {
        "receipt": ".receipt:receipt Prove to anybody that a ledger holds what was agreed.",
        "ledger": ".ledger:ledger Export the commitment ledger, check it, change its key.",
        "registry": ".registry:registry Search the registry, mirror its public log, replace its key.",
        "audit": ".audit:audit_command Verify exported ledgers offline.",
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

"""`indai handle`: claim, resolve, rotate, revoke; `indai.cli.handle_operations` has the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from indai.cli import enrolment
from indai.cli.files import read_text
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, data_option
from indai.cli.operation_files import amount_of, public_key
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, registry_session
from indai.cli.signing import Signing, perform, show_done, signing_options
from indai.cli.words import iso
from indai.client import handlekeys
from indai.client.resolver import Resolved
from indai.policy.compiled import compile_policy
from indai.protocol.envelope import Envelope
from indai.protocol.errors import IndaiError
from indai.protocol.handlestate import AgentKey
from indai.protocol.keys import SigningKey, key_id
from indai.protocol.operations import Chain

_HERE = "indai.cli.handle:"
_SIGNED = "indai.cli.handle_operations:"
SECTIONS = {
    "Every day": {
        "claim": _HERE + "claim",
        "resolve": _HERE + "resolve",
        "history": _SIGNED + "history",
        "watch": "indai.cli.discovery:watch",
        "rotate": _HERE + "rotate",
        "revoke": _HERE + "revoke",
        "forget": "indai.cli.leaving:forget",
        "forgotten": "indai.cli.leaving:forgotten",
    },
    "With a rotation key, here or offline": {
        "key": _SIGNED + "key",
        "update": _SIGNED + "update",
        "advertise": "indai.cli.discovery:advertise",
        "delegate": _SIGNED + "delegate",
        "drill": "indai.cli.drill:drill",
        "recover": _SIGNED + "recover",
        "transfer": _SIGNED + "transfer",
        "retire": _SIGNED + "retire",
        "submit": _SIGNED + "submit",
        "voucher": _SIGNED + "voucher",
    },
}
_registry = click.option(
    "--registry", metavar="HOST:PORT", default="", help="The registry, if the node does not name it."
)


@click.command("handle", cls=Group, sections=SECTIONS)
def handle() -> None:
    """Claim and resolve handles, change them, get them back."""


@command(
    "claim",
    "indai handle claim ind.ai/alice",
    "indai handle claim ind.ai/bob --policy bob.yaml --calendar bob.ics",
)
@click.argument("handle_text", metavar="HANDLE")
@click.option("--policy", metavar="FILE", default="", help="The owner's rules (YAML).")
@click.option("--calendar", metavar="FILE", default="", help="The owner's calendar (.ics), used in place.")
@click.option("--key", metavar="FILE", default="", help="An existing rotation key instead of a new one.")
@click.option("--invite", metavar="CODE", default="", help="Where the registry asks for one.")
@click.option("--voucher", metavar="FILE", default="", help="Where the registry asks for one.")
@_registry
@data_option
def claim(
    home: Home,
    handle_text: str,
    policy: str,
    calendar: str,
    key: str,
    invite: str,
    voucher: str,
    registry: str,
) -> None:
    """Claim HANDLE for an agent on this node.

    Makes a rotation key (which stays on this machine), an agent on the node
    with its own key, and puts both into the registry. Without a policy the
    agent asks its owner about everything. A handle that was transferred to
    you is claimed with the key it was transferred to: --key.
    """
    rules = read_text(policy) if policy else ""
    if rules:
        compile_policy(rules)
    path = os.path.abspath(calendar) if calendar else ""
    shown = Path(voucher).read_bytes() if voucher else b""
    made = run(
        enrolment.claim_handle(
            home,
            handle_text,
            policy_yaml=rules,
            calendar=path,
            registry=registry,
            key=key,
            invite=invite,
            voucher=shown,
        )
    )
    emit(
        {
            "handle": made.handle,
            "subject": made.subject_id,
            "node": made.node,
            "key": made.key_id,
            "token_file": str(made.token_file),
            "rotation_key_file": str(made.rotation_file),
            "warnings": list(made.warnings),
        },
        lambda page: _show_claim(page, made),
    )


def _show_claim(page: Page, made: enrolment.Claimed) -> None:
    page.line(f"{made.handle} is yours.", "green")
    page.fields(
        [
            ("subject", made.subject_id),
            ("node", made.node),
            ("agent key", made.key_id),
            ("owner's token", str(made.token_file)),
            ("rotation key", str(made.rotation_file)),
        ]
    )
    for warning in made.warnings:
        page.line(warning, "yellow")
    page.line("Move the rotation key to a safe place offline: whoever has it owns the handle.", "yellow")
    page.next_step(
        "indai policy templates apply personal my-rules.yaml",
        f"indai policy set my-rules.yaml --as {made.handle}",
        f'indai meet {_another(made.handle)} --for 30m --when "this week" --about "…" --as {made.handle}',
    )


def _another(handle: str) -> str:
    """For examples: nobody meets themselves."""
    return "ind.ai/bob" if handle != "ind.ai/bob" else "ind.ai/alice"


@command("resolve", "indai handle resolve ind.ai/bob")
@click.argument("handle_text", metavar="HANDLE")
@_registry
@data_option
def resolve(home: Home, handle_text: str, registry: str) -> None:
    """Look HANDLE up, and verify everything the registry says about it."""
    record, node = run(_resolve(home, handle_text, registry))
    emit(_resolved_json(record, node), lambda page: _show_resolved(page, record, node))


async def _resolve(home: Home, handle_text: str, registry: str) -> tuple[Resolved, Resolved | None]:
    async with registry_session(home, registry) as where:
        record = await where.resolver.resolve(handle_text)
        try:
            return record, await where.resolver.node_of(record)
        except IndaiError:
            return record, None


def _resolved_json(record: Resolved, node: Resolved | None) -> dict[str, Any]:
    node_record = node.state.node_record if node else None
    return {
        "handle": record.handle,
        "subject": record.subject_id,
        "seq": record.chain.seq,
        "ended": iso(record.chain.ended_at_ms),
        "intents": list(record.state.intents),
        "node": node.handle if node else "",
        "address": node_record.address if node_record else "",
        "ledger": node_record.ledger_origin if node_record else "",
        "agent_keys": [
            {
                "key": key.key_id,
                "valid_from": iso(key.valid_from_ms),
                "valid_until": iso(key.valid_until_ms),
                "revoked": iso(key.revoked_at_ms),
            }
            for key in record.state.agent_keys
        ],
        "rotation_keys": len(record.state.rotation_keys),
        "head": {
            "origin": record.head.checkpoint.origin,
            "size": record.head.size,
            "root": record.head.root.hex(),
            "time": iso(record.head.time_ms),
        },
    }


def _show_resolved(page: Page, record: Resolved, node: Resolved | None) -> None:
    age = max(0, now_ms() - record.head.time_ms) // 1000
    node_record = node.state.node_record if node else None
    page.line(record.handle, "bold")
    if record.chain.ended_at_ms:
        page.line("This handle was retired: it has no keys any more.", "red")
    page.fields(
        [
            ("subject", record.subject_id),
            ("answers", ", ".join(record.state.intents)),
            ("node", node.handle if node and node is not record else ""),
            ("address", node_record.address if node_record else ""),
            ("ledger", node_record.ledger_origin if node_record else ""),
            *(("agent key", _key_words(key)) for key in record.state.agent_keys),
            ("rotation keys", str(len(record.state.rotation_keys))),
            ("operations", str(record.chain.seq + 1)),
            ("registry head", f"{record.head.checkpoint.origin}, size {record.head.size}, {age} s old"),
        ]
    )
    page.line("Verified: chain, map, log and head.", "green")


def _key_words(key: AgentKey) -> str:
    if key.revoked_at_ms:
        return f"{key.key_id} revoked {iso(key.revoked_at_ms)}"
    return key.key_id


@command(
    "rotate",
    "indai handle rotate ind.ai/alice",
    "indai handle rotate ind.ai/alice --scope meet --scope pay --limit EUR=5000",
    "indai handle rotate ind.ai/alice --key alice.key --sign-only -o rotate.json",
)
@click.argument("handle_text", metavar="HANDLE")
@click.option("--old", metavar="KEY_ID", default="", help="The agent key to replace, if several.")
@click.option("--agent-key", metavar="PUBLIC", default="", help="One that the node has made; else a new one.")
@click.option("--scope", "scopes", metavar="KIND", multiple=True, help="All it may sign, else all (repeat).")
@click.option(
    "--limit",
    "limits",
    metavar="EUR=5000",
    multiple=True,
    help="All it may sign for in one commitment, in minor units (repeat).",
)
@signing_options
@data_option
def rotate(
    home: Home,
    handle_text: str,
    old: str,
    agent_key: str,
    scopes: tuple[str, ...],
    limits: tuple[str, ...],
    **how: Any,
) -> None:
    """Give HANDLE a fresh agent key and revoke the old one.

    With --limit the key signs for no more than that in one commitment, and for
    nothing in another currency.

    Needs the handle's rotation key for a moment: --key, or its file in the
    data directory's folder offline/.
    """
    public = public_key(agent_key) if agent_key else run(enrolment.new_agent_key(home, handle_text))
    revoked: list[str] = []
    amounts = [amount_of(text) for text in limits]

    def build(chain: Chain, signer: SigningKey, now: int) -> Envelope:
        operation, replaced = enrolment.rotate_to(
            chain, signer, old, public, now, scopes=scopes, limits=amounts
        )
        revoked.append(replaced)
        return operation

    done = run(perform(home, handle_text, Signing(**how), build))
    if done.file:
        show_done(done, "")
        return
    emit(
        {"handle": done.handle, "revoked": revoked[0], "key": key_id(public)},
        lambda page: _show_keys(page, f"{done.handle} has a new agent key.", revoked[0], key_id(public)),
    )


@command("revoke", "indai handle revoke ind.ai/alice")
@click.argument("handle_text", metavar="HANDLE")
@click.argument("key_id", metavar="[KEY_ID]", required=False, default="")
@signing_options
@data_option
def revoke(home: Home, handle_text: str, key_id: str, **how: Any) -> None:
    """End an agent key of HANDLE now: nothing it signs counts any more.

    KEY_ID may be left out when there is only one.
    """
    revoked: list[str] = []

    def build(chain: Chain, signer: SigningKey, now: int) -> Envelope:
        revoked.append(enrolment.chosen_key(chain, key_id))
        return handlekeys.revoke_agent_key(chain, signer, revoked[0], now_ms=now)

    done = run(perform(home, handle_text, Signing(**how), build))
    if done.file:
        show_done(done, "")
        return

    def show(page: Page) -> None:
        _show_keys(page, f"{done.handle} has one key less.", revoked[0], "")
        page.next_step(f"indai handle rotate {done.handle}")

    emit({"handle": done.handle, "revoked": revoked[0]}, show)


def _show_keys(page: Page, title: str, old: str, new: str) -> None:
    page.line(title, "green")
    page.fields([("revoked", old), ("new key", new)])

"""`indai handle`: the operations an owner signs with a rotation key, which may stay on another machine."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import click
from indai.cli.errors import wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.operation_files import amount_of, fetch_history, operation_name, public_key, read_operation
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, registry_session
from indai.cli.signing import (
    Done,
    Signing,
    perform,
    show_done,
    signing_options,
    submit_operation,
)
from indai.cli.words import iso
from indai.client import handlekeys
from indai.client.statefile import replace_file
from indai.protocol.envelope import Envelope
from indai.protocol.handles import Handle
from indai.protocol.handlestate import Delegation
from indai.protocol.keys import SigningKey
from indai.protocol.operations import Chain

_DAY_MS = 86_400_000


@command("key", "indai handle key /media/usb/alice-1.key")
@click.argument("path", metavar="FILE")
def key(path: str) -> None:
    """Make a rotation key in a new FILE.

    Its public half goes into a handle with `indai handle update`; the file
    itself belongs offline.
    """
    made = handlekeys.create_key_file(Path(path))
    public = base64.b64encode(made.public_key).decode("ascii")

    def show(page: Page) -> None:
        page.line("A new rotation key.", "green")
        page.fields([("file", path), ("key", made.key_id), ("public", public)])
        page.line("Keep the file offline: whoever has it owns every handle that lists its key.", "yellow")

    emit({"file": path, "key": made.key_id, "public": public}, show)


@command(
    "update",
    "indai handle update ind.ai/alice --node ind.ai/north",
    "indai handle update ind.ai/alice --rotation-key PUBLIC --rotation-key PUBLIC",
)
@click.argument("handle_text", metavar="HANDLE")
@click.option("--node", metavar="HANDLE", default="", help="Move to another home node.")
@click.option("--intents", metavar="KINDS", default="", help="What it answers, e.g. meet,ask.")
@click.option(
    "--rotation-key",
    "rotation_keys",
    metavar="PUBLIC",
    multiple=True,
    help="All public keys, highest authority first (repeat).",
)
@signing_options
@data_option
def update(
    home: Home, handle_text: str, node: str, intents: str, rotation_keys: tuple[str, ...], **how: Any
) -> None:
    """Change HANDLE's home node, its intents, or its rotation keys.

    Rotation keys are replaced as a whole, highest authority first. A lower
    one can be overruled by a higher one within 72 hours.
    """
    keys = [public_key(text) for text in rotation_keys]
    if sum(map(bool, (node, intents, keys))) != 1:
        raise wrong("Name exactly one thing to change.", "--node, --intents or --rotation-key")

    def build(chain: Chain, signer: SigningKey, now: int) -> Envelope:
        if node:
            return handlekeys.set_node(chain, signer, node, now_ms=now)
        if intents:
            return handlekeys.set_intents(chain, signer, intents.split(","), now_ms=now)
        return handlekeys.rotate_rotation_keys(chain, signer, keys, now_ms=now)

    done = run(perform(home, handle_text, Signing(**how), build))
    show_done(done, f"{done.handle} is changed.")


@command(
    "delegate",
    "indai handle delegate ind.ai/alice ind.ai/alice/work --kind meet --days 30",
    "indai handle delegate ind.ai/alice ind.ai/alice/work --end",
)
@click.argument("handle_text", metavar="HANDLE")
@click.argument("sub", metavar="SUB")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="What it may do (repeat).")
@click.option("--days", type=click.IntRange(1, 3_650), default=90, show_default=True, help="For how long.")
@click.option("--budget", "budgets", metavar="EUR=5000", multiple=True, help="In minor units (repeat).")
@click.option("--depth", type=click.IntRange(0, 2), default=0, help="Levels it may delegate further.")
@click.option("--allotment", is_flag=True, help="Debit the budget now: SUB lives on another node.")
@click.option("--subject", metavar="ID", default="", help="SUB's subject; needed with --history.")
@click.option("--end", is_flag=True, help="Take everything back.")
@signing_options
@data_option
def delegate(
    home: Home,
    handle_text: str,
    sub: str,
    kinds: tuple[str, ...],
    days: int,
    budgets: tuple[str, ...],
    depth: int,
    allotment: bool,
    subject: str,
    end: bool,
    **how: Any,
) -> None:
    """Say what the sub-agent SUB of HANDLE may do, or that it may nothing.

    A sub-agent has what every handle above it has, and never more.
    """
    name = str(Handle.parse(sub))
    signing = Signing(**how)
    if not end and not kinds:
        raise wrong(f"Nobody said what {name} may do.", "name a kind of intent: --kind meet")
    amounts = tuple(amount_of(text) for text in budgets)

    async def work() -> Done:
        wanted = subject or (await _subject(home, name, signing) if not end else "")

        def build(chain: Chain, signer: SigningKey, now: int) -> Envelope:
            if end:
                return handlekeys.end_delegation(chain, signer, name, now_ms=now)
            until = now + days * _DAY_MS
            given = Delegation(name, wanted, kinds, now, until, amounts, depth, allotment)
            return handlekeys.delegate(chain, signer, given, now_ms=now)

        return await perform(home, handle_text, signing, build)

    done = run(work())
    show_done(done, f"{name} may do nothing any more." if end else f"{name} may {', '.join(kinds)}.")


async def _subject(home: Home, name: str, how: Signing) -> str:
    if how.history:
        raise wrong(f"The history does not say which subject {name} is.", "add --subject ID")
    async with registry_session(home, how.registry) as where:
        return (await where.resolver.resolve(name)).subject_id


@command("recover", "indai handle recover ind.ai/alice --to 3 --key /media/usb/alice-1.key")
@click.argument("handle_text", metavar="HANDLE")
@click.option(
    "--to", "seq", metavar="SEQ", type=int, required=True, help="The last operation that shall stand."
)
@click.option(
    "--rotation-key", "rotation_keys", metavar="PUBLIC", multiple=True, help="New public keys (repeat)."
)
@signing_options
@data_option
def recover(home: Home, handle_text: str, seq: int, rotation_keys: tuple[str, ...], **how: Any) -> None:
    """Undo what a stolen rotation key has done to HANDLE.

    Goes back to the state after operation SEQ and nullifies everything
    later, for good. It needs a rotation key of higher authority than the
    stolen one, within 72 hours. See `indai handle history` for SEQ.
    """
    keys = [public_key(text) for text in rotation_keys]

    def build(chain: Chain, signer: SigningKey, now: int) -> Envelope:
        return handlekeys.recover(chain, signer, seq, now_ms=now, rotation_keys=keys)

    done = run(perform(home, handle_text, Signing(**how), build))
    show_done(done, f"{done.handle} is as it was after operation {seq}, and yours.")


@command("transfer", "indai handle transfer ind.ai/alice --to PUBLIC")
@click.argument("handle_text", metavar="HANDLE")
@click.option(
    "--to", "successor", metavar="PUBLIC", required=True, help="The successor's public rotation key."
)
@signing_options
@data_option
def transfer(home: Home, handle_text: str, successor: str, **how: Any) -> None:
    """Give HANDLE to somebody else, who claims it with the key PUBLIC.

    For everybody who knows HANDLE they are another subject: what peers
    pinned, circles and delegations do not go along.
    """
    heir = public_key(successor)

    def build(chain: Chain, signer: SigningKey, now: int) -> Envelope:
        return handlekeys.transfer(chain, signer, heir, now_ms=now)

    done = run(perform(home, handle_text, Signing(**how), build))
    show_done(done, f"{done.handle} is not yours any more.")


@command("retire", "indai handle retire ind.ai/alice")
@click.argument("handle_text", metavar="HANDLE")
@signing_options
@data_option
def retire(home: Home, handle_text: str, **how: Any) -> None:
    """End HANDLE for good. Nobody can claim the name for 12 months."""
    done = run(
        perform(home, handle_text, Signing(**how), lambda c, s, now: handlekeys.retire(c, s, now_ms=now))
    )
    show_done(done, f"{done.handle} is retired.")


@command("voucher", "indai handle voucher ind.ai/alice --for KEY_ID --key issuer.key -o alice.voucher")
@click.argument("handle_text", metavar="HANDLE")
@click.option("--for", "key_id", metavar="KEY_ID", required=True, help="The rotation key that will claim it.")
@click.option("--key", metavar="FILE", required=True, help="The issuer's key file.")
@click.option("--days", type=click.IntRange(1, 365), default=7, show_default=True, help="For how long.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to.")
@data_option
def voucher(home: Home, handle_text: str, key_id: str, key: str, days: int, output: str) -> None:
    """Vouch for who claims HANDLE, at a registry that trusts your key."""
    origin = home.network().origin
    issuer, now = handlekeys.load_key_file(Path(key)), now_ms()
    made = handlekeys.issue_voucher(issuer, origin, handle_text, key_id, now_ms=now, valid_ms=days * _DAY_MS)
    replace_file(Path(output), made.raw)
    emit(
        {"file": output, "until": iso(now + days * _DAY_MS)},
        lambda page: page.line(f"The voucher is in {output}, good for {days} days.", "green"),
    )


@command("submit", "indai handle submit revoke.json")
@click.argument("path", metavar="FILE")
@click.option("--invite", metavar="CODE", default="", help="With a claim, where an invite is needed.")
@click.option("--voucher", metavar="FILE", default="", help="With a claim, where a voucher is needed.")
@click.option("--registry", metavar="HOST:PORT", default="", help="The registry, if the node names none.")
@data_option
def submit(home: Home, path: str, invite: str, voucher: str, registry: str) -> None:
    """Put an operation that was signed elsewhere into the registry's log."""
    operation = read_operation(path)
    shown = Path(voucher).read_bytes() if voucher else b""

    async def work() -> Done:
        async with registry_session(home, registry) as where:
            return await submit_operation(where, operation, invite=invite, voucher=shown)

    done = run(work())
    show_done(done, f"The {done.kind} of {done.handle} is in the log.")


@command("history", "indai handle history ind.ai/alice", "indai handle history ind.ai/alice -o alice.history")
@click.argument("handle_text", metavar="HANDLE")
@click.option("-o", "--output", metavar="FILE", default="", help="Also write it for signing offline.")
@click.option("--registry", metavar="HOST:PORT", default="", help="The registry, if the node names none.")
@data_option
def history(home: Home, handle_text: str, output: str, registry: str) -> None:
    """Every operation on HANDLE, verified; nullified ones as well.

    A name that was transferred or given out again has had other subjects: their
    operations come first. The file holds those of the newest alone.
    """

    async def work() -> tuple[tuple[Chain, ...], bytes]:
        async with registry_session(home, registry) as where:
            return await fetch_history(where, handle_text)

    subjects, document = run(work())
    if output:
        replace_file(Path(output), document)
    earlier = [_subject_json(chain) for chain in subjects[:-1]]
    value = {**_subject_json(subjects[-1]), "file": output, "earlier": earlier}
    emit(value, lambda page: _show_history(page, subjects, output))


def _subject_json(chain: Chain) -> dict[str, Any]:
    return {
        "handle": chain.handle,
        "subject": chain.subject_id,
        "predecessor": chain.predecessor.hex(),
        "ended": iso(chain.ended_at_ms),
        "barred": sorted(chain.barred),
        "operations": [
            {
                "seq": link.seq,
                "operation": operation_name(link.type),
                "time": iso(link.time_ms),
                "signer": link.signer,
                "nullified": link.nullified,
                "mid": link.mid.hex(),
            }
            for link in chain.history
        ],
    }


def _show_history(page: Page, subjects: tuple[Chain, ...], output: str) -> None:
    page.line(subjects[-1].handle, "bold")
    for chain in subjects:
        _show_subject(page, chain)
    if output:
        page.line(f"Written to {output}, for signing on a machine without a network.")


def _show_subject(page: Page, chain: Chain) -> None:
    page.fields(
        [
            ("subject", chain.subject_id),
            ("came from", chain.predecessor.hex()[:16]),
            ("ended", iso(chain.ended_at_ms)),
        ]
    )
    rows = [
        (
            str(link.seq),
            operation_name(link.type),
            iso(link.time_ms),
            link.signer.removeprefix("ed25519:")[:12],
            "nullified" if link.nullified else "",
        )
        for link in chain.history
    ]
    page.table(("seq", "operation", "time", "signed by", ""), rows, {"nullified": "red"})

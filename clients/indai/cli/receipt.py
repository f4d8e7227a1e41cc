"""`indai receipt`: the proof that a ledger holds what was agreed, and its check without a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import iso
from indai.client.audit.receipts import Shown, check_receipt, key_history
from indai.client.network import NetworkPolicy
from indai.client.receiptfile import ReceiptFile, receipt_in_export
from indai.protocol.leaf import LedgerLeaf
from indai.v1 import owner_pb2

_HERE = "indai.cli.receipt:"
_ENCODINGS = ("tlog-proof", "cose")


@click.command(
    "receipt", cls=Group, sections={"Commands": {"get": _HERE + "get", "verify": _HERE + "verify"}}
)
def receipt() -> None:
    """Prove to anybody that a ledger holds what was agreed."""


@command(
    "get",
    "indai receipt get 0193f2ab4c",
    "indai receipt get 0193f2ab4c --raw cose -o lunch.cose",
    "indai receipt get --export alice.jsonl --mid 9f2c... -o lunch.receipt.json",
)
@click.argument("thread", default="", metavar="[THREAD]")
@click.option("-o", "--output", metavar="FILE", default="", help="Where to; default: exports/ in the data.")
@click.option("--mid", default="", metavar="HEX", help="Of one event, such as a CANCEL, not the commitment.")
@click.option("--raw", type=click.Choice(_ENCODINGS), help="This encoding alone, for other programs.")
@click.option("--export", default="", metavar="FILE", help="Cut it out of an export, without a node.")
@as_option
def get(home: Home, acting: str, thread: str, output: str, mid: str, raw: str | None, export: str) -> None:
    """Write the receipt of what was agreed in THREAD.

    The file holds the signed terms with the ledger's proof in both encodings
    (C2SP tlog-proof and COSE, RFC 9942). Whoever gets it can read the terms.
    """
    if bool(thread) == bool(export) or (export and not mid):
        raise wrong("Name a THREAD, or an --export with a --mid.", "indai commitments lists threads")
    found = receipt_in_export(Path(export), _hex(mid)) if export else run(_fetch(home, acting, thread, mid))
    content = found.encode()
    if raw:
        content = found.cose if raw == "cose" else found.tlog_proof
        if not content:
            raise wrong("There is no COSE receipt of it.", "take --raw tlog-proof")
    ending = {"cose": "receipt.cose", "tlog-proof": "receipt.tlog-proof"}.get(raw or "", "receipt.json")
    path = Path(output) if output else home.exports / f"{(thread or mid)[:14]}.{ending}"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(content)
    leaf = {"file": str(path), "leaf": found.leaf.hex(), "time": iso(LedgerLeaf.parse(found.leaf).time_ms)}
    emit(leaf, lambda page: _show_made(page, path, found, checked=not raw))


async def _fetch(home: Home, acting: str, thread: str, mid: str) -> ReceiptFile:
    async with owner_session(home, acting) as owner:
        answer = await owner.stub.GetReceipt(owner_pb2.GetReceiptRequest(thread_id=thread, mid=mid))
    return ReceiptFile(answer.leaf, answer.tlog_proof, answer.cose, answer.opening, answer.envelope)


def _show_made(page: Page, path: Path, found: ReceiptFile, *, checked: bool) -> None:
    page.line("Here is the receipt.", "green")
    page.fields([("file", str(path)), ("leaf", found.leaf.hex())])
    more = "" if checked else f" --leaf {found.leaf.hex()}"
    page.next_step("indai registry export -o registry.jsonl", f"indai receipt verify {path}{more}")


@command(
    "verify",
    "indai receipt verify lunch.receipt.json --registry registry.jsonl",
    "indai receipt verify lunch.cose --leaf 0101... --registry registry.jsonl",
)
@click.argument("file")
@click.option("--registry", metavar="FILE", default="registry.jsonl", help="A mirror of the registry.")
@click.option("--network", metavar="FILE", default="", help="Whose registry it must be (network.policy).")
@click.option("--leaf", metavar="HEX", default="", help="The leaf of a receipt in one raw encoding.")
def verify(file: str, registry: str, network: str, leaf: str) -> None:
    """Check a receipt offline, by a mirror of the registry.

    Keys that its ledger or its signers have rotated since take nothing from it.
    Status 5: it proves nothing.
    """
    for name in (file, registry):
        if not Path(name).is_file():
            raise wrong(f"There is no file {name}.", "make a mirror with: indai registry export")
    trust = NetworkPolicy.load(Path(network)).policy if network else None
    shown = check_receipt(_read(Path(file), leaf), key_history(Path(registry), trust))
    emit(_shown_json(shown), lambda page: _show(page, shown, trusted=trust is not None))


def _read(path: Path, leaf: str) -> ReceiptFile:
    raw = path.read_bytes()
    if not leaf:
        return ReceiptFile.parse(raw)
    if raw.startswith(b"c2sp.org/"):
        return ReceiptFile(_hex(leaf), tlog_proof=raw)
    return ReceiptFile(_hex(leaf), cose=raw)


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise wrong(f"{text!r} is not hexadecimal.") from None


def _shown_json(shown: Shown) -> dict[str, Any]:
    return {
        "log": shown.proved.log,
        "index": shown.proved.index,
        "size": shown.proved.size,
        "time": iso(shown.proved.leaf.time_ms),
        "what": shown.what,
        "mid": shown.mid.hex(),
        "parties": list(shown.parties),
        "contested": list(shown.contested),
    }


def _show(page: Page, shown: Shown, *, trusted: bool) -> None:
    if shown.what:
        page.line(f"The ledger holds this {shown.what}, signed by its parties.", "green")
    else:
        page.line("The ledger holds this leaf. What it stands for is not shown.", "yellow")
    page.fields(
        [
            ("ledger", shown.proved.log),
            ("leaf", f"{shown.proved.index} of {shown.proved.size}"),
            ("recorded", iso(shown.proved.leaf.time_ms)),
            ("parties", ", ".join(shown.parties)),
            ("id", shown.mid.hex()),
        ]
    )
    for words in shown.contested:
        page.line(f"Contested: {words}.", "yellow")
    if not trusted:
        page.line("The registry's key was taken from its own mirror: say --network to be sure.", "dim")

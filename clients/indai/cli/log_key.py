"""`indai registry rotate-log-key`: the next key of a registry's log, made, shown to witnesses, announced."""

from __future__ import annotations

import os

import click
from indai.cli.framework import command
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.node.keyring import Keyring
from indai.node.keystore import open_keystore
from indai.protocol.note import Signer


@command(
    "rotate-log-key",
    "indai registry rotate-log-key --data ./registry",
    "indai registry rotate-log-key --announce --data ./registry",
)
@click.option("--announce", is_flag=True, help="Have the running registry announce the key that was made.")
@data_option
def rotate_log_key(home: Home, announce: bool) -> None:
    """Replace the key that signs the registry's log, in two steps.

    The first makes the new key, sealed in the data directory, and prints the
    line that each witness adds to its policy file, below the one it has. The
    second has the running registry announce it in the log itself, signed by
    both keys. Once the quorum of the witnesses has cosigned that, the new key
    signs; clients follow by themselves, and nothing is restarted but witnesses
    between the two steps.
    """
    origin = home.network().origin
    keyring = Keyring(home.path / "keys", open_keystore(home.path, os.environ))
    key = keyring.release_log_key(origin) if announce else keyring.prepare_log_key(origin)
    vkey = Signer(origin, key).verifier.vkey
    emit({"log": origin, "vkey": vkey, "released": announce}, lambda page: _show(page, vkey, announce))


def _show(page: Page, vkey: str, announce: bool) -> None:
    if announce:
        page.line("The registry announces its next key within 10 seconds, or when it starts.", "green")
        page.line("Give new clients and witnesses its network.policy after the next start.")
        page.next_step("indai registry mirror")
        return
    page.line("The next key is made, and signs nothing yet. Each witness adds this line")
    page.line("to its policy file, below the log line there, and is started again:")
    page.raw(f"log {vkey}")
    page.next_step("indai registry rotate-log-key --announce")

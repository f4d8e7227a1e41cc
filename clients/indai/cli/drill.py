"""`indai handle drill`: shows the desk that a rotation key is at hand, and changes nothing."""

from __future__ import annotations

import base64
from pathlib import Path

import click
from indai.cli.enrolment import rotation_key
from indai.cli.framework import command
from indai.cli.home import Home, data_option
from indai.cli.output import emit
from indai.client.handlekeys import load_key_file
from indai.protocol import drill as drills
from indai.protocol.handles import Handle


@command("drill", "indai handle drill ind.ai/alice drill-3f9a1c02d7b4e685 --key /media/usb/alice.key")
@click.argument("handle")
@click.argument("challenge")
@click.option("--key", metavar="FILE", default="", help="Rotation key; default: offline/ in the data.")
@data_option
def drill(home: Home, handle: str, challenge: str, key: str) -> None:
    """Show that you have the rotation key: sign the desk's CHALLENGE.

    Works without a network. Paste the line it prints at the desk: it shows that
    you could get the handle back, and can be used for nothing else.
    """
    name = str(Handle.parse(handle))
    signer = load_key_file(Path(key)) if key else rotation_key(home, name)
    signature = base64.urlsafe_b64encode(drills.sign(signer, name, challenge)).rstrip(b"=").decode()
    emit({"handle": name, "challenge": challenge, "signature": signature}, lambda page: page.raw(signature))

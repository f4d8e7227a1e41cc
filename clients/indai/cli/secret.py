"""`indai secret`: what configuration refers to as `vault:NAME`, sealed in the data directory."""

from __future__ import annotations

import os
import sys

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.node.keystore import open_keystore
from indai.node.secrets import MAX_BYTES, Secrets

_HERE = "indai.cli.secret:"
SECTIONS = {
    "Commands": {
        "set": _HERE + "set_secret",
        "list": _HERE + "list_secrets",
        "remove": _HERE + "remove",
    }
}


@click.command("secret", cls=Group, sections=SECTIONS)
def secret() -> None:
    """Keep keys of providers and the like, sealed under the node key.

    Files of configuration name them as vault:NAME. A value is read from
    stdin, or asked for at a terminal; it is never an argument, and no command
    shows it.
    """


@command("set", "indai secret set anthropic")
@click.argument("name")
@data_option
def set_secret(home: Home, name: str) -> None:
    """Store a secret under NAME, in place of the one before."""
    _secrets(home).set(name, _value(name))
    reference = f"vault:{name}"

    def show(page: Page) -> None:
        page.line(f"Stored. Refer to it as {reference}.", "green")

    emit({"name": name, "reference": reference}, show)


@command("list", "indai secret list")
@data_option
def list_secrets(home: Home) -> None:
    """List the names of the secrets that are stored."""
    names = _secrets(home).names()

    def show(page: Page) -> None:
        if not names:
            page.line("No secret is stored.")
            page.next_step("indai secret set anthropic")
        for name in names:
            page.line(f"vault:{name}")

    emit({"secrets": names}, show)


@command("remove", "indai secret remove anthropic")
@click.argument("name")
@data_option
def remove(home: Home, name: str) -> None:
    """Remove the secret NAME."""
    _secrets(home).remove(name)
    emit({"removed": name}, lambda page: page.line(f"{name} is removed.", "green"))


def _secrets(home: Home) -> Secrets:
    home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Secrets(home.path, open_keystore(home.path, os.environ, create=True), os.environ)


def _value(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {name}", hide_input=True, err=True)).strip()
    value = sys.stdin.read(MAX_BYTES + 1).strip()
    if not value:
        raise wrong("Nothing came on stdin.", f"indai secret set {name} < FILE")
    return value

"""`indai token`: a fresh random token."""

from __future__ import annotations

from indai.cli.framework import command
from indai.cli.output import emit
from indai.node.auth import new_token


@command("token", "export INDAI_CELL_TOKEN=$(indai token)")
def token() -> None:
    """Print a fresh random token.

    Roles of one node that run in several processes show it to each other: put
    it into INDAI_CELL_TOKEN of each.
    """
    text = new_token().text
    # Nothing around it, so that it can be assigned to a variable; never wrapped.
    emit({"token": text}, lambda page: page.raw(text))

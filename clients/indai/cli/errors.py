"""From an error to what a person at a shell gets: one sentence, the next step, an exit status.

    0    done, and everything that was checked held
    1    a check failed (audit: a rule is broken), or a fault of this program
    2    the input is wrong: a handle, a file, an option
    3    understood, and not possible now: refused, not found, already there
    4    identity: a key, a token, a certificate, a permission
    5    a proof fails: the registry or a ledger contradicts itself
    6    out of reach for now: the same command may work later
    130  interrupted

The status of a reason stands in the one table of `indai.protocol.errors`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback

import click
from indai.cli.output import emit_error
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable

INTERRUPTED = 130
STATUSES = {
    0: "done, and everything that was checked held",
    1: "a check failed (audit, demo, policy test), or a fault of this program",
    2: "the input is wrong: a handle, a file, an option",
    3: "understood, and not possible: refused, not found, already there",
    4: "identity: a key, a token, a certificate, a permission",
    5: "a proof fails: the registry or a ledger contradicts itself",
    6: "out of reach for now: the same command may work later",
    INTERRUPTED: "interrupted",
}


class CheckFailed(Exception):
    """A check that a command was asked to make did not hold; what failed has been shown."""

    def __init__(self, status: int = 1) -> None:
        super().__init__()
        self.status = status


def exit_status(error: BaseException) -> int:
    """Show `error` to the person and give the shell's status."""
    match error:
        case CheckFailed():
            return error.status
        case IndaiError():
            emit_error(error)
            return error.reason.status.exit
        case OSError():
            return exit_status(file_error(error))
        case KeyboardInterrupt() | click.Abort() | asyncio.CancelledError():
            click.echo("indai: interrupted", err=True)
            return INTERRUPTED
    if os.environ.get("INDAI_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
    fault = IndaiError(
        Reason.INTERNAL,
        f"This is a fault of indai itself: {type(error).__name__}: {error}",
        hint="run it again with INDAI_DEBUG=1 to see where, and report it",
    )
    emit_error(fault)
    return fault.reason.status.exit


def file_error(error: OSError) -> IndaiError:
    """What went wrong with a file of the user's, without the library's notation."""
    name = error.filename if isinstance(error.filename, str) else str(error.filename or "a file")
    words = (error.strerror or "it failed").lower()
    if "no space" in words or "quota" in words:
        return Unavailable(
            Reason.STORAGE_FULL, f"There is no space left to write {name}.", hint="free some space"
        )
    return InvalidInput(
        Reason.INVALID_ARGUMENT, f"{name} cannot be used: {words}.", hint="check the path and its permissions"
    )


def wrong(message: str, hint: str = "") -> InvalidInput:
    """An error about the user's own input."""
    return InvalidInput(Reason.INVALID_ARGUMENT, message, hint=hint)

"""`indai calendar add|remove|check`: CalDAV accounts beside the calendar file.

A password never stands in a command line, where every user of the machine and the shell's history see it: it
comes from a file, the environment, or a prompt.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from indai.cli.errors import file_error, wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import calendar_pb2

SECRET = "INDAI_CALENDAR_SECRET"  # noqa: S105 - the variable's name
MAX_SECRET = 8192
ADD_S = 60.0


@command(
    "add",
    "indai calendar add https://dav.example.org/ --user asha",
    "indai calendar add https://dav.example.org/ --user asha --secret-file dav.txt",
)
@click.argument("url")
@click.option("--user", metavar="NAME", default="", help="User name; none with a bearer token.")
@click.option("--name", metavar="NAME", default="", help="What to call it; else the server's name.")
@click.option("--secret-file", metavar="FILE", default="", help="A file with the password or token.")
@click.option("--read", metavar="NAME", multiple=True, help="A calendar that counts; else all do.")
@click.option("--write", metavar="NAME", default="", help="The calendar for new meetings.")
@click.option("--read-only", is_flag=True, help="Only read it; write where you write now.")
@as_option
def add(
    home: Home,
    acting: str,
    url: str,
    user: str,
    name: str,
    secret_file: str,
    read: Sequence[str],
    write: str,
    read_only: bool,
) -> None:
    """Read a CalDAV account, and write new meetings into it.

    The password or token comes from --secret-file, from the variable
    INDAI_CALENDAR_SECRET, or is asked for. The node keeps it sealed.
    """
    request = calendar_pb2.AddCalendarAccountRequest(
        name=name or url.partition("://")[2].partition("/")[0],
        url=url,
        user=user,
        secret=_secret(secret_file),
        read=read,
        write=write,
        read_only=read_only,
    )
    account = run(_add(home, acting, request))

    def show(page: Page) -> None:
        page.line(f"{account.name} counts as busy time from now on.", "green")
        _fields(page, account)
        page.next_step("indai calendar show")

    emit(_json(account), show)


async def _add(
    home: Home, acting: str, request: calendar_pb2.AddCalendarAccountRequest
) -> calendar_pb2.CalendarAccount:
    async with owner_session(home, acting) as owner:
        return (await owner.calendars.AddCalendarAccount(request, timeout=ADD_S)).account


@command("remove", "indai calendar remove dav.example.org")
@click.argument("name")
@as_option
def remove(home: Home, acting: str, name: str) -> None:
    """Forget a CalDAV account and its password.

    Its events stay on the server; they no longer count as busy time here.
    """
    run(_remove(home, acting, name))

    def show(page: Page) -> None:
        page.line(f"{name} is forgotten.")
        page.next_step("indai calendar check")

    emit({"removed": name}, show)


async def _remove(home: Home, acting: str, name: str) -> None:
    async with owner_session(home, acting) as owner:
        await owner.calendars.RemoveCalendarAccount(calendar_pb2.RemoveCalendarAccountRequest(name=name))


@command("check", "indai calendar check")
@as_option
def check(home: Home, acting: str) -> None:
    """Read every calendar now, and say which can't be read.

    While one can't be read, nothing is agreed for you: what is not known may
    be what makes you busy.
    """
    found = run(_check(home, acting))
    problems = [account for account in found if account.problem]

    def show(page: Page) -> None:
        for account in found:
            page.item("!" if account.problem else "*", account.name, "red" if account.problem else "green")
            _fields(page, account, indent=2)
        page.next_step("indai calendar add --help" if problems else "indai calendar show")

    emit({"calendars": [_json(account) for account in found], "ok": not problems}, show)


async def _check(home: Home, acting: str) -> Sequence[calendar_pb2.CalendarAccount]:
    async with owner_session(home, acting) as owner:
        request = calendar_pb2.ListCalendarAccountsRequest(check=True)
        return (await owner.calendars.ListCalendarAccounts(request, timeout=ADD_S)).accounts


def _secret(file: str) -> str:
    if file:
        return _from_file(Path(file))
    if text := os.environ.get(SECRET, ""):
        return text
    if not sys.stdin.isatty():
        raise wrong("There is no password or token.", f"give --secret-file FILE, or set {SECRET}")
    text = click.prompt("Password or token", hide_input=True, err=True, type=str)
    return str(text)


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            # The opened file is judged, not the name: it cannot be swapped in between.
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise IndaiError(
                    Reason.INSECURE, f"Others can read the password in {path}.", hint=f"chmod 600 {path}"
                )
            return file.read(MAX_SECRET).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise wrong(f"{path} is not a UTF-8 text.", "check that it is the right file") from None
    except OSError as error:
        raise file_error(error) from None


def _json(account: calendar_pb2.CalendarAccount) -> dict[str, object]:
    return {
        "name": account.name,
        "url": account.url,
        "user": account.user,
        "calendars": list(account.calendars),
        "written": account.written,
        "problem": account.problem,
    }


def _fields(page: Page, account: calendar_pb2.CalendarAccount, indent: int = 0) -> None:
    page.fields(
        [
            ("server", account.url),
            ("user", account.user),
            ("read", ", ".join(account.calendars)),
            ("new meetings", f"are written here {account.target}".rstrip() if account.written else ""),
            ("problem", account.problem),
        ],
        indent,
    )

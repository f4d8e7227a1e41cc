"""Owners' CalDAV accounts: stored with their secrets sealed, opened as calendars of their agents.

A secret is sealed by the node key for its owner and account; it leaves this module only towards the HTTP
client, never in rows, logs, errors or answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import aiohttp
import asyncpg
from indai.node.agents import Agent, Agents
from indai.node.calendar.caldav import CalDavCalendar
from indai.node.calendar.dav import DavClient, Found, Login, discover
from indai.node.keystore import KeyStore
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.storage.pool import transaction

MAX_ACCOUNTS = 8
MAX_SECRET = 4096
MAX_URL = 1024
MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Account:
    """A stored account. `calendars` are read; `target` is the path of the one that can be written, and
    `written` says that new meetings go there."""

    name: str
    url: str
    user: str
    calendars: tuple[Found, ...]
    target: str
    written: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an owner asks for: which of the calendars that the server shows (by name or path; all when empty)
    are read, which is written ("" for the first that can be), and whether new meetings go there."""

    name: str
    url: str
    login: Login
    read: tuple[str, ...] = ()
    write: str = ""
    written: bool = True


class Accounts:
    """The accounts of every owner of this node; the only writer of their table."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        keystore: KeyStore,
        agents: Agents,
        session: aiohttp.ClientSession,
        clock: Callable[[], int],
        *,
        public_only: bool,
    ) -> None:
        self._pool = pool
        self._keystore = keystore
        self._agents = agents
        self._session = session
        self._clock = clock
        self._public_only = public_only
        self._known: dict[str, dict[str, tuple[Account, CalDavCalendar]]] = {}

    async def load(self) -> None:
        """Open every account; none is read yet. Raises when a secret does not open under this node's key."""
        owners = list(self._agents)
        if not owners:
            return
        async with transaction(self._pool, owners) as connection:
            rows = await connection.fetch(
                "SELECT * FROM node.calendar_accounts WHERE owner = ANY($1) ORDER BY created_ms, name", owners
            )
        for row in rows:
            found = tuple(Found(**each) for each in json.loads(row["calendars"]))
            account = Account(row["name"], row["url"], row["user_name"], found, row["target"], row["written"])
            secret = self._keystore.unseal(row["sealed_secret"], _context(row["owner"], account.name))
            calendar = self._open(self._agents.get(row["owner"]), account, secret.decode())
            self._known.setdefault(row["owner"], {})[account.name] = account, calendar
        for owner in self._known:
            self._use(owner)

    async def close(self) -> None:
        """End what is being read."""
        for accounts in self._known.values():
            for _, calendar in accounts.values():
                await calendar.close()

    def of(self, owner: str) -> list[tuple[Account, CalDavCalendar]]:
        """An owner's accounts, the oldest first."""
        return list(self._known.get(owner, {}).values())

    async def add(self, owner: str, wanted: Wanted) -> Account:
        """Find the account's calendars, read them once, and store it; an account of that name gives way.

        Raises InvalidInput for what can't be asked, Refused and Unavailable as `DavClient`.
        """
        agent = self._agents.get(owner)
        others = self._known.get(owner, {}).keys() - {wanted.name}
        _check(wanted, len(others))
        client = DavClient(self._session, wanted.url, wanted.login, public_only=self._public_only)
        account = _chosen(wanted, str(client.url), await discover(client))
        calendar = self._open(agent, account, wanted.login.secret)
        try:
            await calendar.look()
        except BaseException:
            await calendar.close()
            raise
        await self._store(owner, account, wanted.login.secret)
        await self._forget(owner, account.name)
        known = self._known.setdefault(owner, {})
        if account.written:
            for name, (other, its) in known.items():
                known[name] = replace(other, written=False), its
        known[account.name] = account, calendar
        self._use(owner)
        return account

    async def remove(self, owner: str, name: str) -> None:
        """Forget an account and its secret; its events stay on the server. Raises NotFound."""
        if name not in self._known.get(owner, {}):
            raise NotFound(
                Reason.NOT_FOUND, f"You have no calendar account {name!r}.", hint="indai calendar accounts"
            )
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "DELETE FROM node.calendar_accounts WHERE owner = $1 AND name = $2", owner, name
            )
        await self._forget(owner, name)
        self._use(owner)

    async def _forget(self, owner: str, name: str) -> None:
        known = self._known.get(owner, {}).pop(name, None)
        if known is not None:
            await known[1].close()

    async def _store(self, owner: str, account: Account, secret: str) -> None:
        sealed = self._keystore.seal(secret.encode(), _context(owner, account.name))
        async with transaction(self._pool, [owner]) as connection:
            if account.written:
                await connection.execute(
                    "UPDATE node.calendar_accounts SET written = false WHERE owner = $1", owner
                )
            await connection.execute(
                "INSERT INTO node.calendar_accounts (owner, name, url, user_name, sealed_secret, calendars,"
                " target, written, created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
                " ON CONFLICT (owner, name) DO UPDATE SET url = excluded.url,"
                " user_name = excluded.user_name, sealed_secret = excluded.sealed_secret,"
                " calendars = excluded.calendars, target = excluded.target, written = excluded.written",
                owner,
                account.name,
                account.url,
                account.user,
                sealed,
                json.dumps([asdict(each) for each in account.calendars]),
                account.target,
                account.written,
                self._clock(),
            )

    def _open(self, agent: Agent, account: Account, secret: str) -> CalDavCalendar:
        login = Login(account.user, secret)
        client = DavClient(self._session, account.url, login, public_only=self._public_only)
        return CalDavCalendar(
            account.name, client, account.calendars, account.target, agent.zone, self._clock
        )

    def _use(self, owner: str) -> None:
        """Let the agent's calendar be its file and these accounts."""
        known = self.of(owner)
        target = next((calendar for account, calendar in known if account.written), None)
        self._agents.get(owner).use([calendar for _, calendar in known], target)


def _check(wanted: Wanted, others: int) -> None:
    wrong = ""
    if not 0 < len(wanted.name) <= MAX_NAME or not wanted.name.isprintable():
        wrong = f"An account's name has 1 to {MAX_NAME} printable characters."
    elif len(wanted.url) > MAX_URL:
        wrong = f"The address is longer than {MAX_URL} characters."
    elif not 0 < len(wanted.login.secret) <= MAX_SECRET or not wanted.login.secret.isprintable():
        wrong = f"A password or token has 1 to {MAX_SECRET} printable characters."
    elif ":" in wanted.login.user or not wanted.login.user.isprintable():
        wrong = "A user name is printable and has no colon."
    elif others >= MAX_ACCOUNTS:
        wrong = f"There are {MAX_ACCOUNTS} accounts already, which is the most."
    if wrong:
        raise InvalidInput(Reason.INVALID_ARGUMENT, wrong)


def _chosen(wanted: Wanted, url: str, found: Sequence[Found]) -> Account:
    read = [_named(name, found) for name in wanted.read] or list(found)
    if wanted.write:
        target = _named(wanted.write, found)
        if not target.writable:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"The server does not let you write into {target.name!r}."
            )
        # What is written must be read, too: a meeting is looked for before it is put.
        read = read if target in read else [*read, target]
    else:
        able = [each for each in read if each.writable and not each.only_busy]
        target = able[0] if able else Found("", "", False, False, False)
    if wanted.written and not target.path:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "None of these calendars can be written.",
            hint="add the account to be read alone: --read-only",
        )
    return Account(wanted.name, url, wanted.login.user, tuple(read), target.path, wanted.written)


def _named(name: str, found: Sequence[Found]) -> Found:
    matches = [each for each in found if name in (each.name, each.path, each.path.rstrip("/"))]
    matches = matches or [each for each in found if each.path.rstrip("/").rsplit("/", 1)[-1] == name]
    if len(matches) != 1:
        names = ", ".join(repr(each.name) for each in found)
        which = "Several calendars are" if matches else "No calendar is"
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{which} called {name!r}.", hint=f"the server shows {names}"
        )
    return matches[0]


def _context(owner: str, name: str) -> str:
    """What a sealed secret is bound to, so that rows can't be swapped."""
    return f"calendar {owner} {name}"

"""Where owners are paid: an address, and the provider whose signed word says what arrived. Secrets stand here
by reference only.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from urllib.parse import urlsplit

import asyncpg
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.forms import check_text, check_token
from indai.protocol.kinds.pay import MAX_PAYEE
from indai.storage.pool import transaction

HOOK_PATH = "/pay/razorpay/"


@dataclass(frozen=True, slots=True)
class PayAccount:
    """One owner's. `hook` names the webhook's path, which nobody guesses; empty fields are not set."""

    payee: str = ""
    name: str = ""
    webhook_secret_ref: str = ""
    provider_url: str = ""
    provider_key_ref: str = ""
    hook: str = ""

    def check(self) -> None:
        """Raises InvalidInput for what can't be used."""
        try:
            check_token("PAY-01", "payee's address", self.payee, MAX_PAYEE)
            check_text("name", self.name, 100)
        except ProtocolError as error:
            raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
        for reference in (self.webhook_secret_ref, self.provider_key_ref):
            if reference and not reference.startswith("vault:"):
                raise InvalidInput(
                    Reason.INVALID_ARGUMENT,
                    "A secret is named by a reference.",
                    hint="store it with: indai secret set razorpay; then write vault:razorpay",
                )
        if bool(self.provider_url) != bool(self.provider_key_ref):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "A provider's address goes with a reference to its key."
            )
        if self.provider_url:
            _check_url(self.provider_url)


class PayAccounts:
    """Every owner's account; the only writer of their table."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._known: dict[str, PayAccount] = {}
        self._owners: dict[str, str] = {}

    async def load(self, owners: Iterable[str]) -> None:
        """Read them all."""
        wanted = list(owners)
        if not wanted:
            return
        async with transaction(self._pool, wanted) as connection:
            rows = await connection.fetch("SELECT * FROM node.pay_accounts WHERE owner = ANY($1)", wanted)
        for row in rows:
            self._keep(row["owner"], PayAccount(**{each.name: row[each.name] for each in fields(PayAccount)}))

    def get(self, owner: str) -> PayAccount:
        """The owner's, or an empty one."""
        return self._known.get(owner, PayAccount())

    def owner_of(self, hook: str) -> str | None:
        """Whose webhook this is."""
        return self._owners.get(hook)

    def with_provider(self) -> list[str]:
        """Owners whose provider makes pages to pay on."""
        return [owner for owner, account in self._known.items() if account.provider_url]

    async def set(self, owner: str, account: PayAccount) -> PayAccount:
        """Store it in place of the one before, whose webhook's path it keeps."""
        account.check()
        account = replace(account, hook=self.get(owner).hook or secrets.token_urlsafe(24))
        names = [each.name for each in fields(PayAccount)]
        listed, changes = ", ".join(names), ", ".join(f"{name} = excluded.{name}" for name in names)
        numbered = ", ".join(f"${number}" for number in range(2, len(names) + 2))
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                f"INSERT INTO node.pay_accounts (owner, {listed}) VALUES ($1, {numbered})"  # noqa: S608
                f" ON CONFLICT (owner) DO UPDATE SET {changes}",
                owner,
                *(getattr(account, name) for name in names),
            )
        self._keep(owner, account)
        return account

    def _keep(self, owner: str, account: PayAccount) -> None:
        self._known[owner] = account
        self._owners[account.hook] = owner


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    local = host in ("127.0.0.1", "::1", "localhost")
    if (
        not host
        or parts.username
        or parts.query
        or not (parts.scheme == "https" or (parts.scheme == "http" and local))
    ):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "A provider is reached over https, or http on this machine.",
            hint="write it like https://api.razorpay.com",
        )

"""People's DigiLockers: connected by each person, read for a purpose, disconnected.

    begin     state (random, one use, ten minutes, of this owner and person) -> the address to open
    callback  the state is taken out of its row, the code becomes a token, sealed in the vault
    confirm   the person repeats the code that *their browser* was shown

The last step is what binds a browser to a person: without it, whoever sends somebody else the address that
they were given would get that person's documents. Until then nothing is read.

A token is renewed a minute before it ends, or when DigiLocker says 401, once; if that is refused, the secret
is forgotten and the person is told to connect again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import asyncpg
import structlog
from indai.dpi.consents import Consents, check_purpose
from indai.dpi.digilocker import DigiLocker, Expired, File, Issued, Revoked, Token
from indai.dpi.documents import Document, Documents
from indai.dpi.remote import Vault
from indai.protocol.errors import IndaiError, NotFound, Reason, Refused
from indai.storage.pool import transaction

CALLBACK: Final = "/dpi/digilocker/callback"
FLOW_MS: Final = 10 * 60_000
EARLY_MS: Final = 60_000
YEAR_MS: Final = 365 * 86_400_000
TRIES: Final = 5
MAX_FLOWS: Final = 20
_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # no look-alikes
_NAME: Final = "digilocker"

T = TypeVar("T")
Client = Callable[[], Awaitable[DigiLocker]]
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Connection:
    """One person's. `account` is the name that DigiLocker gave; `state` is confirm, live or reconnect."""

    state: str
    account: str
    token_ref: str
    consent: str


class Lockers:
    """Every person's DigiLocker, for every owner of this node."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        client: Client,
        vault: Vault,
        consents: Consents,
        documents: Documents,
        key: bytes,
        public_url: Callable[[], str],
        clock: Callable[[], int],
    ) -> None:
        self._pool, self._client, self._vault = pool, client, vault
        self._consents, self.documents = consents, documents
        self._key, self._public_url, self._clock = key, public_url, clock
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def begin(self, owner: str, person: str, purpose: str) -> str:
        """The address that the person opens to consent."""
        checked, client = check_purpose(purpose), await self._client()
        state, now = self._state(owner), self._clock()
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "DELETE FROM dpi.flows WHERE owner = $1 AND (expires_ms <= $2 OR person = $3 AND state_sha256"
                " NOT IN (SELECT state_sha256 FROM dpi.flows WHERE owner = $1 AND person = $3"
                " ORDER BY expires_ms DESC LIMIT $4))",
                owner,
                now,
                person,
                MAX_FLOWS - 1,
            )
            await connection.execute(
                "INSERT INTO dpi.flows (owner, state_sha256, person, integration, purpose, expires_ms)"
                " VALUES ($1, $2, $3, $4, $5, $6)",
                owner,
                _sha256(state),
                person,
                _NAME,
                checked,
                now + FLOW_MS,
            )
        return client.authorize_url(state, self._verifier(state), self._redirect())

    async def callback(self, state: str, code: str, error: str) -> str:
        """What the browser brings back: the code to confirm with. Raises Refused for a state that is none,
        was used, or is too old, and for a person who said no."""
        owner = self._owner_of(state)
        async with transaction(self._pool, [owner]) as connection:
            # Taken out before anything else: a state is good for one try, whatever comes of it.
            flow = await connection.fetchrow(
                "DELETE FROM dpi.flows WHERE owner = $1 AND state_sha256 = $2"
                " RETURNING person, purpose, expires_ms",
                owner,
                _sha256(state),
            )
        if flow is None or flow["expires_ms"] <= self._clock():
            raise _stale()
        if error or not code:
            raise Refused(Reason.PERMISSION_DENIED, "DigiLocker was not connected: you did not allow it.")
        client = await self._client()
        try:
            token = await client.exchange(code, self._verifier(state), self._redirect(), self._clock())
        except Revoked:
            raise Refused(
                Reason.PROVIDER_REFUSED, "DigiLocker does not accept the code.", hint=_AGAIN
            ) from None
        return await self._store(owner, flow["person"], flow["purpose"], token)

    async def confirm(self, owner: str, person: str, code: str) -> Connection:
        """The person has the code from their own browser. Raises Refused; five wrong ones end it."""
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                "UPDATE dpi.connections SET tries = tries + 1 WHERE owner = $1 AND person = $2"
                " AND integration = $3 AND state = 'confirm' AND tries < $4 AND changed_ms > $5"
                " RETURNING code_sha256, state, account, token_ref, consent::text",
                owner,
                person,
                _NAME,
                TRIES,
                self._clock() - FLOW_MS,
            )
        if row is None:
            known = await self.status(owner, person)
            if known is not None and known.state == "confirm":
                await self.disconnect(owner, person)  # whoever's it is, it was not given to this person
            raise Refused(Reason.PERMISSION_DENIED, "There is nothing to confirm any more.", hint=_AGAIN)
        if not hmac.compare_digest(row["code_sha256"], _sha256(code.strip().upper())):
            raise Refused(
                Reason.PERMISSION_DENIED,
                "That is not the code that your browser shows.",
                hint="it stands on the page to which DigiLocker sent you back",
            )
        found = Connection("live", row["account"], row["token_ref"], row["consent"])
        # In this order: a crash in between leaves something that can be confirmed again.
        await self._say(owner, person, found, "ACTIVE")
        await self._mark(owner, person, "live")
        return found

    async def status(self, owner: str, person: str) -> Connection | None:
        """What is connected."""
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                "SELECT state, account, token_ref, consent::text FROM dpi.connections"
                " WHERE owner = $1 AND person = $2 AND integration = $3",
                owner,
                person,
                _NAME,
            )
        return Connection(**dict(row)) if row is not None else None

    async def disconnect(self, owner: str, person: str) -> bool:
        """Forget token and documents, end the consent, and tell DigiLocker; whether it could be told. Raises
        NotFound."""
        async with self._lock(owner, person):
            known = await self.status(owner, person)
            if known is None:
                raise NotFound(Reason.NOT_FOUND, "DigiLocker is not connected.", hint=_AGAIN)
            told = await self._revoke(known)
            await self._vault.remove(known.token_ref)
            await self.documents.forget(owner, person)
            await self._say(owner, person, known, "REVOKED")
            async with transaction(self._pool, [owner]) as connection:
                await connection.execute(
                    "DELETE FROM dpi.connections WHERE owner = $1 AND person = $2 AND integration = $3",
                    owner,
                    person,
                    _NAME,
                )
        return told

    async def forget(self, owner: str, person: str) -> bool:
        """Disconnect if there is a connection, and leave no token behind even where a row of it never came to
        be; False when DigiLocker could not be told."""
        told = True
        with contextlib.suppress(NotFound):
            told = await self.disconnect(owner, person)
        async with self._lock(owner, person):
            await self._vault.remove(f"vault:{_secret_name(owner, person)}")
        return told

    async def issued(self, owner: str, person: str) -> Sequence[Issued]:
        """The person's documents; their Aadhaar card is among them by its reference alone."""
        known, client = await self._live(owner, person), await self._client()
        consent = await self._consents.get(owner, person, known.consent, _NAME)
        await self._consents.use(consent, "list")
        return await self._with_token(owner, person, known, client.issued)

    async def pull(self, owner: str, person: str, reference: str) -> tuple[Document, str, int]:
        """A document, kept sealed; the link that reads it, and until when (ms)."""
        known, client = await self._live(owner, person), await self._client()
        consent = await self._consents.get(owner, person, known.consent, _NAME)
        await self._consents.use(consent, f"pull {reference}"[:200])

        async def file(access: str) -> File:
            return await client.file(access, reference)

        found = await self._with_token(owner, person, known, file)
        document = await self.documents.keep(
            owner, person, consent.id, reference, reference, found.mime, found.body
        )
        path, until = self.documents.link(owner, document)
        return document, self._public_url().rstrip("/") + path, until

    async def _with_token(
        self, owner: str, person: str, known: Connection, call: Callable[[str], Awaitable[T]]
    ) -> T:
        token = await self._token(owner, person, known)
        try:
            return await call(token.access)
        except Expired:
            renewed = await self._token(owner, person, known, after=token.access)
        try:
            return await call(renewed.access)
        except Expired:
            raise await self._lost(owner, person, known) from None

    async def _token(self, owner: str, person: str, known: Connection, after: str = "") -> Token:
        """A token that should be good. `after` is one that was refused: another is got unless somebody
        else has it already."""
        async with self._lock(owner, person):
            try:
                token = Token.load(await self._vault.get(known.token_ref))
            except NotFound:
                raise await self._lost(owner, person, known) from None
            if token.access != after and token.expires_ms - EARLY_MS > self._clock():
                return token
            client = await self._client()
            try:
                token = await client.refresh(token, self._clock())
            except Revoked:
                raise await self._lost(owner, person, known) from None
            await self._vault.set(_secret_name(owner, person), token.dump())
            return token

    async def _live(self, owner: str, person: str) -> Connection:
        known = await self.status(owner, person)
        if known is None or known.state == "confirm":
            raise Refused(Reason.UNAUTHENTICATED, "DigiLocker is not connected yet.", hint=_AGAIN)
        if known.state == "reconnect":
            raise _gone()
        return known

    async def _lost(self, owner: str, person: str, known: Connection) -> Refused:
        """The grant is gone: nothing is kept that could not be used."""
        await self._vault.remove(known.token_ref)
        await self._mark(owner, person, "reconnect")
        await self._say(owner, person, known, "REVOKED")
        log.warning("digilocker must be connected again", owner=owner)
        return _gone()

    async def _store(self, owner: str, person: str, purpose: str, token: Token) -> str:
        """Keep the token, and a consent that waits for the code, which is returned."""
        code = "".join(secrets.choice(_ALPHABET) for _ in range(8))
        now = self._clock()
        async with self._lock(owner, person):
            before = await self.status(owner, person)
            if before is not None:
                await self._say(owner, person, before, "REVOKED")
            reference = await self._vault.set(_secret_name(owner, person), token.dump())
            until = token.consent_until_ms or now + YEAR_MS
            consent = await self._consents.add(owner, person, _NAME, purpose, until)
            async with transaction(self._pool, [owner]) as connection:
                await connection.execute(
                    "INSERT INTO dpi.connections (owner, person, integration, state, token_ref, account,"
                    " code_sha256, consent, changed_ms) VALUES ($1, $2, $3, 'confirm', $4, $5, $6, $7, $8)"
                    " ON CONFLICT (owner, person, integration) DO UPDATE SET state = 'confirm', tries = 0,"
                    " token_ref = excluded.token_ref, account = excluded.account,"
                    " code_sha256 = excluded.code_sha256, consent = excluded.consent,"
                    " changed_ms = excluded.changed_ms",
                    owner,
                    person,
                    _NAME,
                    reference,
                    token.name[:100],
                    _sha256(code),
                    consent.id,
                    now,
                )
        return code

    async def _revoke(self, known: Connection) -> bool:
        try:
            token = Token.load(await self._vault.get(known.token_ref))
            await (await self._client()).revoke(token)
        except (IndaiError, Revoked):
            return False
        return True

    async def _say(self, owner: str, person: str, known: Connection, status: str) -> None:
        consent = await self._consents.get(owner, person, known.consent, _NAME)
        await self._consents.change(consent, status)

    async def _mark(self, owner: str, person: str, state: str) -> None:
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "UPDATE dpi.connections SET state = $4, changed_ms = $5"
                " WHERE owner = $1 AND person = $2 AND integration = $3",
                owner,
                person,
                _NAME,
                state,
                self._clock(),
            )

    def _lock(self, owner: str, person: str) -> asyncio.Lock:
        return self._locks.setdefault((owner, person), asyncio.Lock())

    def _redirect(self) -> str:
        return self._public_url().rstrip("/") + CALLBACK

    def _state(self, owner: str) -> str:
        """Random, and says whose it is, under a MAC: its row can only be looked for among its owner's."""
        text = f"{secrets.token_urlsafe(24)}.{base64.urlsafe_b64encode(owner.encode()).decode().rstrip('=')}"
        return f"{text}.{self._mac('state', text)}"

    def _owner_of(self, state: str) -> str:
        text, _, mac = state.rpartition(".")
        if not text.isascii() or not hmac.compare_digest(mac.encode(), self._mac("state", text).encode()):
            raise _stale()
        name = text.partition(".")[2]
        return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()

    def _verifier(self, state: str) -> str:
        """PKCE's secret follows from the state and a key, and need not be kept."""
        return self._mac("pkce", state)

    def _mac(self, what: str, text: str) -> str:
        mac = hmac.digest(self._key, f"{what}\n{text}".encode(), "sha256")
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


_AGAIN: Final = "connect with: indai connect digilocker --purpose TEXT"


def _secret_name(owner: str, person: str) -> str:
    whose = hashlib.sha256(f"{owner}\n{person}".encode()).hexdigest()
    return f"{_NAME}.{whose[:40]}"


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _stale() -> Refused:
    return Refused(
        Reason.PERMISSION_DENIED,
        "This way back from DigiLocker was used already, is too old, or was not begun here.",
        hint=_AGAIN,
    )


def _gone() -> Refused:
    return Refused(
        Reason.UNAUTHENTICATED,
        "DigiLocker does not let us in any more: please connect it again.",
        hint=_AGAIN,
    )

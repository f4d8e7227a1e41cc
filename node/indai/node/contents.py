"""Contents that are shared: bound by a hash in the terms, sealed for the receiver, kept on both sides.

The receiver's X25519 key is its agent's Ed25519 key carried over to the Montgomery curve (libsodium's
`crypto_sign_ed25519_pk_to_curve25519`), so that the registry vouches for it and it rotates with the agent's
key. The sealed form is libsodium's sealed box over 32 random bytes and the content: the random bytes keep a
short content from being guessed by its hash, and the holder's node itself cannot open what it hands out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import asyncpg
from indai.node.keystore import KeyStore
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.kinds.share import Consent, Fetch, Mode, ShareTerms
from indai.storage.pool import transaction
from nacl.bindings import (
    crypto_box_seal,
    crypto_box_seal_open,
    crypto_sign_ed25519_pk_to_curve25519,
    crypto_sign_ed25519_sk_to_curve25519,
)
from nacl.exceptions import CryptoError

SALT_BYTES = 32
READ_MS = 5 * 60_000  # how long one read lasts: parts asked for within it belong to it
UNUSED_MS = 3 * 86_400_000  # an offer lives a day; what no commitment names by then is nobody's


def recipient_key(public_key: bytes) -> bytes:
    """The X25519 key of an agent's Ed25519 public key; raises ProtocolError for one that has none."""
    try:
        return crypto_sign_ed25519_pk_to_curve25519(public_key)
    except (CryptoError, RuntimeError, ValueError):
        raise ProtocolError(Reason.MALFORMED, "The key can't be sealed for.", rule="SHR-01") from None


def seal_for(key: bytes, content: bytes) -> tuple[bytes, bytes]:
    """(hash that the terms bind, sealed form) of a content for an X25519 key."""
    salted = os.urandom(SALT_BYTES) + content
    return hashlib.sha256(salted).digest(), crypto_box_seal(salted, key)


def open_sealed(sealed: bytes, keys: Iterable[SigningKey], terms: ShareTerms) -> bytes:
    """The content, just as the terms bind it; raises ProtocolError."""
    for key in keys:
        if recipient_key(key.public_key) != terms.recipient_key:
            continue
        secret = crypto_sign_ed25519_sk_to_curve25519(key.seed + key.public_key)
        try:
            salted = crypto_box_seal_open(sealed, terms.recipient_key, secret)
        except (CryptoError, ValueError):
            break
        content = salted[SALT_BYTES:]
        if hashlib.sha256(salted).digest() != terms.content_sha256 or len(content) != terms.size_bytes:
            break
        return content
    raise ProtocolError(
        Reason.MALFORMED,
        "What came is not what was agreed to be shared.",
        hint="ask for it again",
        rule="SHR-02",
    )


def kept_until_ms(consent: Consent, read_ms: int) -> int | None:
    """Until when a copy read now may be kept; None for ever. VIEW keeps nothing."""
    if consent.mode is Mode.VIEW:
        return read_ms
    length_ms = consent.data_life_unit.length_ms
    return read_ms + consent.data_life_value * length_ms if length_ms else None


@dataclass(frozen=True, slots=True)
class Reads:
    """Reads of one content so far: when each began, ms, newest first."""

    begun_ms: tuple[int, ...] = field(default=())

    def current(self, now_ms: int) -> int | None:
        """When the read that still goes on began."""
        return self.begun_ms[0] if self.begun_ms and now_ms - self.begun_ms[0] < READ_MS else None

    def problem(self, consent: Consent, now_ms: int) -> str:
        """Why another part may not be had now, a Reason of a refusal; "" where it may."""
        if now_ms < consent.from_ms:
            return "NOT_YET"
        if now_ms >= consent.to_ms:
            return "CONSENT_EXPIRED"
        if self.current(now_ms) is not None:
            return ""
        if consent.fetch is Fetch.ONETIME or consent.frequency_unit is None:
            return "ALREADY_READ" if self.begun_ms else ""
        since = now_ms - consent.frequency_unit.length_ms
        recent = sum(begun > since for begun in self.begun_ms)
        return "READ_TOO_OFTEN" if recent >= consent.frequency_value else ""


class Contents:
    """The tables `node.shared`, `node.kept` and `node.disclosures`; every call names its owner."""

    def __init__(self, pool: asyncpg.Pool, keystore: KeyStore, clock: Callable[[], int]) -> None:
        self._pool = pool
        self._keystore = keystore
        self._clock = clock

    async def offer(self, owner: str, key: bytes, content: bytes) -> bytes:
        """Seal a content for a key, and keep that until an offer names it; the hash.

        An offer that never comes leaves a row that nothing names, which `sweep` removes.
        """
        sha256, sealed = seal_for(key, content)
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.shared (owner, sha256, sealed, created_ms) VALUES ($1, $2, $3, $4)",
                owner,
                sha256,
                sealed,
                self._clock(),
            )
        return sha256

    async def claim(self, owner: str, sha256: bytes, thread: bytes) -> bool:
        """Whether this content is there to be offered in `thread`, and in no other."""
        async with transaction(self._pool, [owner]) as connection:
            return bool(
                await connection.fetchval(
                    "UPDATE node.shared SET thread = $3 WHERE owner = $1 AND sha256 = $2"
                    " AND (thread IS NULL OR thread = $3) RETURNING true",
                    owner,
                    sha256,
                    thread,
                )
            )

    async def sealed(self, owner: str, sha256: bytes) -> bytes | None:
        """The sealed form of what was offered."""
        async with transaction(self._pool, [owner]) as connection:
            found: bytes | None = await connection.fetchval(
                "SELECT sealed FROM node.shared WHERE owner = $1 AND sha256 = $2", owner, sha256
            )
        return found

    async def read(
        self, owner: str, peer: str, item: str, commitment: bytes, consent: Consent, now_ms: int
    ) -> str:
        """Count a part that `peer` is about to be sent; a reason to refuse it, or "".

        Judged and counted under a lock, so that two queries at once are not both the first.
        """
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 7))", f"{owner},{commitment.hex()}"
            )
            rows = await connection.fetch(
                "SELECT begun_ms FROM node.disclosures WHERE owner = $1 AND peer = $2 AND item = $3"
                " AND commitment = $4 ORDER BY begun_ms DESC LIMIT 1000",
                owner,
                peer,
                item,
                commitment,
            )
            reads = Reads(tuple(row["begun_ms"] for row in rows))
            problem = reads.problem(consent, now_ms)
            if not problem:
                begun_ms = reads.current(now_ms)
                await _count(connection, owner, peer, item, commitment, begun_ms or now_ms, now_ms)
        return problem

    async def told(self, owner: str, peer: str, item: str, now_ms: int) -> None:
        """Count an answer that holds no content, once a UTC day and sort."""
        async with transaction(self._pool, [owner]) as connection:
            await _count(connection, owner, peer, item, b"", now_ms - now_ms % 86_400_000, now_ms)

    async def keep(
        self, owner: str, mid: bytes, thread: bytes, content: bytes, now_ms: int, until_ms: int | None
    ) -> None:
        """Keep what a peer shared with the owner."""
        sealed = self._keystore.seal(content, _context(owner, mid))
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.kept (owner, mid, thread, sealed, read_ms, until_ms)"
                " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (owner, mid) DO UPDATE"
                " SET sealed = excluded.sealed, read_ms = excluded.read_ms, until_ms = excluded.until_ms",
                owner,
                mid,
                thread,
                sealed,
                now_ms,
                until_ms,
            )

    async def kept(self, owner: str, mid: bytes, now_ms: int) -> bytes | None:
        """The owner's copy of what a peer shared, while it may be kept."""
        async with transaction(self._pool, [owner]) as connection:
            sealed = await connection.fetchval(
                "SELECT sealed FROM node.kept WHERE owner = $1 AND mid = $2"
                " AND (until_ms IS NULL OR until_ms > $3)",
                owner,
                mid,
                now_ms,
            )
        return None if sealed is None else self._keystore.unseal(sealed, _context(owner, mid))

    async def drop(self, owner: str, mid: bytes, sha256: bytes) -> None:
        """Nothing of a consent that has ended is kept: neither the sealed content nor a copy."""
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "DELETE FROM node.shared WHERE owner = $1 AND sha256 = $2", owner, sha256
            )
            await connection.execute("DELETE FROM node.kept WHERE owner = $1 AND mid = $2", owner, mid)

    async def sweep(self, owners: Iterable[str], now_ms: int) -> None:
        """Remove copies whose time is over, and contents that no commitment came to name."""
        names = list(owners)
        async with transaction(self._pool, names) as connection:
            await connection.execute(
                "DELETE FROM node.kept WHERE owner = ANY($1) AND until_ms <= $2", names, now_ms
            )
            await connection.execute(
                "DELETE FROM node.shared s WHERE s.owner = ANY($1) AND s.created_ms < $2 AND NOT EXISTS"
                " (SELECT FROM node.threads t WHERE t.owner = s.owner AND t.thread = s.thread"
                " AND t.phase = 'COMMITTED')",
                names,
                now_ms - UNUSED_MS,
            )

    async def disclosures(self, owner: str, peer: str = "") -> list[asyncpg.Record]:
        """(peer, item, times, parts, first_ms, last_ms): what was told, to whom, the newest first."""
        async with transaction(self._pool, [owner]) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT peer, item, count(*) AS times, sum(parts)::bigint AS parts, min(begun_ms)"
                " AS first_ms, max(last_ms) AS last_ms FROM node.disclosures"
                " WHERE owner = $1 AND ($2 = '' OR peer = $2)"
                " GROUP BY peer, item ORDER BY max(last_ms) DESC LIMIT 500",
                owner,
                peer,
            )
        return rows


async def _count(
    connection: asyncpg.Connection,
    owner: str,
    peer: str,
    item: str,
    commitment: bytes,
    begun_ms: int,
    now_ms: int,
) -> None:
    await connection.execute(
        "INSERT INTO node.disclosures AS d (owner, peer, item, commitment, begun_ms, last_ms, parts)"
        " VALUES ($1, $2, $3, $4, $5, $6, 1) ON CONFLICT (owner, peer, item, commitment, begun_ms)"
        " DO UPDATE SET last_ms = excluded.last_ms, parts = d.parts + 1",
        owner,
        peer,
        item,
        commitment,
        begun_ms,
        now_ms,
    )


def _context(owner: str, mid: bytes) -> str:
    return f"kept/{owner}/{mid.hex()}"

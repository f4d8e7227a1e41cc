"""Branded handles: a domain that is a handle must say so itself, and go on saying so.

The proof runs both ways. The chain's signed operations name the domain; the domain names the chain's subject,
in a TXT record of `_ind-handle.<domain>` (RFC 1464 style) or at `https://<domain>/.well-known/ind-handle`
(RFC 8615):

    ind-subject=ind:2b7f...

The registry asks when the handle is claimed, and again from time to time. A domain that does not confirm any
more is flagged in look-ups; its chain stays, since nobody else may have the name either.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_UNSPEC, AddressFamily
from typing import Protocol

import aiohttp
import asyncpg
import dns.asyncresolver
import dns.exception
import dns.resolver
from aiohttp.abc import AbstractResolver, ResolveResult
from indai.protocol.errors import IndaiError, Reason, Refused
from indai.storage.pool import transaction

RECHECK_MS = 6 * 3_600_000
BATCH = 100  # domains asked in one round
CONCURRENT = 8
TIMEOUT_S = 5.0
MAX_PAGE = 4_096
WELL_KNOWN = "/.well-known/ind-handle"
_PREFIX = "ind-subject="

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DomainStatus:
    """When a domain last confirmed its handle, and since when it does not (0: it does)."""

    confirmed_at_ms: int
    failing_since_ms: int = 0


class Prover(Protocol):
    """Asks a domain."""

    async def confirms(self, domain: str, subject_id: str) -> bool:
        """Whether the domain names this subject now; never raises for what a domain answers."""
        ...


class DomainProver:
    """Asks over DNS, then over HTTPS.

    `nameservers` are (address, port); none for the machine's own. `https_port` and `ca` (PEM) are for servers
    that are not the public ones; with `private`, addresses inside networks are asked too, which otherwise
    never are: a domain's owner chooses its addresses, and must not reach what only this machine can.
    """

    def __init__(
        self,
        nameservers: Sequence[tuple[str, int]] = (),
        *,
        https_port: int = 443,
        ca: Path | None = None,
        private: bool = False,
    ) -> None:
        self._dns = dns.asyncresolver.Resolver(configure=not nameservers)
        if nameservers:
            self._dns.nameservers = [address for address, _ in nameservers]
            self._dns.nameserver_ports = dict(nameservers)
        self._dns.lifetime = TIMEOUT_S
        self._port = https_port
        self._tls = ssl.create_default_context(cafile=ca)
        self._private = private

    async def confirms(self, domain: str, subject_id: str) -> bool:
        """Whether TXT or the well-known page name the subject."""
        wanted = _PREFIX + subject_id
        return wanted in await self._txt(domain) or wanted in await self._page(domain)

    async def _txt(self, domain: str) -> list[str]:
        try:
            answer = await self._dns.resolve(f"_ind-handle.{domain}", "TXT")
        except dns.exception.DNSException:
            return []
        return [b"".join(record.strings).decode("ascii", "replace").strip() for record in answer]

    async def _page(self, domain: str) -> list[str]:
        connector = aiohttp.TCPConnector(resolver=_Addresses(self._dns, private=self._private), ssl=self._tls)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        url = f"https://{domain}:{self._port}{WELL_KNOWN}"
        try:
            # No redirects: the domain itself must say it.
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(url, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    return []
                page = await answer.content.read(MAX_PAGE)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return []
        return [line.strip() for line in page.decode("ascii", "replace").splitlines()]


class _Addresses(AbstractResolver):
    """A name's addresses by our own resolver, without those that are not public."""

    def __init__(self, resolver: dns.asyncresolver.Resolver, *, private: bool) -> None:
        self._dns = resolver
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AF_UNSPEC
    ) -> list[ResolveResult]:
        found: list[ResolveResult] = []
        for kind, own in (("A", AF_INET), ("AAAA", AF_INET6)):
            with suppress(dns.exception.DNSException):
                for record in await self._dns.resolve(host, kind):
                    address = record.to_text()
                    if self._private or ipaddress.ip_address(address).is_global:
                        found.append(
                            ResolveResult(
                                hostname=host, host=address, port=port, family=own, proto=0, flags=0
                            )
                        )
        if not found:
            raise OSError(f"{host} has no public address")
        return found

    async def close(self) -> None:
        """Nothing is held."""


class Domains:
    """The branded handles of one registry: asked, remembered, asked again. Use `Domains.open`."""

    def __init__(self, pool: asyncpg.Pool, log: str, prover: Prover, clock: Callable[[], int]) -> None:
        self._pool = pool
        self._log = log
        self._prover = prover
        self._clock = clock
        # A copy of the table, which this process alone writes.
        self._status: dict[str, DomainStatus] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        pool: asyncpg.Pool,
        log: str,
        prover: Prover,
        clock: Callable[[], int],
        *,
        every_s: float = 300.0,
    ) -> AsyncIterator[Domains]:
        """Read what is known, and look every `every_s` seconds for domains to ask again."""
        domains = cls(pool, log, prover, clock)
        async with transaction(pool) as connection:
            rows = await connection.fetch(
                "SELECT handle, confirmed_at_ms, failing_since_ms FROM registry.domain WHERE log = $1", log
            )
        domains._status = {handle: DomainStatus(*times) for handle, *times in rows}
        task = asyncio.create_task(domains._run(every_s))
        try:
            yield domains
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def status(self, handle: str) -> DomainStatus | None:
        """What is known of a branded handle's domain; None for any other handle."""
        return self._status.get(handle)

    async def check(self, domain: str, subject_id: str) -> None:
        """Ask the domain now; raises Refused(PERMISSION_DENIED) with what it must publish."""
        if await self._prover.confirms(domain, subject_id):
            return
        raise Refused(
            Reason.PERMISSION_DENIED,
            f"{domain} does not confirm that it is {subject_id}.",
            hint=f'publish TXT "{_PREFIX}{subject_id}" at _ind-handle.{domain}, or at https://{domain}{WELL_KNOWN}',
            metadata={"rule": "REG-41", "subject": subject_id},
        )

    async def confirmed(self, handle: str, subject_id: str) -> None:
        """The domain has just confirmed this subject."""
        now = self._clock()
        async with transaction(self._pool) as connection:
            await connection.execute(
                "INSERT INTO registry.domain (log, handle, subject_id, confirmed_at_ms, checked_at_ms)"
                " VALUES ($1, $2, $3, $4, $4) ON CONFLICT (log, handle) DO UPDATE"
                " SET subject_id = $3, confirmed_at_ms = $4, checked_at_ms = $4, failing_since_ms = 0",
                self._log,
                handle,
                subject_id,
                now,
            )
        self._status[handle] = DomainStatus(now)

    async def recheck(self) -> int:
        """Ask the domains that were not asked for a while; how many there were."""
        async with transaction(self._pool) as connection:
            due = await connection.fetch(
                "SELECT handle, subject_id FROM registry.domain WHERE log = $1 AND checked_at_ms <= $2"
                " ORDER BY checked_at_ms LIMIT $3",
                self._log,
                self._clock() - RECHECK_MS,
                BATCH,
            )
        gate = asyncio.Semaphore(CONCURRENT)

        async def ask(handle: str, subject: str) -> bool:
            async with gate:
                return await self._prover.confirms(handle, subject)

        answers = await asyncio.gather(*(ask(handle, subject) for handle, subject in due))
        await self._record([(handle, yes) for (handle, _), yes in zip(due, answers, strict=True)])
        return len(due)

    async def _record(self, answers: Sequence[tuple[str, bool]]) -> None:
        now = self._clock()
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(
                "UPDATE registry.domain d SET checked_at_ms = $4,"
                " confirmed_at_ms = CASE WHEN a.yes THEN $4 ELSE d.confirmed_at_ms END,"
                " failing_since_ms ="
                " CASE WHEN a.yes THEN 0 WHEN d.failing_since_ms > 0 THEN d.failing_since_ms ELSE $4 END"
                " FROM unnest($2::text[], $3::bool[]) AS a (handle, yes)"
                " WHERE d.log = $1 AND d.handle = a.handle"
                " RETURNING d.handle, d.confirmed_at_ms, d.failing_since_ms",
                self._log,
                [handle for handle, _ in answers],
                [yes for _, yes in answers],
                now,
            )
        for handle, confirmed, failing in rows:
            if failing and not self._status[handle].failing_since_ms:
                _log.warning("the domain of %s does not confirm its handle any more", handle)
            self._status[handle] = DomainStatus(confirmed, failing)

    async def _run(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.recheck()
            except IndaiError as error:
                _log.warning("domains were not asked again: %s", error)

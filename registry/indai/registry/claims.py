"""Who may claim a name here: the desk in front of the log.

What the desk asks is this registry's own business and no rule of chains: anybody who replays the log can tell
whether an operation follows, and nobody can tell whether its author had an invite. Sub-handles and
transferred handles need no leave: a key that is in the log already has given it.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import asyncpg
from indai.protocol.envelope import parse_envelope, payload_type, verify_signature
from indai.protocol.errors import Reason, Refused
from indai.protocol.handles import Handle
from indai.protocol.keys import key_id
from indai.protocol.operations import CREATE, MAX_SKEW_MS, subject_id
from indai.protocol.wire import strict_parse
from indai.registry.domains import Domains
from indai.registry.limits import TokenBuckets
from indai.registry.records import Submission
from indai.registry.service import Registry
from indai.storage.pool import transaction
from indai.v1 import registry_pb2

MAX_VOUCHER = 4_096
MIN_INVITE = 12  # characters: nobody guesses one


@dataclass(frozen=True, slots=True)
class Claim:
    """A CREATE that is nobody's to allow but the registry's, with what its author shows."""

    handle: Handle
    subject_id: str
    mid: bytes
    signer: str
    invite: str = ""
    voucher: bytes = b""


class ClaimPolicy(Protocol):
    """Admits claims, or raises Refused. The block that it opens is the attempt; an IndaiError out of it means
    that nothing was claimed.
    """

    def admit(self, claim: Claim) -> AbstractAsyncContextManager[None]: ...


class Verifier(Protocol):
    """Says whether somebody has been identified: the point where a registry plugs in its own way."""

    async def verify(self, claim: Claim) -> None:
        """Raises Refused(PERMISSION_DENIED) for who is not."""
        ...


class OpenClaims:
    """First come, first served."""

    @asynccontextmanager
    async def admit(self, claim: Claim) -> AsyncIterator[None]:
        """Everybody."""
        yield


class VerifiedClaims:
    """Only who the verifier knows."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    @asynccontextmanager
    async def admit(self, claim: Claim) -> AsyncIterator[None]:
        """Raises Refused(PERMISSION_DENIED)."""
        await self._verifier.verify(claim)
        yield


class Vouchers:
    """A verifier that believes vouchers signed by issuers it knows (Ed25519 public keys)."""

    def __init__(self, issuers: Iterable[bytes], origin: str, clock: Callable[[], int]) -> None:
        self._issuers = {key_id(key): key for key in issuers}
        self._origin = origin
        self._clock = clock

    async def verify(self, claim: Claim) -> None:
        """The voucher is signed by an issuer, for this registry, handle and key, and not out of date."""
        if not claim.voucher:
            raise _denied(
                "A voucher of a verified identity is needed here", "get one from the registry's issuer"
            )
        envelope = parse_envelope(claim.voucher, limit=MAX_VOUCHER)
        issuer = self._issuers.get(envelope.signatures[0].keyid) if envelope.signatures else None
        if issuer is None or envelope.payload_type != payload_type("voucher"):
            raise _denied("The voucher is not of an issuer that this registry trusts", "get another one")
        verify_signature(envelope, 0, issuer)
        voucher = strict_parse(registry_pb2.Voucher, envelope.payload, limit=MAX_VOUCHER)
        if (voucher.registry, voucher.handle, voucher.key_id) != (
            self._origin,
            str(claim.handle),
            claim.signer,
        ):
            raise _denied("The voucher is for another claim", "claim what it says, with the key it names")
        if not voucher.issued_at_ms - MAX_SKEW_MS <= self._clock() < voucher.expires_at_ms:
            raise _denied("The voucher is out of date", "get a new one from the registry's issuer")


class InvitedClaims:
    """Each invite code is good for one handle. The database holds digests only.

    A code is bound to the operation that shows it before that is tried, and freed when it fails. If this
    process dies between, the same operation may be submitted again.
    """

    def __init__(self, pool: asyncpg.Pool, log: str) -> None:
        self._pool = pool
        self._log = log

    async def add(self, codes: Sequence[str]) -> None:
        """Make codes valid; one that is known already stays as it is."""
        if any(len(code) < MIN_INVITE for code in codes):
            raise Refused(Reason.INVALID_ARGUMENT, f"An invite code has at least {MIN_INVITE} characters.")
        async with transaction(self._pool) as connection:
            await connection.execute(
                "INSERT INTO registry.invite (log, digest) SELECT $1, unnest($2::bytea[])"
                " ON CONFLICT DO NOTHING",
                self._log,
                [_digest(code) for code in codes],
            )

    @asynccontextmanager
    async def admit(self, claim: Claim) -> AsyncIterator[None]:
        """Raises Refused(PERMISSION_DENIED) for a code that is not known or has been used."""
        async with transaction(self._pool) as connection:
            bound = await connection.execute(
                "UPDATE registry.invite SET mid = $3"
                " WHERE log = $1 AND digest = $2 AND (mid IS NULL OR mid = $3)",
                self._log,
                _digest(claim.invite),
                claim.mid,
            )
        if bound != "UPDATE 1":
            raise _denied("An invite code that is not used yet is needed here", "ask the registry for one")
        try:
            yield
        except Refused:
            async with transaction(self._pool) as connection:
                await connection.execute(
                    "UPDATE registry.invite SET mid = NULL WHERE log = $1 AND mid = $2", self._log, claim.mid
                )
            raise


class ClaimDesk:
    """Everything that is submitted passes here. `exempt` handles are the operator's own."""

    def __init__(
        self,
        registry: Registry,
        policy: ClaimPolicy | None = None,
        *,
        callers: TokenBuckets | None = None,
        domains: Domains | None = None,
        exempt: Iterable[str] = (),
    ) -> None:
        self.domains = domains
        self._registry = registry
        self._policy = policy or OpenClaims()
        self._callers = callers
        self._exempt = frozenset(exempt)

    async def submit(
        self, request: registry_pb2.SubmitOperationRequest, caller: str
    ) -> tuple[str, int, list[str]]:
        """(handle, log index, warnings) of an operation that was appended; `caller` is "" for this machine.

        Raises Unavailable(RATE_LIMITED), Refused, and as `Registry.commit`.
        """
        if caller and self._callers is not None:
            self._callers.take(caller)
        submission = self._registry.read(request.operation, branded=self.domains is not None)
        if not self._needs_leave(submission):
            return submission.owner, await self._registry.commit(submission), []
        claim = Claim(
            submission.handle,
            subject_id(submission.envelope),
            submission.envelope.mid,
            submission.envelope.signatures[0].keyid if submission.envelope.signatures else "",
            request.invite,
            request.voucher,
        )
        async with self._policy.admit(claim):
            if submission.handle.branded and self.domains is not None:
                await self.domains.check(submission.handle.authority, claim.subject_id)
            index = await self._registry.commit(submission)
        if submission.handle.branded and self.domains is not None:
            await self.domains.confirmed(submission.owner, claim.subject_id)
        return submission.owner, index, await self._warnings(submission.handle)

    def _needs_leave(self, submission: Submission) -> bool:
        operation = submission.operation
        given = operation.predecessor or submission.handle.parent or submission.owner in self._exempt
        # A transferred domain is another subject, which the domain must confirm too.
        return operation.type == CREATE and (not given or submission.handle.branded)

    async def _warnings(self, handle: Handle) -> list[str]:
        alike = await self._registry.lookalikes(handle)
        return [f"{handle} looks like {other}, which is somebody else's." for other in alike]


def _digest(code: str) -> bytes:
    return hashlib.sha256(b"ind.ai/invite/v1\n" + code.strip().encode()).digest()


def _denied(what: str, hint: str) -> Refused:
    return Refused(Reason.PERMISSION_DENIED, what + ".", hint=hint, metadata={"rule": "REG-40"})

"""Every error the program answers with: one table from reason to gRPC and HTTP status.

    IndaiError
    ├── ProtocolError      a peer's message or proof breaks a rule of the protocol
    ├── InvalidInput       the caller's own input: a handle, a rule, a file, a flag
    ├── NotFound           what was named does not exist, or not for this caller
    ├── Unavailable        something needed is out of reach; the same call may succeed later
    └── Refused            understood, and not allowed

`ValueError` and library exceptions never leave a module boundary: they are turned into one of these where the
library is called. Reasons travel as `google.rpc.ErrorInfo.reason` in the domain `ind.ai`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

DOMAIN = "ind.ai"


class Status(NamedTuple):
    """A gRPC status code by name (as in `grpc.StatusCode`), the HTTP status, the shell's exit status."""

    grpc: str
    http: int
    exit: int


class Reason(Enum):
    """Machine-readable reasons. A name, once released, keeps its meaning."""

    # Input and form
    INVALID_HANDLE = Status("INVALID_ARGUMENT", 400, 2)
    INVALID_ARGUMENT = Status("INVALID_ARGUMENT", 400, 2)
    INVALID_POLICY = Status("INVALID_ARGUMENT", 400, 2)
    INVALID_CALENDAR = Status("INVALID_ARGUMENT", 400, 2)
    INVALID_OPERATION = Status("INVALID_ARGUMENT", 400, 2)
    INVALID_EXPORT = Status("INVALID_ARGUMENT", 400, 2)
    MALFORMED = Status("INVALID_ARGUMENT", 400, 2)
    TOO_LARGE = Status("INVALID_ARGUMENT", 413, 2)
    UNKNOWN_TYPE = Status("INVALID_ARGUMENT", 400, 2)
    UNSUPPORTED = Status("FAILED_PRECONDITION", 400, 3)
    # Identity
    BAD_SIGNATURE = Status("UNAUTHENTICATED", 401, 4)
    UNKNOWN_KEY = Status("UNAUTHENTICATED", 401, 4)
    KEY_REVOKED = Status("UNAUTHENTICATED", 401, 4)
    UNKNOWN_PEER = Status("UNAUTHENTICATED", 401, 4)
    UNAUTHENTICATED = Status("UNAUTHENTICATED", 401, 4)
    PERMISSION_DENIED = Status("PERMISSION_DENIED", 403, 4)
    PIN_MISMATCH = Status("UNAUTHENTICATED", 401, 4)
    ROLLBACK_DETECTED = Status("FAILED_PRECONDITION", 409, 4)
    # Envelope and thread rules
    WRONG_NETWORK = Status("INVALID_ARGUMENT", 400, 2)
    WRONG_AUDIENCE = Status("INVALID_ARGUMENT", 400, 2)
    FROM_FUTURE = Status("FAILED_PRECONDITION", 400, 3)
    EXPIRED = Status("FAILED_PRECONDITION", 400, 3)
    ID_REUSE = Status("ALREADY_EXISTS", 409, 3)
    REPLAYED = Status("ALREADY_EXISTS", 409, 3)
    NOT_YOUR_TURN = Status("FAILED_PRECONDITION", 409, 3)
    ILLEGAL_MOVE = Status("FAILED_PRECONDITION", 409, 3)
    THREAD_CLOSED = Status("FAILED_PRECONDITION", 409, 3)
    THREAD_OPEN = Status("FAILED_PRECONDITION", 409, 3)
    TOO_MANY_MOVES = Status("FAILED_PRECONDITION", 409, 3)
    IMPASSE = Status("FAILED_PRECONDITION", 409, 3)
    TOO_MANY_HOPS = Status("FAILED_PRECONDITION", 409, 3)
    # Transient: what it answers has not arrived. Never stored as an outcome.
    OUT_OF_ORDER = Status("ABORTED", 409, 6)
    POLICY_DENIED = Status("PERMISSION_DENIED", 403, 3)
    NO_COMMON_SLOT = Status("FAILED_PRECONDITION", 409, 3)
    # Proofs and logs
    BAD_PROOF = Status("DATA_LOSS", 502, 5)
    BAD_CHECKPOINT = Status("DATA_LOSS", 502, 5)
    SPLIT_VIEW = Status("DATA_LOSS", 502, 5)
    STALE_HEAD = Status("UNAVAILABLE", 503, 6)
    LOG_FENCED = Status("ABORTED", 409, 6)
    LOG_ROLLED_BACK = Status("DATA_LOSS", 500, 5)
    # State and resources
    NOT_FOUND = Status("NOT_FOUND", 404, 3)
    ALREADY_EXISTS = Status("ALREADY_EXISTS", 409, 3)
    HANDLE_TAKEN = Status("ALREADY_EXISTS", 409, 3)
    RATE_LIMITED = Status("RESOURCE_EXHAUSTED", 429, 6)
    UNREACHABLE = Status("UNAVAILABLE", 503, 6)
    DATABASE_UNAVAILABLE = Status("UNAVAILABLE", 503, 6)
    STORAGE_FULL = Status("RESOURCE_EXHAUSTED", 507, 6)
    DEADLINE_EXCEEDED = Status("DEADLINE_EXCEEDED", 504, 6)
    # Language models
    OVER_BUDGET = Status("RESOURCE_EXHAUSTED", 402, 3)
    PROVIDER_FAILED = Status("UNAVAILABLE", 502, 6)
    PROVIDER_REFUSED = Status("FAILED_PRECONDITION", 502, 3)
    # Set-up of a node
    ADDRESS_IN_USE = Status("UNAVAILABLE", 503, 6)
    INSECURE = Status("FAILED_PRECONDITION", 400, 4)
    NODE_KEY = Status("FAILED_PRECONDITION", 500, 4)
    INTERNAL = Status("INTERNAL", 500, 1)

    # Two reasons may share one status; without this, Enum would make them aliases of each other.
    def __new__(cls, *status: object) -> Reason:
        member = object.__new__(cls)
        member._value_ = (len(cls.__members__), Status(*status))  # type: ignore[arg-type]
        return member

    @property
    def status(self) -> Status:
        """The one row of the table."""
        status: Status = self._value_[1]
        return status


class IndaiError(Exception):
    """An error with a reason for machines, one sentence for a person, and what to do next.

    `fields` maps a field's path to what is wrong with it (becomes `google.rpc.BadRequest`); `metadata` holds
    short strings for machines and never a secret.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        hint: str = "",
        fields: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint
        self.fields = dict(fields or {})
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ProtocolError(IndaiError):
    """A message or a proof breaks a rule; `rule` is its id in `indai.protocol.rules`."""

    def __init__(self, reason: Reason, message: str, *, rule: str = "", hint: str = "") -> None:
        super().__init__(reason, message, hint=hint, metadata={"rule": rule} if rule else None)
        self.rule = rule


class InvalidInput(IndaiError):
    """The caller's own input is wrong."""


class NotFound(IndaiError):
    """What was named does not exist, or not for this caller: the two look alike on purpose."""


class Unavailable(IndaiError):
    """Out of reach for now; retrying the same call is safe."""


class Refused(IndaiError):
    """Understood, and not allowed."""

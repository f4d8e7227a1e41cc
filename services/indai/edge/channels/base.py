"""What every channel is made of: what came in, what goes out, and what the provider's answer means.

An adapter is pure. It checks and reads requests, renders replies, and says which requests to make; sockets,
rows, rates and retries are the same for all of them and stand elsewhere. A new channel is a module with an
`Adapter`, listed in `table`, and a table of cases in the tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeGuard

from indai.edge.channels.carried import File, Takes
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.v1 import conversation_pb2 as pb

Json = dict[str, Any]
MAX_NAME: Final = 100
MAX_TEXT: Final = 100_000


@dataclass(frozen=True, slots=True)
class Field:
    """A setting of a channel; `secret` ones are given as `vault:` references."""

    name: str
    words: str
    secret: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """What a provider takes. Sizes are characters; rates are messages."""

    text: int
    body: int
    buttons: int
    button_title: int
    rows: int
    row_title: int
    row_description: int
    choice_id: int  # bytes
    per_second: float
    pair_every_s: float
    pair_burst: int
    window_h: int = 0  # hours after a person's last message in which anything may be sent; 0: always
    receipts: bool = False  # the provider tells what became of a message
    files: Takes = field(default_factory=Takes)


@dataclass(frozen=True, slots=True)
class Account:
    """One number, bot or workspace: its settings, and its secrets in the clear (never shown)."""

    name: str
    tenant: str
    provider: str
    account: str
    settings: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False, default_factory=dict)

    def setting(self, name: str, default: str = "") -> str:
        """A setting that is no secret."""
        return self.settings.get(name) or default

    def secret(self, name: str) -> str:
        """A secret's value. Raises Refused when it isn't there: nothing is checked against an empty one."""
        if value := self.secrets.get(name, ""):
            return value
        raise Refused(
            Reason.UNAUTHENTICATED,
            f"The channel {self.name} has no {name}.",
            hint=f"store it with indai secret set, and name it: --set {name}=vault:NAME",
        )


@dataclass(frozen=True, slots=True)
class Raw:
    """A request as it came: header names in lower case, the body's bytes untouched."""

    method: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    remote: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message brought, as the provider names it; all of it is claimed and checked later."""

    kind: str
    reference: str
    media_type: str = ""
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message. `address` is where its answer goes, in the provider's own form."""

    message: pb.InboundMessage
    address: str
    attachments: tuple[Attachment, ...] = ()
    unreadable: str = ""  # a kind of message that nobody here can read; the person is told


class State(StrEnum):
    """What became of a message that was sent; each may follow those before it."""

    SENT = "sent"
    DELIVERED = "delivered"
    READ = "read"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The provider's word on a message that was sent."""

    provider_message_id: str
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider is answered."""

    status: int = 200
    body: str = ""
    content_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Received:
    """What a request held. `skipped` counts what was understood and means nothing here."""

    incoming: tuple[Incoming, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    answer: Answer = Answer()
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the provider. `url` may hold a token, so it is never shown. `file` is a part of the form,
    under the name of its field; `body` is bytes as they are."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    json: Json | None = None
    form: Mapping[str, str] | None = None
    file: tuple[str, File] | None = None
    body: bytes | None = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class Step:
    """One request of those that bring a file. The `last` one is the message: until then nobody has seen
    anything. After one that is `kept` the provider has the file, and its answers so far are noted down."""

    request: Request
    last: bool = False
    kept: bool = False


class Fate(StrEnum):
    """What a provider's answer means for a message."""

    SENT = "sent"
    AGAIN = "again"  # the provider is away, or overloaded
    SLOW_ACCOUNT = "slow-account"  # too many from this number
    SLOW_PAIR = "slow-pair"  # too many to this person
    UNHEALTHY = "unhealthy"  # the number or its credentials are refused: nothing of it can be sent
    DEAD = "dead"  # this message can never be sent


@dataclass(frozen=True, slots=True)
class Verdict:
    """A fate, with the provider's id of what was sent or a machine-readable reason, and a wait if one was
    asked for."""

    fate: Fate
    provider_message_id: str = ""
    reason: str = ""
    wait_s: float = 0.0


class Adapter(Protocol):
    """One provider. Nothing here does I/O; `verify` and `receive` raise IndaiError."""

    @property
    def name(self) -> str:
        """What it is called in `indai channel add`."""

    @property
    def channel(self) -> str:
        """The channel, as identities know it."""

    @property
    def fields(self) -> Sequence[Field]:
        """Its settings."""

    @property
    def limits(self) -> Limits:
        """What it takes."""

    @property
    def hosts(self) -> Sequence[str]:
        """Where its files may be fetched: names, or `.suffix` for all below."""

    @property
    def thinks_every_s(self) -> float:
        """How long its sign of life is shown; 0 when it stays."""

    def verify(self, raw: Raw, account: Account, now_s: float) -> None:
        """Raises Refused (BAD_SIGNATURE) unless the provider has sent these very bytes."""

    def receive(self, raw: Raw, account: Account) -> Received:
        """Read a request that was verified. Raises InvalidInput (MALFORMED)."""

    def render(self, reply: pb.Reply) -> list[Json]:
        """The payloads that carry a reply, none of which breaks a limit."""

    def template(self, name: str, reply: pb.Reply) -> Json | None:
        """The payload that carries a reply outside the window, if the provider has such."""

    def address(self, identity: pb.Identity) -> str:
        """Where a message to somebody goes that answers none of theirs."""

    def request(self, payload: Json, address: str, account: Account) -> Request:
        """What sends a payload."""

    def bring(self, file: File, address: str, account: Account, told: Sequence[Json]) -> Step:
        """The next step of sending a file; `told` is what those before were answered. Raises InvalidInput
        when that leads nowhere."""

    def judge(self, status: int, headers: Mapping[str, str], body: str) -> Verdict:
        """What the provider's answer means."""

    def seen(self, message_id: str, address: str, account: Account) -> Request | None:
        """What shows the person that their message has arrived."""

    def thinking(self, message_id: str, address: str, account: Account) -> Request | None:
        """What shows the person that an answer is being made."""

    def thought(self, message_id: str, address: str, account: Account) -> Request | None:
        """What takes that back, where it would stay."""

    def locate(self, attachment: Attachment, account: Account) -> Request | None:
        """The first step of fetching a file, when there are two."""

    def download(self, attachment: Attachment, found: Json, account: Account) -> Request:
        """The last step; `found` is what the first one answered. Raises InvalidInput."""

    def check(self, account: Account) -> Request:
        """A request that fails when the credentials do, and changes nothing."""

    def webhook(self, account: Account, url: str) -> Request | None:
        """What tells the provider where our webhook is, when it can be told."""


def read_json(body: bytes | str) -> Json:
    """An object. Raises InvalidInput (MALFORMED)."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise malformed("The body is no JSON object.")
    return value


def json_or_nothing(body: str) -> Json:
    """An object, or an empty one for whatever else a gateway in between has answered."""
    try:
        return read_json(body)
    except InvalidInput:
        return {}


def malformed(what: str) -> InvalidInput:
    """What a provider's request is not."""
    return InvalidInput(Reason.MALFORMED, what)


def forged(account: Account) -> Refused:
    """A request that nobody has signed whom this channel knows. It tells no more than that."""
    return Refused(Reason.BAD_SIGNATURE, f"This request does not come from the provider of {account.name}.")


def text_of(value: Any, limit: int = MAX_TEXT) -> str:
    """A string's first `limit` characters; nothing for whatever is no string."""
    if not isinstance(value, str):
        return ""
    # A lone surrogate is no text for protobuf, and a NUL none for the database.
    return value[:limit].replace("\x00", "").encode("utf-8", "replace").decode()


def an_object(value: Any) -> Json:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def is_whole(value: Any) -> TypeGuard[int]:
    """A whole number; JSON's `true` is one for Python only."""
    return isinstance(value, int) and not isinstance(value, bool)


def a_list(value: Any) -> list[Any]:
    """A list, or an empty one."""
    return value if isinstance(value, list) else []


def phone_identity(number: str) -> str:
    """E.164 from a provider's digits; empty for what is no number."""
    digits = number.removeprefix("+")
    return f"+{digits}" if digits.isascii() and digits.isdigit() and 5 <= len(digits) <= 18 else ""


def retry_after(headers: Mapping[str, str], default_s: float) -> float:
    """Seconds to wait (RFC 9110, 10.2.3, its first form), at most an hour."""
    text = headers.get("retry-after", "").strip()
    return min(float(text), 3600.0) if text.isascii() and text.isdigit() else default_s

"""`share`: a profile field or a document, for a purpose and a time that the receiver signs before it reads.

The holder offers; its terms hold the hash of the content, never the content. The receiver accepts purpose and
retention, and then fetches the content, sealed for its key, by QUERY: each read is judged when it is asked
for, so that none is answered before `from_ms`, after `to_ms`, oftener than agreed, or after a CANCEL, which
either party may say alone at any time (for the holder: the revocation). The shape of purpose and retention is
that of the consent artefact of India's Account Aggregators (ReBIT, NBFC-AA specification).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Self

from indai.protocol.forms import DAY_MS, HOUR_MS, check_name, check_span, check_text, check_token, malformed
from indai.protocol.kinds.base import Kind, Life, Terms, Wish
from indai.v1 import intents_pb2

MAX_FIELD = 64
MAX_DOCUMENT = 128
MAX_PURPOSE = 200
MAX_MEDIA_TYPE = 100
MAX_CONTENT = 1 << 20
MAX_SPANS = 1_000
MAX_CONSENT_MS = 3_653 * DAY_MS
KEY_BYTES = HASH_BYTES = 32

_CODE = re.compile(r"[A-Za-z0-9.-]{1,32}")
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+(; ?[a-z0-9-]+=[A-Za-z0-9._-]+)*")


class Mode(Enum):
    """What the receiver may do."""

    VIEW = "VIEW"
    STORE = "STORE"
    QUERY = "QUERY"
    STREAM = "STREAM"


class Fetch(Enum):
    """How often it may be read."""

    ONETIME = "ONETIME"
    PERIODIC = "PERIODIC"


class Unit(Enum):
    """A unit of a span of time; a month has 30 days and a year 365."""

    HOUR = "HOUR"
    DAY = "DAY"
    MONTH = "MONTH"
    YEAR = "YEAR"
    INF = "INF"

    @property
    def length_ms(self) -> int:
        """Its length; 0 for INF."""
        return _LENGTHS.get(self, 0)


_LENGTHS = {Unit.HOUR: HOUR_MS, Unit.DAY: DAY_MS, Unit.MONTH: 30 * DAY_MS, Unit.YEAR: 365 * DAY_MS}


@dataclass(frozen=True, slots=True)
class Consent:
    """Purpose and retention. Read from `from_ms` until before `to_ms`; each read may be kept for the data's
    life; PERIODIC: at most `frequency_value` reads in any `frequency_unit`."""

    purpose_code: str
    purpose_text: str
    mode: Mode
    fetch: Fetch
    data_life_unit: Unit
    data_life_value: int
    from_ms: int
    to_ms: int
    frequency_unit: Unit | None = None
    frequency_value: int = 0

    def check(self) -> None:
        """NEG-02 or SHR-01."""
        check_text("purpose", self.purpose_text, MAX_PURPOSE, required=True)
        if not _CODE.fullmatch(self.purpose_code):
            raise malformed("SHR-01", "A purpose code has 1 to 32 letters, digits, dots and hyphens")
        check_span("SHR-01", "The consent", self.from_ms, self.to_ms)
        if self.to_ms - self.from_ms > MAX_CONSENT_MS:
            raise malformed("SHR-01", "A consent lasts at most 10 years")
        endless = self.data_life_unit is Unit.INF
        if not (self.data_life_value == 0 if endless else 1 <= self.data_life_value <= MAX_SPANS):
            raise malformed("SHR-01", f"A data life is 1 to {MAX_SPANS} units, or INF and 0")
        if self.fetch is Fetch.ONETIME and (self.frequency_unit or self.frequency_value):
            raise malformed("SHR-01", "What is read once has no frequency")
        often = self.frequency_unit not in (None, Unit.INF) and 1 <= self.frequency_value <= MAX_SPANS
        if self.fetch is Fetch.PERIODIC and not often:
            raise malformed("SHR-01", f"A frequency is 1 to {MAX_SPANS} reads in an hour, day, month or year")

    def gone_by_ms(self) -> int | None:
        """When the receiver holds nothing any more, if it reads last at the end; None for never."""
        if self.data_life_unit is Unit.INF:
            return None
        return self.to_ms + self.data_life_value * self.data_life_unit.length_ms

    def to_pb(self) -> intents_pb2.Consent:
        """As it is signed."""
        frequency = self.frequency_unit.value if self.frequency_unit else "UNSPECIFIED"
        return intents_pb2.Consent(
            purpose_code=self.purpose_code,
            purpose_text=self.purpose_text,
            mode=intents_pb2.ConsentMode.Value(f"CONSENT_MODE_{self.mode.value}"),
            fetch=intents_pb2.FetchType.Value(f"FETCH_TYPE_{self.fetch.value}"),
            data_life_unit=intents_pb2.SpanUnit.Value(f"SPAN_UNIT_{self.data_life_unit.value}"),
            data_life_value=self.data_life_value,
            from_ms=self.from_ms,
            to_ms=self.to_ms,
            frequency_unit=intents_pb2.SpanUnit.Value(f"SPAN_UNIT_{frequency}"),
            frequency_value=self.frequency_value,
        )

    @classmethod
    def from_pb(cls, pb: intents_pb2.Consent) -> Consent:
        """Raises ProtocolError(MALFORMED) with SHR-01 for a value that no enum has."""
        frequency = _name(intents_pb2.SpanUnit, pb.frequency_unit) if pb.frequency_unit else ""
        return cls(
            pb.purpose_code,
            pb.purpose_text,
            Mode(_name(intents_pb2.ConsentMode, pb.mode)),
            Fetch(_name(intents_pb2.FetchType, pb.fetch)),
            Unit(_name(intents_pb2.SpanUnit, pb.data_life_unit)),
            pb.data_life_value,
            pb.from_ms,
            pb.to_ms,
            Unit(frequency) if frequency else None,
            pb.frequency_value,
        )


@dataclass(frozen=True, slots=True)
class ShareWish(Wish):
    """A `field` or a `document` that the sender would like to have, sealed for its X25519 key."""

    kind: ClassVar[str] = "share"
    pb = intents_pb2.ShareWish
    field: str
    document: str
    consent: Consent
    recipient_key: bytes

    def about(self) -> str:
        """What."""
        return self.field or self.document

    def check(self) -> None:
        """NEG-02 or SHR-01."""
        _check_what(self)

    def admits(self, terms: Terms) -> bool:
        """Whether just this is shared, under this very consent."""
        return isinstance(terms, ShareTerms) and _what(terms) == _what(self)

    def gist(self) -> tuple[object, ...]:
        """All of it."""
        return ("wish", *_what(self))

    def answer_by_ms(self) -> int:
        """When the consent would end."""
        return self.consent.to_ms

    def to_pb(self) -> intents_pb2.ShareWish:
        """As it is signed."""
        pb = intents_pb2.ShareWish(consent=self.consent.to_pb(), recipient_key=self.recipient_key)
        _set_what(pb, self)
        return pb

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked but for the enums."""
        return cls(pb.field, pb.document, Consent.from_pb(pb.consent), pb.recipient_key)


@dataclass(frozen=True, slots=True)
class ShareTerms(Terms):
    """What the first party shares. `content_sha256` is over 32 random bytes followed by the content."""

    kind: ClassVar[str] = "share"
    pb = intents_pb2.ShareTerms
    field: str
    document: str
    consent: Consent
    recipient_key: bytes
    content_sha256: bytes
    media_type: str
    size_bytes: int

    def about(self) -> str:
        """What."""
        return self.field or self.document

    def check(self) -> None:
        """NEG-02, SHR-01 or SHR-02."""
        _check_what(self)
        if len(self.content_sha256) != HASH_BYTES:
            raise malformed("SHR-02", f"The hash of the content has {HASH_BYTES} bytes")
        check_media_type(self.media_type)
        if not 0 < self.size_bytes <= MAX_CONTENT:
            raise malformed("SHR-02", f"The content has 1 to {MAX_CONTENT} bytes")

    def gist(self) -> tuple[object, ...]:
        """All but the hash, whose random bytes are new each time."""
        return ("terms", *_what(self))

    def life(self) -> Life:
        """Revoked alone at any time while it may be read. Kept when the receiver holds nothing any more."""
        end_ms = self.consent.to_ms
        return Life(end_ms, 0, self.consent.gone_by_ms() or end_ms)

    def sign_by_ms(self) -> int:
        """When the consent ends."""
        return self.consent.to_ms

    def to_pb(self) -> intents_pb2.ShareTerms:
        """As it is signed."""
        pb = intents_pb2.ShareTerms(
            consent=self.consent.to_pb(),
            recipient_key=self.recipient_key,
            content_sha256=self.content_sha256,
            media_type=self.media_type,
            size_bytes=self.size_bytes,
        )
        _set_what(pb, self)
        return pb

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked but for the enums."""
        return cls(
            pb.field,
            pb.document,
            Consent.from_pb(pb.consent),
            pb.recipient_key,
            pb.content_sha256,
            pb.media_type,
            pb.size_bytes,
        )


def check_media_type(text: str) -> None:
    """A media type as `text/plain`; raises ProtocolError(MALFORMED)."""
    if len(text) > MAX_MEDIA_TYPE or not _MEDIA_TYPE.fullmatch(text):
        raise malformed("SHR-02", "The content has a media type, as text/plain")


def _check_what(said: ShareWish | ShareTerms) -> None:
    if bool(said.field) == bool(said.document):
        raise malformed("SHR-01", "Either a profile field or a document is shared")
    check_name("SHR-01", "profile field", said.field, MAX_FIELD, required=False)
    check_token("SHR-01", "document's id", said.document, MAX_DOCUMENT, required=False)
    said.consent.check()
    if len(said.recipient_key) != KEY_BYTES:
        raise malformed("SHR-01", f"The receiver's X25519 key has {KEY_BYTES} bytes")


def _what(said: ShareWish | ShareTerms) -> tuple[object, ...]:
    return said.field, said.document, said.consent, said.recipient_key


def _set_what(pb: intents_pb2.ShareWish | intents_pb2.ShareTerms, said: ShareWish | ShareTerms) -> None:
    if said.field:
        pb.field = said.field
    else:
        pb.document = said.document


def _name(enum: Any, number: int) -> str:
    """`STORE` for CONSENT_MODE_STORE; raises for UNSPECIFIED and what is not known."""
    if number not in enum.values() or not number:
        raise malformed("SHR-01", "The consent has a mode, a fetch type and a data life")
    prefix = enum.Name(0).removesuffix("UNSPECIFIED")
    name: str = enum.Name(number)
    return name.removeprefix(prefix)


SHARE = Kind("share", "share", ShareWish, ShareTerms, "consent", "was kept to its end")

"""HELLO: what two agents tell each other before they deal, and what each remembers of the other.

A HELLO is signed by the agent's key like any message, names one receiver, and is good until it expires. Its
*generation* counts the changes of its card. A receiver pins generation and digest: an older generation, or
another card under the same one, is an agent restored from a backup, or somebody who replays its past.

A card is drawn from the agent's own record: it offers what the record advertises, as far as the program has
it, and names the record by digest. The receiver compares that with the registry, so an agent can't show peers
another card than the one its owner has signed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from indai.protocol.envelope import Envelope
from indai.protocol.errors import InvalidInput, ProtocolError, Reason, Unavailable
from indai.protocol.handlestate import Advertisement, HandleState
from indai.protocol.header import MAX_TIME_MS, check_form
from indai.protocol.operations import Chain
from indai.protocol.quoting import quoted
from indai.protocol.wire import strict_parse
from indai.v1 import envelope_pb2, peer_pb2

LIFETIME_MS = 24 * 3_600_000
MAX_WORDS = 32
MAX_VERSIONS = 8

_WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DOMAIN = b"ind.ai/card/v1\n"
_RECORD = b"ind.ai/card-record/v1\n"
LAG_MS = 60_000  # how far behind the registry an honest agent's node may be


@dataclass(frozen=True, slots=True)
class Card:
    """What an agent can do. Lists are sorted, without repetitions; sizes in bytes, envelopes and moves."""

    versions: tuple[int, ...]
    intents: tuple[str, ...]
    features: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    envelope_bytes: int = 65_536
    batch: int = 64
    moves: int = 8
    record: bytes = bytes(32)

    def __post_init__(self) -> None:
        words = (self.intents, self.features, self.required, self.languages)
        if not 0 < len(self.versions) <= MAX_VERSIONS or any(not _is_list(one) for one in words):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A card's lists are sorted short words, each once.")
        if list(self.versions) != sorted(set(self.versions)) or min(self.versions) < 1:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A card's versions are sorted, each once.")
        if min(self.envelope_bytes, self.batch, self.moves) < 1:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A card's limits are at least 1.")
        if len(self.record) != 32:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A card names its record by a digest of 32 bytes.")
        if not set(self.required) <= set(self.features):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "Who requires a feature has it.")

    @property
    def digest(self) -> bytes:
        """SHA-256 over one text for each card, 32 bytes."""
        limits = (self.envelope_bytes, self.batch, self.moves)
        lists = (self.versions, self.intents, self.features, self.required, self.languages, limits)
        return hashlib.sha256(_DOMAIN + _text(lists) + self.record).digest()


@dataclass(frozen=True, slots=True)
class Hello:
    """A HELLO as it was read; `expires_at_ms` in ms since the epoch."""

    header: envelope_pb2.Header
    generation: int
    card: Card

    @property
    def expires_at_ms(self) -> int:
        """Until when it is good."""
        return self.header.expires_at_ms


@dataclass(frozen=True, slots=True)
class Pin:
    """What is remembered of an agent: its newest generation and that one's card digest."""

    generation: int
    card_digest: bytes
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """What two agents have in common."""

    version: int
    intents: tuple[str, ...]
    features: tuple[str, ...]


def compose(header: envelope_pb2.Header, generation: int, card: Card) -> bytes:
    """The payload of a HELLO, to be signed."""
    message = peer_pb2.Hello(
        header=header,
        generation=generation,
        card_digest=card.digest,
        card=peer_pb2.Card(
            versions=card.versions,
            intents=card.intents,
            features=card.features,
            required=card.required,
            languages=card.languages,
            limits=peer_pb2.Limits(envelope_bytes=card.envelope_bytes, batch=card.batch, moves=card.moves),
            record_digest=card.record,
        ),
    )
    return message.SerializeToString()


def read(envelope: Envelope) -> Hello:
    """Read a HELLO, its signature not verified; raises ProtocolError."""
    if envelope.kind != "hello" or len(envelope.signatures) != 1:
        raise ProtocolError(Reason.UNKNOWN_TYPE, "This is not a HELLO with one signature.", rule="HEL-01")
    message = strict_parse(peer_pb2.Hello, envelope.payload)
    check_form(message.header)
    limits = message.card.limits
    try:
        card = Card(
            tuple(message.card.versions),
            tuple(message.card.intents),
            tuple(message.card.features),
            tuple(message.card.required),
            tuple(message.card.languages),
            limits.envelope_bytes,
            limits.batch,
            limits.moves,
            message.card.record_digest,
        )
    except InvalidInput as error:
        raise ProtocolError(Reason.MALFORMED, error.message, rule="HEL-01") from None
    if card.digest != message.card_digest or not 0 < message.generation < MAX_TIME_MS:
        raise ProtocolError(Reason.MALFORMED, "The HELLO's digest is not its card's.", rule="HEL-01")
    if message.header.expires_at_ms - message.header.issued_at_ms > LIFETIME_MS:
        raise ProtocolError(Reason.MALFORMED, "A HELLO is good for at most 24 hours.", rule="HEL-01")
    return Hello(message.header, message.generation, card)


def record_digest(state: HandleState) -> bytes:
    """SHA-256 over what a record says of what its agent can do, 32 bytes."""
    said = state.advertisement
    offer = ((), (), (), (0, 0)) if said is None else _offer(said)
    return hashlib.sha256(_RECORD + _text((sorted(state.intents), *offer))).digest()


def card_of(state: HandleState, program: Card) -> Card:
    """The card of the agent with this record: of what the program can do, what the record advertises.

    Raises ProtocolError(UNSUPPORTED) when it advertises only versions that the program does not speak.
    """
    said = state.advertisement
    card = replace(program, record=record_digest(state))
    if state.intents:
        card = replace(card, intents=tuple(sorted({*state.intents} & {*program.intents})))
    if said is None:
        return card
    versions = tuple(sorted({*said.versions} & {*program.versions}))
    if not versions:
        raise _unsupported(f"a version that the record advertises: {said.versions}", "HEL-03")
    size = min(said.envelope_bytes or program.envelope_bytes, program.envelope_bytes)
    return replace(card, versions=versions, languages=tuple(sorted(said.languages)), envelope_bytes=size)


def check_record(card: Card, chain: Chain, now_ms: int) -> None:
    """The card is that of its sender's record, `chain` at the receiver's newest verified head.

    Raises ProtocolError(ROLLBACK_DETECTED) for the card of an older record, or of none; Unavailable while the
    sender may not have heard of its newest record yet.
    """
    if card.record == record_digest(chain.state):
        return
    shown = [one for one in chain.history if one.state and record_digest(one.state) == card.record]
    if shown and now_ms - _replaced_ms(chain, shown[-1].seq) <= LAG_MS:
        message = f"{chain.handle} has not heard of its newest record yet."
        raise Unavailable(Reason.STALE_HEAD, message, hint="try again")
    what = (
        f"the card of operation {shown[-1].seq} of its record" if shown else "a card that no record of it has"
    )
    raise _rollback(f"{chain.handle} shows {what}; the registry has operation {chain.seq}.")


def pinned(before: Pin | None, hello: Hello) -> Pin:
    """What to remember after a verified HELLO; raises ProtocolError(ROLLBACK_DETECTED)."""
    digest, sender = hello.card.digest, hello.header.sender
    if before is not None and hello.generation < before.generation:
        message = (
            f"{sender} is back at generation {hello.generation} of its card; {before.generation} was seen."
        )
        raise _rollback(message)
    if before is not None and hello.generation == before.generation and digest != before.card_digest:
        raise _rollback(f"{sender} shows another card under generation {hello.generation} than before.")
    expires = max(hello.expires_at_ms, before.expires_at_ms if before else 0)
    return Pin(hello.generation, digest, expires)


def agree(ours: Card, theirs: Card) -> Agreement:
    """What both can do; raises ProtocolError(UNSUPPORTED) that names what is missing."""
    versions = set(ours.versions) & set(theirs.versions)
    if not versions:
        raise _unsupported(
            f"no version of the protocol: {theirs.versions} there, {ours.versions} here", "HEL-03"
        )
    missing = sorted({*ours.required} - {*theirs.features} | {*theirs.required} - {*ours.features})
    if missing:
        raise _unsupported(f"a feature that one side requires: {quoted(missing[0])}", "HEL-04")
    return Agreement(
        max(versions), _common(ours.intents, theirs.intents), _common(ours.features, theirs.features)
    )


def _replaced_ms(chain: Chain, seq: int) -> int:
    """When the record that followed operation `seq` was published."""
    later = (one.time_ms for one in chain.history if one.seq > seq and not one.nullified)
    return next(later, chain.history[-1].time_ms)


def _offer(said: Advertisement) -> tuple[Sequence[object], ...]:
    return said.versions, sorted(said.languages), sorted(said.doors), (said.envelope_bytes, int(said.listed))


def _text(lists: Sequence[Sequence[object]]) -> bytes:
    return "".join(f"{' '.join(map(str, one))}\n" for one in lists).encode("ascii")


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in one if word in other)


def _is_list(words: tuple[str, ...]) -> bool:
    right = all(_WORD.fullmatch(word) and len(word) <= MAX_WORDS for word in words)
    return right and len(words) <= MAX_WORDS and list(words) == sorted(set(words))


def _rollback(message: str) -> ProtocolError:
    hint = "it was restored from a backup, or somebody repeats its past: ask its owner"
    return ProtocolError(Reason.ROLLBACK_DETECTED, message, rule="HEL-02", hint=hint)


def _unsupported(what: str, rule: str) -> ProtocolError:
    return ProtocolError(
        Reason.UNSUPPORTED, f"The two agents lack {what}.", rule=rule, hint="update one of them"
    )

"""Replays what happened to each commitment after the deed: who signed which event, when, and in which order.

Events come from ledgers (a leaf each) and from threads (where the requests are that events grant). Both
sources are one set by message id; the pure rules of `indai.protocol.lifecycle` decide what is legal. A legal
event changes no verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from indai.client.audit.facts import Happened, Held, Ledger, Transcripts
from indai.client.audit.report import Place, Severity, Verdict
from indai.client.audit.signatures import SignatureCheck
from indai.client.audit.succession import Second, seconds
from indai.client.audit.twowords import TwoWords
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.header import MAX_SKEW_MS
from indai.protocol.kinds.table import kind_of
from indai.protocol.lifecycle import History, apply, body_of, committed, deed_of, named_by
from indai.protocol.messages import END_OF_TIME_MS, Message, Terms
from indai.protocol.wire import strict_parse
from indai.v1 import negotiation_pb2

# What a broken rule is called; all others are `event-rule`.
_CHAIN = frozenset({"LIF-03"})
_SIGNERS = frozenset({"LIF-02", "LIF-04"})


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a commitment's life."""

    verdict: Verdict
    check: str
    words: str
    place: Place
    severity: Severity | None = None
    proof: TwoWords | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """A party with the ledger that was supplied for it, its leaf of the commitment, and other exports of
    nodes that it has lived on: a later one of this ledger, or of the one that followed it."""

    handle: str
    ledger: Ledger
    held: Held | None
    others: Sequence[Ledger] = ()

    def event(self, mid: bytes) -> tuple[str, Happened] | None:
        """(origin of the ledger, leaf) of an event that it has recorded."""
        for ledger in (self.ledger, *self.others):
            if found := ledger.events.get((self.handle, mid)):
                return ledger.header.log, found
        return None


class Lives:
    """Everything that was said about commitments after the deed."""

    def __init__(
        self, ledgers: Sequence[Ledger], transcripts: Transcripts, signatures: SignatureCheck
    ) -> None:
        self._signatures = signatures
        self._ledgers = ledgers
        self._said: dict[bytes, dict[bytes, Happened]] = {}
        recorded = [one for ledger in ledgers for one in ledger.events.values()]
        for one in (*recorded, *transcripts.events):
            # By its bytes: one payload may come under a good signature and a bad one.
            self._said.setdefault(body_of(one.message).commitment, {}).setdefault(one.raw, one)
        self._seconds: dict[bytes, list[Second]] = {}
        for second in seconds(ledgers):
            self._seconds.setdefault(second.mid, []).append(second)
        self._bystanders: dict[bytes, list[Happened]] = {}
        for ledger in ledgers:
            for key in ledger.bystanders:
                one = ledger.events[key]
                self._bystanders.setdefault(body_of(one.message).commitment, []).append(one)

    def judge(
        self, offer: Message, parties: Collection[str], holders: Sequence[Holder]
    ) -> tuple[History, list[Flaw]]:
        """The life of the commitment `offer` of these handles as far as it is legal, and what is not."""
        said = self._said.pop(offer.mid, {})
        if not isinstance(offer.body, Terms):
            raise TypeError("a commitment without terms")
        deed = deed_of(offer.mid, offer.parties or (offer.sender, offer.recipient), offer.body)
        flaws: list[Flaw] = []
        intent = kind_of(offer.body).intent
        counted = [one for one in said.values() if self._signed(one, intent, flaws)]
        begun = committed(deed)
        for ledger in self._ledgers:
            for successor in ledger.successors.get(offer.mid, ()):
                if successor.parties == set(deed.parties):
                    begun = named_by(begun, successor.mid, successor.time_ms)
        history, broken = _replay(begun, counted)
        flaws += broken
        for holder in holders:
            flaws += _recorded(history, holder)
        for second in self._seconds.get(offer.mid, ()):
            words = f"{second.owner} had put another in the place of what it replaces: {second.first}."
            flaws.append(Flaw(Verdict.INVALID, "succession", words, second.place))
        for one in self._bystanders.get(offer.mid, ()):
            if one.owner not in parties:
                words = f"{_name(one.message)}: {one.owner}, who recorded it, is no party."
                flaws.append(Flaw(Verdict.INVALID, "content", words, one.place))
        return history, flaws

    def strays(self) -> Iterator[Happened]:
        """Events of commitments that nobody shows; call it when all that are shown were judged."""
        for said in self._said.values():
            yield from said.values()

    def _signed(self, one: Happened, intent: str, flaws: list[Flaw]) -> bool:
        envelope = parse_envelope(one.raw)
        header = strict_parse(negotiation_pb2.Event, envelope.payload).header
        faults = self._signatures.message(envelope, header, one.message.issued_at_ms, intent)
        for fault in faults:
            verdict = Verdict.CONTESTED if fault.contested else Verdict.INVALID
            words = f"{_name(one.message)}: {fault.words}."
            flaws.append(Flaw(verdict, fault.check, words, one.place))
        return all(fault.contested for fault in faults)


def _replay(history: History, said: Sequence[Happened]) -> tuple[History, list[Flaw]]:
    """Apply what was said, in whichever order it follows from itself."""
    flaws: list[Flaw] = []
    raw = {one.message.mid: one.raw for one in said}
    waiting, before = sorted(said, key=_order), -1
    while waiting and len(waiting) != before:
        before, again = len(waiting), []
        for one in waiting:
            try:
                history = apply(history, one.message, END_OF_TIME_MS)
            except ProtocolError as error:
                if error.reason is Reason.OUT_OF_ORDER:
                    again.append(one)
                else:
                    flaws.append(_flaw(history, one, error, raw))
        waiting = again
    for one in waiting:
        body = body_of(one.message)
        gap = body.seq > len(history.chain) + 1
        words = "what comes before it is shown nowhere" if gap else "what it builds on is shown nowhere"
        check = "event-chain" if gap else "event-rule"
        flaws.append(Flaw(Verdict.INVALID, check, f"{_name(one.message)}: {words}.", one.place))
    return history, flaws


def _flaw(history: History, one: Happened, error: ProtocolError, raw: dict[bytes, bytes]) -> Flaw:
    words = f"{_name(one.message)}: {error.message}"
    body = body_of(one.message)
    known = history.chain[body.seq - 1] if 0 < body.seq <= len(history.chain) else None
    if error.rule in _CHAIN and known is not None and one.message.sender == history.sequencer:
        words = f"{_name(one.message)}: another event was signed under the same number."
        proof = TwoWords(raw[known.mid], one.raw)
        return Flaw(Verdict.CONTESTED, "event-chain", words, one.place, Severity.FRAUD, proof)
    if error.rule in _CHAIN:
        check = "event-chain"
    else:
        check = "event-signer" if error.rule in _SIGNERS else "event-rule"
    return Flaw(Verdict.INVALID, check, words, one.place)


def _recorded(history: History, holder: Holder) -> Iterator[Flaw]:
    """A party's ledger holds every numbered event, after the deed and in their order."""
    place = holder.held.place.index if holder.held else None
    last = None if place is None else (holder.ledger.header.log, place)
    for event in history.messages:
        if not body_of(event).seq:
            continue
        recorded = holder.event(event.mid)
        if recorded is None:
            words = f"The ledger of {holder.handle} does not show the {_name(event)}."
            yield Flaw(Verdict.UNCONFIRMED, "event-held", words, Place(holder.ledger.file))
            continue
        log, found = recorded
        if found.time_ms + MAX_SKEW_MS < event.issued_at_ms:
            words = f"{_name(event)}: {holder.handle} recorded it before the time at which it was issued."
            yield Flaw(Verdict.INVALID, "event-rule", words, found.place)
        index = found.place.index
        if last is not None and index is not None and log == last[0] and index < last[1]:
            words = f"{_name(event)}: it stands before what it follows in the ledger of {holder.handle}."
            yield Flaw(Verdict.INVALID, "order", words, found.place)
        if event in history.chain:
            last = None if index is None else (log, index)


def _order(one: Happened) -> tuple[int, int, bytes]:
    return body_of(one.message).seq, one.message.issued_at_ms, one.message.mid


def _name(message: Message) -> str:
    body = body_of(message)
    return f"{body.kind.value} (event {body.seq})" if body.seq else f"Request for {body.kind.value}"

"""Judges each commitment by everything that all supplied ledgers and threads say about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from indai.client.audit.facts import Decided, Held, Ledger, Replay, Said, Transcripts
from indai.client.audit.findings import Findings
from indai.client.audit.lives import Holder, Lives
from indai.client.audit.matter import in_words
from indai.client.audit.registry import KeyHistory
from indai.client.audit.report import CommitmentVerdict, Place, Severity, Verdict
from indai.client.audit.signatures import SignatureCheck
from indai.client.audit.twowords import TwoWords
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.errors import IndaiError
from indai.protocol.group.signing import read
from indai.protocol.header import GRACE_MS
from indai.protocol.leaf import LeafKind
from indai.protocol.lifecycle import History
from indai.protocol.messages import Message, describe
from indai.protocol.wire import strict_parse
from indai.v1 import negotiation_pb2

_LATE_MS = 600_000  # past expiry and grace, before a commitment is flagged
_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}
_SEVERITIES = {
    Verdict.UNOPENED: Severity.OPEN,
    Verdict.INCONCLUSIVE: Severity.OPEN,
    Verdict.UNCONFIRMED: Severity.OPEN,
    Verdict.CONTESTED: Severity.INVALID,
    Verdict.INVALID: Severity.INVALID,
}


@dataclass(slots=True)
class _Case:
    """One commitment while it is judged."""

    mid: bytes
    held: list[Held]
    accepted: list[Held]
    envelope: Envelope
    commitment: negotiation_pb2.Commitment
    verdict: Verdict = Verdict.VALID
    why: list[str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Where it stands first."""
        return (self.held or self.accepted)[0].place

    @property
    def offerer(self) -> negotiation_pb2.Party:
        """The party that decides."""
        return self.commitment.parties[0]


class Judge:
    """Holds what was read; `judge` gives the verdicts, in the order the commitments were found."""

    def __init__(
        self,
        ledgers: list[Ledger],
        transcripts: Transcripts,
        history: KeyHistory | None,
        signatures: SignatureCheck,
        findings: Findings,
    ) -> None:
        self._ledgers, self._transcripts = ledgers, transcripts
        self._history, self._signatures, self._findings = history, signatures, findings
        self._lives = Lives(ledgers, transcripts, signatures)
        self._named: set[tuple[str, int]] = set()
        self.proofs: list[TwoWords] = []

    def judge(self) -> Iterator[CommitmentVerdict]:
        """One verdict for each commitment that a ledger or an unrefused acceptance shows, then the
        unopened ones.
        """
        held: dict[bytes, list[Held]] = {}
        for ledger in self._ledgers:
            for one in ledger.held.values():
                held.setdefault(one.mid, []).append(one)
        for mid in (*self._transcripts.accepted, *self._transcripts.votes):
            if self._transcripts.receipts.get(mid) or not self._transcripts.refusals.get(mid):
                held.setdefault(mid, [])
        for mid, holders in held.items():
            yield self._one(mid, holders)
        for stray in self._lives.strays():
            message = "It is an event of a commitment that is not shown."
            self._findings.add(Severity.OPEN, "event-held", stray.place, message, stray.message.mid)
        yield from self._unopened()

    def _one(self, mid: bytes, held: list[Held]) -> CommitmentVerdict:
        accepted = self._transcripts.accepted.get(mid) or self._transcripts.votes.get(mid, [])
        raw = (held or accepted)[0].raw
        places = tuple(one.place for one in held)
        try:
            envelope = parse_envelope(raw)
            commitment = strict_parse(negotiation_pb2.Commitment, envelope.payload)
            offer = describe(commitment, mid=mid, signatures=1)
            read(commitment, envelope)
        except IndaiError as error:
            self._findings.add(Severity.INVALID, "parties", (held or accepted)[0].place, error.message, mid)
            return CommitmentVerdict(mid.hex(), Verdict.INVALID, why=(error.message,), places=places)
        case = _Case(mid, held, accepted, envelope, commitment)
        self._check_bytes(case)
        receipt = self._check_receipt(case)
        self._check_signatures(case, receipt)
        for party in commitment.parties:
            self._check_party(case, party, receipt)
        history = self._check_life(case, offer, receipt)
        parties = tuple(party.handle for party in commitment.parties)
        return CommitmentVerdict(
            mid.hex(),
            case.verdict,
            parties,
            in_words(commitment),
            tuple(case.why),
            places,
            history.state.value,
            bool(history.disputed),
        )

    def _check_life(self, case: _Case, offer: Message, receipt: Said | None) -> History:
        """What happened after the deed, in every supplied ledger of a party."""
        holders = []
        for party in case.commitment.parties:
            ledger = self._ledger_of_party(party, case, self._time(case, receipt))
            held = ledger.held.get((party.handle, case.mid)) if ledger else None
            if ledger is not None and held is not None:
                holders.append(Holder(party.handle, ledger, held, self._others(party.handle, ledger)))
        handles = [party.handle for party in case.commitment.parties]
        history, flaws = self._lives.judge(offer, handles, holders)
        for flaw in flaws:
            self._fault(case, flaw.verdict, flaw.check, flaw.words, flaw.place, flaw.severity)
            self.proofs += [flaw.proof] if flaw.proof else []
        return history

    def _check_bytes(self, case: _Case) -> None:
        for one in (*case.held, *case.accepted):
            if one.raw != case.envelope.raw:
                message = f"{one.owner} holds other bytes of this commitment than {case.place} has."
                self._fault(case, Verdict.INVALID, "same-bytes", message, one.place)

    def _check_signatures(self, case: _Case, receipt: Said | None) -> None:
        voted = not case.held and case.mid not in self._transcripts.accepted  # then a receipt is missing, too
        if len(case.envelope.signatures) != len(case.commitment.parties) and not voted:
            self._fault(case, Verdict.INVALID, "parties", "Not every party has signed.", case.place)
        if self._history is None:
            message = "No registry was supplied to judge keys by."
            self._fault(case, Verdict.INCONCLUSIVE, "key", message, case.place)
            return
        if case.commitment.header.network != self._history.network:
            message = f"It is a commitment of network {case.commitment.header.network}."
            self._fault(case, Verdict.INVALID, "parties", message, case.place)
        time_ms = self._time(case, receipt)
        for fault in self._signatures.commitment(case.envelope, case.commitment, time_ms):
            verdict = Verdict.CONTESTED if fault.contested else Verdict.INVALID
            self._fault(case, verdict, fault.check, _sentence(fault.words), case.place)
        if time_ms > case.commitment.header.expires_at_ms + GRACE_MS + _LATE_MS:
            message = "It was committed long after the offer's life and grace were over."
            self._fault(case, Verdict.CONTESTED, "late", message, case.place)

    def _time(self, case: _Case, receipt: Said | None) -> int:
        """The time at which its keys are judged: of the offerer's leaf, by receipt or as held, else of
        any leaf.
        """
        if receipt is not None and receipt.receipt is not None:
            return receipt.receipt.leaf_time_ms
        times = [one.time_ms for one in case.held if one.owner == case.offerer.handle]
        return min(times or [one.time_ms for one in (*case.held, *case.accepted)])

    def _check_receipt(self, case: _Case) -> Said | None:
        """The offerer's receipt, checked against the offerer's ledger where that is supplied."""
        said = self._from_offerer(case, self._transcripts.receipts.get(case.mid, []))
        refused = self._from_offerer(case, self._transcripts.refusals.get(case.mid, []))
        if not said:
            message = f"There is no receipt of {case.offerer.handle}, who offered it."
            self._fault(case, Verdict.UNCONFIRMED, "receipt", message, case.place)
            return None
        receipt = said[0]
        others = [other for other in said if other.receipt != receipt.receipt]
        offerer = case.offerer.handle
        for other in (*others, *refused):
            message = f"{offerer} signed two different words on this commitment; one is in {receipt.place}."
            self._fault(case, Verdict.CONTESTED, "contradiction", message, other.place, Severity.FRAUD)
            self.proofs.append(TwoWords(receipt.raw, other.raw))
        self._check_place(case, receipt)
        return receipt

    def _from_offerer(self, case: _Case, said: list[Said]) -> list[Said]:
        return [one for one in said if one.message.sender == case.offerer.subject_id]

    def _check_place(self, case: _Case, said: Said) -> None:
        receipt = said.receipt
        assert receipt is not None  # noqa: S101 - only receipts come here
        if self._history is not None:
            node = self._history.home_node(case.offerer.subject_id, receipt.leaf_time_ms)
            if receipt.log not in {origin for origin, _ in self._history.ledgers(node)}:
                message = f"The receipt names {receipt.log}, no ledger of {case.offerer.handle}'s node."
                self._fault(case, Verdict.INVALID, "receipt-place", message, said.place)
        ledger = self._ledger_of_log(receipt.log, case.offerer.handle, receipt.index)
        if ledger is None:
            return
        self._named.add((receipt.log, receipt.index))
        if receipt.index >= len(ledger.kinds):
            message = f"The export of {receipt.log} is older than the receipt of leaf {receipt.index}."
            self._fault(case, Verdict.UNCONFIRMED, "receipt-place", message, said.place)
            return
        found = (ledger.kinds[receipt.index], ledger.times[receipt.index])
        opened = ledger.at.get(receipt.index)
        wrong = opened is not None and opened != (case.offerer.handle, case.mid)
        if wrong or found != (LeafKind.COMMITMENT, receipt.leaf_time_ms):
            message = f"Leaf {receipt.index} of {receipt.log} is not what the signed receipt says it is."
            self._fault(case, Verdict.INVALID, "receipt-place", message, said.place, Severity.FRAUD)
        elif opened is None:
            message = f"Leaf {receipt.index} of {receipt.log} is not opened."
            self._fault(case, Verdict.UNOPENED, "unopened", message, said.place)

    def _check_party(self, case: _Case, party: negotiation_pb2.Party, receipt: Said | None) -> None:
        """A party whose ledger is supplied holds the commitment, and a decision that permitted it."""
        ledger = self._ledger_of_party(party, case, self._time(case, receipt))
        if ledger is None:
            return
        held = ledger.held.get((party.handle, case.mid))
        if held is None and self._opened_at(ledger, case, receipt) is not False:
            self._not_held(case, party, ledger)
        decided = ledger.decided.get((party.handle, case.mid))
        if decided is None:
            if held is None:
                return  # what this ledger does not hold at all, it need not explain
            hidden = any(ledger.kinds[index] == LeafKind.DECISION for index in ledger.closed)
            verdict = Verdict.UNOPENED if hidden else Verdict.INVALID
            message = f"The ledger of {party.handle} shows no policy decision about this commitment."
            self._fault(case, verdict, "permitted", message, held.place)
            return
        self._check_decision(case, party, decided, held)

    def _not_held(self, case: _Case, party: negotiation_pb2.Party, ledger: Ledger) -> None:
        """A commitment that a ledger does not show, or whose content is erased or withheld there."""
        index = ledger.erasures.get((party.handle, case.mid))
        if index is not None:
            self._named.add((ledger.header.log, index))
            place = Place(ledger.file, 0, index)
            self._fault(case, Verdict.UNOPENED, "unopened", f"{party.handle} has erased it.", place)
            if ledger.erased[index].is_event:
                message = f"{party.handle} erased this commitment, and its export calls it an event."
                self._fault(case, Verdict.INVALID, "erased", message, place)
            return
        if any(ledger.kinds[index] == LeafKind.COMMITMENT for index in ledger.closed):
            message = f"The ledger of {party.handle} does not open all its commitments, this one among them."
            self._fault(case, Verdict.UNOPENED, "unopened", message, case.place)
            return
        message = f"The ledger of {party.handle} does not show this commitment."
        self._fault(case, Verdict.UNCONFIRMED, "held", message, case.place)

    def _opened_at(self, ledger: Ledger, case: _Case, receipt: Said | None) -> bool | None:
        """False when the party's leaf is known by the receipt to be there, unopened; None when nothing
        is known.
        """
        body = receipt.receipt if receipt else None
        if body is None or body.log != ledger.header.log:
            return None
        return body.index not in ledger.closed

    def _check_decision(
        self, case: _Case, party: negotiation_pb2.Party, decided: Decided, held: Held | None
    ) -> None:
        others = {other.handle for other in case.commitment.parties} - {party.handle}
        first = case.commitment.parties[0].handle == party.handle
        if decided.replay is Replay.DIFFERENT:
            message = f"The recorded decision of {party.handle} does not follow from its facts."
            self._fault(case, Verdict.INVALID, "", message, decided.place)
        elif decided.replay is Replay.OPEN:
            message = f"The decision of {party.handle} could not be taken again."
            self._fault(case, Verdict.INCONCLUSIVE, "", message, decided.place)
        if not decided.permitted:
            message = f"{party.handle} signed what its policy did not permit."
            self._fault(case, Verdict.INVALID, "permitted", message, decided.place)
        if decided.peer not in others or not decided.asked.is_about(case.commitment, first=first):
            message = f"{party.handle} decided about something else than what it signed."
            self._fault(case, Verdict.INVALID, "permitted", message, decided.place)
        if held is not None and (decided.place.index or 0) > (held.place.index or 0):
            message = f"{party.handle} committed before it decided."
            self._fault(case, Verdict.INVALID, "order", message, decided.place)

    def _ledger_of_log(self, log: str, owner: str, index: int) -> Ledger | None:
        """Of the exports of a log, the one that tells most about a leaf: opened, else the longest."""
        exports = [one for one in self._ledgers if one.header.log == log and one.shows(owner)]
        return max(exports, key=lambda one: (index in one.at, len(one.kinds)), default=None)

    def _ledger_of_party(self, party: negotiation_pb2.Party, case: _Case, time_ms: int) -> Ledger | None:
        """The supplied ledger that holds what this party commits to, or ought to."""
        shown = [ledger for ledger in self._ledgers if ledger.shows(party.handle)]
        if self._history is None:
            candidates = [one for one in shown if any(owner == party.handle for owner, _ in one.held)]
        else:
            node = self._history.home_node(party.subject_id, time_ms)
            candidates = [one for one in shown if one.header.node == node]
        return max(candidates, key=lambda one: (party.handle, case.mid) in one.held, default=None)

    def _others(self, owner: str, ledger: Ledger) -> list[Ledger]:
        """Further exports that show an owner's leaves, of nodes that it has lived on."""
        homes = {ledger.header.node} | (self._history.homes(owner) if self._history else set())
        shown = (one for one in self._ledgers if one is not ledger and one.shows(owner))
        return [one for one in shown if one.header.node in homes]

    def _unopened(self) -> Iterator[CommitmentVerdict]:
        """Commitments of a whole node's export of which only the leaf is shown."""
        for ledger in self._ledgers:
            for index in sorted(ledger.closed) if not ledger.header.owner else ():
                named = (ledger.header.log, index) in self._named
                if ledger.kinds[index] == LeafKind.COMMITMENT and not named and not _of_other(ledger, index):
                    place = Place(ledger.file, 0, index)
                    message = "The content of this commitment is erased or withheld."
                    self._findings.add(Severity.OPEN, "unopened", place, message)
                    yield CommitmentVerdict("", Verdict.UNOPENED, why=(message,), places=(place,))

    def _fault(
        self,
        case: _Case,
        verdict: Verdict,
        check: str,
        message: str,
        place: Place,
        severity: Severity | None = None,
    ) -> None:
        """Lower the verdict; `check` is empty when the finding was made already."""
        if _RANK[verdict] > _RANK[case.verdict]:
            case.verdict = verdict
        if message not in case.why:
            case.why.append(message)
        if check:
            self._findings.add(severity or _SEVERITIES[verdict], check, place, message, case.mid)


def _of_other(ledger: Ledger, index: int) -> bool:
    """Whether an erased leaf is an event of a commitment that this ledger holds, or held."""
    erased = ledger.erased.get(index)
    if erased is None or not erased.is_event:
        return False
    deed = (erased.owner, erased.about)
    at = ledger.erasures.get(deed)
    return deed in ledger.held or (at is not None and not ledger.erased[at].is_event)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."

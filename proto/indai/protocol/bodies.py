"""What a message says besides wishes and terms: values, without the rules that use them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from indai.protocol.forms import check_text, malformed
from indai.protocol.quoting import quoted

MAX_SENTENCE = 300
MAX_OUTCOME = 4_000

REASON = re.compile(r"[A-Z][A-Z_]{0,39}")


class Move(Enum):
    """One step of a thread."""

    PROPOSE = "PROPOSE"
    COUNTER = "COUNTER"
    OFFER = "OFFER"
    ACCEPT = "ACCEPT"
    RECEIPT = "RECEIPT"
    HOLD = "HOLD"
    REJECT = "REJECT"
    WITHDRAW = "WITHDRAW"
    EVENT = "EVENT"  # after the deed; `indai.protocol.lifecycle` has its rules
    QUERY = "QUERY"  # beside every thread; `indai.protocol.queries` has its rules
    ANSWER = "ANSWER"
    RELAY = "RELAY"  # carries a message that goes to several; no step of a thread by itself


class EventKind(Enum):
    """What happens to a commitment after the deed."""

    FULFIL = "FULFIL"
    CANCEL = "CANCEL"
    SUPERSEDE = "SUPERSEDE"
    EXPIRE = "EXPIRE"
    OVERDUE = "OVERDUE"
    DISPUTE = "DISPUTE"
    POST = "POST"
    VOID = "VOID"
    OMIT = "OMIT"


@dataclass(frozen=True, slots=True)
class ReceiptBody:
    """The commitment `mid` stands at `index` of the offerer's ledger `log`; times in ms.

    `commitment`, of three or more parties: the envelope with every signature, so that the receipt proves it.
    """

    mid: bytes
    log: str
    index: int
    leaf_time_ms: int
    commitment: bytes = b""


@dataclass(frozen=True, slots=True)
class HoldBody:
    """After `deadline_ms` the silence is a refusal."""

    deadline_ms: int


@dataclass(frozen=True, slots=True)
class RejectBody:
    """A reason for machines and a sentence for a person."""

    reason: str
    sentence: str = ""

    def check(self) -> None:
        """NEG-02."""
        if not REASON.fullmatch(self.reason):
            raise malformed("NEG-02", f"A refusal's reason is a name in capitals, not {quoted(self.reason)}")
        check_text("sentence", self.sentence, MAX_SENTENCE)


@dataclass(frozen=True, slots=True)
class WithdrawBody:
    """The mid of the sender's own message that is taken back."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class RelayBody:
    """The exact bytes of an envelope that goes to several."""

    envelope: bytes


@dataclass(frozen=True, slots=True)
class EventBody:
    """One event of `commitment`, or with `seq` 0 the request for one.

    `prev` is the mid of the event before it or of the commitment, `requests` the mids of what the other
    parties asked for and this event grants. `outcome`, of a FULFIL, says what came of it; `time_ms`, of an
    OMIT, when what is left out would have begun.
    """

    commitment: bytes
    kind: EventKind
    seq: int
    prev: bytes
    requests: tuple[bytes, ...] = ()
    reason: str = ""
    sentence: str = ""
    superseded_by: bytes = b""
    posted_minor: int = 0
    outcome: str = ""
    time_ms: int = 0


def check_said(reason: str, sentence: str, outcome: str = "") -> None:
    """Refuse what may not stand in an event; raises ProtocolError(MALFORMED) with LIF-01 or NEG-02."""
    if reason and not REASON.fullmatch(reason):
        raise malformed("LIF-01", f"A reason is a name in capitals, not {quoted(reason)}")
    check_text("sentence", sentence, MAX_SENTENCE)
    check_text("outcome", outcome, MAX_OUTCOME, lines=True)

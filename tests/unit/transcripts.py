"""Messages of a thread between A, who begins it, and B, for tests: no signatures, ids by counting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from indai.protocol.messages import (
    HOUR_MS,
    MINUTE_MS,
    Body,
    HoldBody,
    MeetTerms,
    MeetWish,
    Message,
    Move,
    ReceiptBody,
    RejectBody,
    Window,
    WithdrawBody,
)
from indai.protocol.negotiation import Thread, apply, open_thread

NOW = 1_800_000_000_000
THREAD = b"thread-of-a-to-b"
WISH = MeetWish("Lunch", 30, (Window(NOW + HOUR_MS, NOW + 5 * HOUR_MS),), "Café")


def slot(number: int = 0) -> MeetTerms:
    """The half hour `number` of the wish's window."""
    start_ms = NOW + HOUR_MS + number * 30 * MINUTE_MS
    return MeetTerms(start_ms, start_ms + 30 * MINUTE_MS, "Lunch", "Café", f"uid-{number}")


def wish(number: int, hours: int = 1) -> MeetWish:
    """A wish for one window that begins `number` hours after WISH's and lasts `hours`."""
    start_ms = NOW + (1 + number) * HOUR_MS
    return replace(WISH, windows=(Window(start_ms, start_ms + hours * HOUR_MS),))


@dataclass
class Script:
    """A thread as it grows; every message is applied at NOW, so a rule that is broken raises."""

    thread: Thread | None = None
    count: int = 0
    made: list[Message] = field(default_factory=list)

    def make(self, sender: str, move: Move, body: Body, answers: bytes | None = None) -> Message:
        """A message that answers what stands (or `answers`), without applying it."""
        self.count += 1
        standing = self.thread.standing if self.thread else None
        link = answers if answers is not None else (standing.mid if standing else b"")
        mid = link if move is Move.ACCEPT else self.count.to_bytes(32, "big")
        recipient = "B" if sender == "A" else "A"
        expires_ms = NOW + HOUR_MS
        message = Message(mid, move, sender, recipient, THREAD, link, NOW, expires_ms, body)
        self.made.append(message)
        return message

    def say(self, sender: str, move: Move, body: Body, answers: bytes | None = None) -> Script:
        """Make and apply a message."""
        return self.hear(self.make(sender, move, body, answers))

    def hear(self, message: Message, now_ms: int = NOW) -> Script:
        """Apply a message."""
        self.thread = apply(self.thread, message, now_ms) if self.thread else open_thread(message)
        return self

    @property
    def open(self) -> Thread:
        assert self.thread is not None
        return self.thread


def proposed() -> Script:
    """PROPOSE by A."""
    return Script().say("A", Move.PROPOSE, WISH)


def offered() -> Script:
    """PROPOSE by A, OFFER by B."""
    return proposed().say("B", Move.OFFER, slot())


def accepted() -> Script:
    """PROPOSE by A, OFFER by B, ACCEPT by A."""
    return offered().say("A", Move.ACCEPT, slot())


def receipt(script: Script, mid: bytes | None = None) -> ReceiptBody:
    """The body of a RECEIPT for what stands, or for `mid`."""
    return ReceiptBody(mid or script.open.standing.mid, "node.example/ledger/2027", 7, NOW)


def committed() -> Script:
    """The whole fast path."""
    script = accepted()
    return script.say("B", Move.RECEIPT, receipt(script))


def reject(reason: str = "DECLINED") -> RejectBody:
    return RejectBody(reason, "Not today.")


def hold() -> HoldBody:
    return HoldBody(NOW + HOUR_MS)


def withdraw(mid: bytes) -> WithdrawBody:
    return WithdrawBody(mid)

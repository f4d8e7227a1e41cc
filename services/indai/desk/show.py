"""States, times and money as the pages show them. English words here are keys of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp
from indai.language.formats import day_in_year, money, money_of, number
from indai.language.phrasebook import bound, in_language
from indai.v1 import owner_pb2, policy_pb2
from indai.web.catalog import DRAFTS, Words


@dataclass(frozen=True, slots=True)
class Tag:
    """A word in a pill; `look`: good, bad, warn, accent, or none."""

    text: str
    look: str = ""


STATES: Final = {
    owner_pb2.THREAD_STATE_NEGOTIATING: Tag("negotiating", "accent"),
    owner_pb2.THREAD_STATE_ASKING_OWNER: Tag("waits for you", "warn"),
    owner_pb2.THREAD_STATE_ON_HOLD: Tag("waits for their owner", "accent"),
    owner_pb2.THREAD_STATE_AWAITING_RECEIPT: Tag("awaits the receipt", "accent"),
    owner_pb2.THREAD_STATE_COMMITTED: Tag("agreed", "good"),
    owner_pb2.THREAD_STATE_REJECTED: Tag("refused", "bad"),
    owner_pb2.THREAD_STATE_WITHDRAWN: Tag("withdrawn"),
    owner_pb2.THREAD_STATE_LAPSED: Tag("lapsed"),
    owner_pb2.THREAD_STATE_IN_DOUBT: Tag("in doubt", "warn"),
}
LIVES: Final = {
    owner_pb2.COMMITMENT_STATE_COMMITTED: Tag("stands", "good"),
    owner_pb2.COMMITMENT_STATE_OVERDUE: Tag("overdue", "warn"),
    owner_pb2.COMMITMENT_STATE_FULFILLED: Tag("kept", "good"),
    owner_pb2.COMMITMENT_STATE_CANCELLED: Tag("called off", "bad"),
    owner_pb2.COMMITMENT_STATE_SUPERSEDED: Tag("replaced"),
    owner_pb2.COMMITMENT_STATE_EXPIRED: Tag("ran out", "bad"),
    owner_pb2.COMMITMENT_STATE_PENDING: Tag("payment pending", "warn"),
    owner_pb2.COMMITMENT_STATE_POSTED: Tag("paid", "good"),
    owner_pb2.COMMITMENT_STATE_VOIDED: Tag("not paid", "bad"),
}
ANSWERS: Final = {
    "approved": Tag("you approved", "good"),
    "declined": Tag("you declined"),
    "countered": Tag("you proposed something else"),
}
MESSENGERS: Final = {"whatsapp": "WhatsApp", "telegram": "Telegram", "slack": "Slack"}
OUTCOMES: Final = {
    policy_pb2.OUTCOME_PERMIT: Tag("permitted", "good"),
    policy_pb2.OUTCOME_REFUSE: Tag("refused", "bad"),
    policy_pb2.OUTCOME_ASK: Tag("asks you", "warn"),
}
KINDS: Final = {
    "meet": "Meeting",
    "share": "Sharing",
    "ask": "Question",
    "request": "Request",
    "pay": "Payment",
    "book": "Booking",
}
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Show:
    """Turns values into words for one visitor: their language, their time zone, now (ms)."""

    words: Words
    zone: ZoneInfo
    now_ms: int

    def told(self, text: str) -> str:
        """What our own code has rendered in English, in the visitor's language."""
        return in_language(text, self.words.language)

    def bound(self, text: str) -> str:
        """Terms that an answer binds: where the language is a draft, the English follows."""
        return bound(text, self.words.language)

    def at(self, stamp: Timestamp) -> datetime:
        """In the owner's zone."""
        return datetime.fromtimestamp(stamp.seconds, self.zone)

    def moment(self, stamp: Timestamp) -> str:
        """`Tue 24 Nov, 10:00`, with the year when it is not this one; empty for none."""
        if not stamp.seconds:
            return ""
        at = self.at(stamp)
        year = "" if at.year == datetime.fromtimestamp(self.now_ms / 1000, self.zone).year else f" {at.year}"
        return f"{self.day(at)}{year}, {at:%H:%M}"

    def day(self, at: datetime) -> str:
        """`Tue 24 November`."""
        if self.words.language in DRAFTS:
            return day_in_year(at.date(), self.words.language)
        return f"{self.words(DAYS[at.weekday()])} {at.day} {self.words(MONTHS[at.month - 1])}"

    def number(self, value: int) -> str:
        """As people in India write it: `12,34,567`."""
        return number(value)

    def cost(self, micros: int, currency: str) -> str:
        """An amount in millionths of a currency, to its smallest coin; a number alone without a currency."""
        if not currency:
            return number(Decimal(micros) / 10**6)
        return money_of(micros, currency, self.words.language)

    def money(self, minor: int, currency: str) -> str:
        """An amount in minor units: `₹2,500.50`."""
        return money(minor, currency, self.words.language)

    def span(self, start: Timestamp, end: Timestamp) -> str:
        """`Tue 24 November, 10:00–10:30`; empty for none."""
        if not start.seconds:
            return ""
        first, last = self.at(start), self.at(end)
        until = f"{last:%H:%M}" if first.date() == last.date() else self.moment(end)
        return f"{self.moment(start)}–{until}"

    def left(self, stamp: Timestamp) -> str:
        """How long until then, in words."""
        minutes = max(0, stamp.seconds * 1000 - self.now_ms) // 60_000
        if minutes < 60:
            return self.words("{n} minutes left", n=minutes)
        if minutes < 48 * 60:
            return self.words("{n} hours left", n=minutes // 60)
        return self.words("{n} days left", n=minutes // 1440)

    def clock(self, since: Timestamp, due: Timestamp) -> str:
        """How long somebody has waited, and how long there is to answer them, in words."""
        late = due.seconds * 1000 <= self.now_ms
        return f"{self.waited(since)} · {self.words('late') if late else self.left(due)}"

    def late(self, due: Timestamp) -> bool:
        """Whether it ought to have been done by now."""
        return bool(due.seconds) and due.seconds * 1000 <= self.now_ms

    def waited(self, stamp: Timestamp) -> str:
        """How long somebody has waited since then, in words."""
        minutes = max(0, self.now_ms - stamp.seconds * 1000) // 60_000
        if minutes < 120:
            return self.words("waits for {n} minutes", n=minutes)
        return self.words("waits for {n} hours", n=minutes // 60)

    def kind(self, kind: str) -> str:
        """What sort of intent."""
        return self.words(KINDS.get(kind, kind))

    def tag(self, thread: owner_pb2.Thread) -> Tag:
        """Where a thread is: what became of the commitment, once there is one."""
        found = LIVES.get(thread.commitment_state) or STATES.get(thread.state, Tag("unknown"))
        return Tag(self.words(found.text), found.look)

    def answer(self, said: str) -> Tag:
        """What an owner said to a question."""
        found = ANSWERS.get(said, Tag("unknown"))
        return Tag(self.words(found.text), found.look)

    def chat(self, channel: str) -> str:
        """Where an owner answered who did in a conversation; a messenger by its name."""
        said = self.words("in a chat")
        return f"{said} · {MESSENGERS[channel]}" if channel in MESSENGERS else said

    def outcome(self, outcome: int) -> Tag:
        """What the policy said."""
        found = {int(key): tag for key, tag in OUTCOMES.items()}.get(outcome, Tag("not asked"))
        return Tag(self.words(found.text), found.look)

    def known(self, since: Timestamp, agreed: int) -> str:
        """How well a peer is known."""
        days = (self.now_ms - since.seconds * 1000) // 86_400_000 if since.seconds else 0
        if not agreed and days < 1:
            return self.words("New here: nothing was agreed with them before")
        if days < 1:
            return self.words("Known since today, {n} agreements", n=agreed)
        return self.words("Known for {days} days, {n} agreements", days=days, n=agreed)

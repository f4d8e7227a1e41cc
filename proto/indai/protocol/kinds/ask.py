"""`ask`: a question with its answer, and `request`: something an office will do by a certain time.

The one who answers, or will do it, offers. A question is settled at the deed: nothing is left to do. A
request is filed at the deed, its stages are read by QUERY, and a FULFIL says what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from indai.protocol.forms import check_moment, check_name, check_text, check_token, malformed
from indai.protocol.kinds.base import Kind, Life, Terms, Wish
from indai.v1 import intents_pb2

MAX_QUESTION = 1_000
MAX_ANSWER = 4_000
MAX_SOURCES = 16
MAX_SOURCE_TITLE = 200
MAX_URI = 500
MAX_SUBJECT = 200
MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Source:
    """Where an answer comes from."""

    title: str
    uri: str = ""


@dataclass(frozen=True, slots=True)
class AskWish(Wish):
    """A question; `topic` is for the other side's rules."""

    kind: ClassVar[str] = "ask"
    pb = intents_pb2.AskWish
    question: str
    topic: str = ""

    def about(self) -> str:
        """The question."""
        return self.question

    def check(self) -> None:
        """NEG-02 or ASK-01."""
        check_text("question", self.question, MAX_QUESTION, required=True, lines=True)
        check_name("ASK-01", "topic", self.topic, MAX_NAME, required=False)

    def admits(self, terms: Terms) -> bool:
        """Whether just this is answered."""
        return isinstance(terms, AskTerms) and (terms.question, terms.topic) == (self.question, self.topic)

    def gist(self) -> tuple[object, ...]:
        """The question."""
        return "question", self.question

    def to_pb(self) -> intents_pb2.AskWish:
        """As it is signed."""
        return intents_pb2.AskWish(question=self.question, topic=self.topic)

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        return cls(pb.question, pb.topic)


@dataclass(frozen=True, slots=True)
class AskTerms(Terms):
    """The first party's answer, with its sources, and how sure it is in percent."""

    kind: ClassVar[str] = "ask"
    pb = intents_pb2.AskTerms
    question: str
    topic: str
    answer: str
    sources: tuple[Source, ...] = ()
    confidence_percent: int = 0

    def about(self) -> str:
        """The question."""
        return self.question

    def check(self) -> None:
        """NEG-02 or ASK-01."""
        AskWish(self.question, self.topic).check()
        check_text("answer", self.answer, MAX_ANSWER, required=True, lines=True)
        if len(self.sources) > MAX_SOURCES:
            raise malformed("ASK-01", f"An answer has at most {MAX_SOURCES} sources")
        for source in self.sources:
            check_text("source", source.title, MAX_SOURCE_TITLE, required=True)
            check_token("ASK-01", "source's address", source.uri, MAX_URI, required=False)
        if not 0 <= self.confidence_percent <= 100:
            raise malformed("ASK-01", f"A confidence is 0 to 100 percent, not {self.confidence_percent}")

    def gist(self) -> tuple[object, ...]:
        """The answer."""
        return "answer", self.question, self.answer

    def life(self) -> Life:
        """Over at the deed."""
        return Life(0, 0, 0, done=True)

    def to_pb(self) -> intents_pb2.AskTerms:
        """As it is signed."""
        return intents_pb2.AskTerms(
            question=self.question,
            topic=self.topic,
            answer=self.answer,
            sources=[intents_pb2.Source(title=source.title, uri=source.uri) for source in self.sources],
            confidence_percent=self.confidence_percent,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        sources = tuple(Source(source.title, source.uri) for source in pb.sources)
        return cls(pb.question, pb.topic, pb.answer, sources, pb.confidence_percent)


@dataclass(frozen=True, slots=True)
class RequestWish(Wish):
    """Something the other side is asked to do, at best by `wanted_by_ms` (0: no time was said)."""

    kind: ClassVar[str] = "request"
    pb = intents_pb2.RequestWish
    subject: str
    text: str
    category: str
    department: str = ""
    wanted_by_ms: int = 0

    def about(self) -> str:
        """Its subject."""
        return self.subject

    def check(self) -> None:
        """NEG-02 or ASK-02."""
        check_text("subject", self.subject, MAX_SUBJECT, required=True)
        check_text("request", self.text, MAX_ANSWER, lines=True)
        check_name("ASK-02", "category", self.category, MAX_NAME)
        check_name("ASK-02", "department", self.department, MAX_NAME, required=False)
        if self.wanted_by_ms:
            check_moment("ASK-02", "The time it is wanted by", self.wanted_by_ms)

    def admits(self, terms: Terms) -> bool:
        """Whether it is filed as it was asked; the office chooses what was left open, and the time."""
        return (
            isinstance(terms, RequestTerms)
            and (terms.subject, terms.text, terms.category) == (self.subject, self.text, self.category)
            and self.department in ("", terms.department)
        )

    def gist(self) -> tuple[object, ...]:
        """All but the time."""
        return "request", self.subject, self.text, self.category, self.department

    def to_pb(self) -> intents_pb2.RequestWish:
        """As it is signed."""
        return intents_pb2.RequestWish(
            subject=self.subject,
            text=self.text,
            category=self.category,
            department=self.department,
            wanted_by_ms=self.wanted_by_ms,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        return cls(pb.subject, pb.text, pb.category, pb.department, pb.wanted_by_ms)


@dataclass(frozen=True, slots=True)
class RequestTerms(Terms):
    """A request filed under `reference`; the first party's `department` has resolved it by `due_ms`."""

    kind: ClassVar[str] = "request"
    pb = intents_pb2.RequestTerms
    subject: str
    text: str
    category: str
    department: str
    reference: str
    due_ms: int

    def about(self) -> str:
        """Its subject."""
        return self.subject

    def check(self) -> None:
        """NEG-02 or ASK-02."""
        RequestWish(self.subject, self.text, self.category, self.department).check()
        check_name("ASK-02", "department", self.department, MAX_NAME)
        check_token("ASK-02", "reference", self.reference, MAX_NAME)
        check_moment("ASK-02", "The due time", self.due_ms)

    def gist(self) -> tuple[object, ...]:
        """Who does it until when: another number is no new offer."""
        return "filed", self.subject, self.department, self.due_ms

    def life(self) -> Life:
        """Taken back by one side alone until it is due; owners are reminded of that time."""
        return Life(self.due_ms, 0, self.due_ms, self.due_ms)

    def sign_by_ms(self) -> int:
        """Its due time."""
        return self.due_ms

    def to_pb(self) -> intents_pb2.RequestTerms:
        """As it is signed."""
        return intents_pb2.RequestTerms(
            subject=self.subject,
            text=self.text,
            category=self.category,
            department=self.department,
            reference=self.reference,
            due_ms=self.due_ms,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        return cls(pb.subject, pb.text, pb.category, pb.department, pb.reference, pb.due_ms)


ASK = Kind("ask", "ask", AskWish, AskTerms, "answer", "was given", opens=False)
REQUEST = Kind("request", "ask", RequestWish, RequestTerms, "request", "was resolved", opens=False)

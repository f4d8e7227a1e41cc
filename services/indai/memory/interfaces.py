"""The values that the parts of this package hand each other, and what an embedding model must do.

`search` reads candidates, `ranking` orders and packs them; jobs give turns to an extractor and store the
facts that come back. Times are ms since the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

Json = str | int | float | bool | None | list[Any] | dict[str, Any]


class Role(StrEnum):
    """Who said a turn. Nothing is ever extracted from SYSTEM, TOOL or RECALLED."""

    PERSON = "person"
    AGENT = "agent"
    SYSTEM = "system"
    TOOL = "tool"
    RECALLED = "recalled"


class Kind(StrEnum):
    """What a chunk is."""

    TURN = "turn"
    SUMMARY = "summary"
    DOCUMENT = "document"
    COMMITMENT = "commitment"
    FACT = "fact"


class Trust(StrEnum):
    """Whose word it is: the owner's own, one of a proved identity, or anybody's."""

    OWNER = "owner"
    VERIFIED = "verified"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said. `speaker` is a name or a handle; `source_id` names it once in its scope."""

    source_id: str
    speaker: str
    role: Role
    text: str
    said_ms: int
    session: str = ""


@dataclass(frozen=True, slots=True)
class ExtractionContext:
    """What an extractor may know besides the turn: who the memory is about, whose it is, the language they
    last wrote, the turns before (oldest first), and the facts that hold now by key."""

    person: str = ""
    owner: str = ""
    language: str = ""
    time_zone: str = "UTC"
    before: Sequence[Turn] = ()
    known: Sequence[Fact] = ()


@dataclass(frozen=True, slots=True)
class Triple:
    """An edge of the relations graph, as it was said."""

    subject: str
    predicate: str
    object: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that holds: a dotted key (`preference.food.like`), its value, since when and until when.

    `confidence` 0 to 1; below 0.6 it waits for a second mention. `valid_from_ms` 0: since it was said.
    `valid_to_ms` 0: until further notice. `relation`, where the fact is an edge between two things.
    """

    key: str
    value: Json
    confidence: float
    language: str = ""
    valid_from_ms: int = 0
    valid_to_ms: int = 0
    relation: Triple | None = None

    @property
    def canonical(self) -> str:
        """The value as the one text that equal values share."""
        return json.dumps(self.value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class Extractor(Protocol):
    """Finds facts in what a person or the agent said."""

    name: str

    async def extract(self, turn: Turn, context: ExtractionContext) -> list[Fact]:
        """The facts of one turn. Raises Unavailable when it can't be done now; the job comes again."""
        ...


class Embedder(Protocol):
    """A model that turns texts into vectors. Its work runs off the event loop."""

    model: str
    width: int

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        """One vector of `width` numbers for each text; what marks a query is the model's business."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that the lexical leg, the vector leg or a neighbour brought up, with its raw signals.

    `lexical` is BM25 (0: no term in common), `similarity` the cosine (None: no vector). Turns of one session
    are neighbours when their `place` differs by little. `scope` and `kind` for labels. `said_ms`: when it was
    said or written. `importance` 0 to 1 (0.5: nothing known).
    """

    id: UUID
    scope: UUID
    kind: Kind
    text: str
    lexical: float
    similarity: float | None
    speaker: str = ""
    role: Role = Role.PERSON
    session: str = ""
    place: int = 0
    said_ms: int = 0
    importance: float = 0.5
    origin: str = ""
    trust: Trust = Trust.OWNER
    matched: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search asks for besides the query's text. `speaker` is a boost, never a filter; a span of time
    as well (0: open). `asks_when`: the answer is a time, so what names one is preferred."""

    now_ms: int
    speaker: str = ""
    from_ms: int = 0
    to_ms: int = 0
    asks_when: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A candidate with its final score, and why it was found: each signal's part of the score by name."""

    candidate: Candidate
    score: float
    why: dict[str, float]


# What `lexical`, `ranking` and `extraction` offer to the service:
#
#   lexical.terms(text) -> list[str]               every term in order, repeats kept (they are counted)
#   lexical.query_terms(text) -> dict[str, float]  each term of a query once, with its weight
#   ranking.K1, ranking.B                          of BM25; the database computes it with these
#   ranking.rank(candidates, wanted, weights) -> list[Hit]        best first, near-duplicates merged
#   ranking.pack(hits, budget_tokens) -> list[Hit]                what fits
#   ranking.weights_for(model) -> Weights          calibrated for each embedding model; "" is lexical alone
#   extraction.DeterministicExtractor              an Extractor
#   extraction.contradicts(old, new) -> bool       whether `new` ends the validity of `old`

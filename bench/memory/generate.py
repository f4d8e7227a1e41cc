"""Writes the generated set for `indai memory bench`: `python -m bench.memory.generate`.

Pairs of friends talk in English, Hindi and romanised Hindi about the topics of `topics.txt`, among small
talk and remarks on the same subject; often both speak of one topic, so that who said it matters.
Conversations to tune on and to score have no topic in common. The same seed writes the same bytes.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SEED = 20260101
SESSIONS = 6
LANGUAGES = ("en", "hi", "hg")
PAIRS = (
    ("Asha/आशा", "Meera/मीरा"),
    ("Kavya/काव्या", "Sana/सना"),
    ("Divya/दिव्या", "Rukmini/रुक्मिणी"),
    ("Pooja/पूजा", "Maria/मारिया"),
    ("Neha/नेहा", "Ishita/इशिता"),
    ("Lakshmi/लक्ष्मी", "Ayesha/आयशा"),
)
Lines = dict[str, list[str]]


@dataclass
class Topic:
    """One thing to talk about: its lines by role and language, its values as (Latin, Devanagari)."""

    split: str
    category: str
    name: str
    values: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    lines: dict[str, Lines] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def line(self, role: str, language: str, rng: random.Random) -> tuple[str, str] | None:
        """A line for a role in a language, or in one that has it: (language, text)."""
        there = self.lines[role]
        chosen = language if there[language] else next((other for other in LANGUAGES if there[other]), "")
        return (chosen, rng.choice(there[chosen])) if chosen else None


@dataclass
class Saying:
    """Turns that stay together, and which of them answer which question."""

    turns: list[tuple[int, str, str]]
    mark: str = ""


def main() -> None:
    """Write the file beside this one."""
    (HERE / "set.json").write_text(document(), "utf-8")


def document() -> str:
    """The whole file."""
    topics, fill = read(HERE / "topics.txt")
    rng = random.Random(SEED)
    conversations = [
        Conversation(
            f"{split}-{number}", split, pair, [t for t in topics if t.split == split], fill, rng
        ).build()
        for split in ("tune", "score", "fresh")
        for number, pair in enumerate(PAIRS, 1)
    ]
    written = {"format": "indai-memory-bench/1", "conversations": conversations}
    return json.dumps(written, ensure_ascii=False, indent=1) + "\n"


def read(path: Path) -> tuple[list[Topic], Lines]:
    """The topics and the small talk of `topics.txt`."""
    topics: list[Topic] = []
    fill: Lines = defaultdict(list)
    filling = False
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("== "):
            split, *rest = line[3:].split()
            filling = split == "fill"
            if not filling:
                category, name = rest
                topics.append(Topic(split, category, name))
        elif filling and line:
            language, text = line.split(" ", 1)
            fill[language].append(text)
        elif line[:2] in ("x ", "y "):
            topics[-1].values[line[0]] = _values(line[2:])
        elif line and not line.startswith("#"):
            role, language, text = line.split(" ", 2)
            topics[-1].lines[role][language].append(text)
    return topics, fill


def _values(text: str) -> list[tuple[str, str]]:
    """`Black tea/काली चाय Goa/गोवा` as pairs: a pair ends where Latin letters start again after
    Devanagari."""
    pairs: list[tuple[str, str]] = []
    latin: list[str] = []
    devanagari: list[str] = []
    for word in text.split():
        if devanagari and word[0].isascii():
            pairs.append((" ".join(latin), " ".join(devanagari)))
            latin, devanagari = [], []
        head, slash, tail = word.partition("/")
        if slash:
            latin.append(head)
            devanagari.append(tail)
        else:
            (devanagari if devanagari else latin).append(word)
    return [*pairs, (" ".join(latin), " ".join(devanagari))]


class Conversation:
    """One pair's half year."""

    def __init__(
        self,
        name: str,
        split: str,
        pair: tuple[str, str],
        topics: list[Topic],
        fill: Lines,
        rng: random.Random,
    ) -> None:
        self._name, self._split, self._topics, self._fill, self._rng = name, split, topics, fill, rng
        self._people = [tuple(person.split("/")) for person in pair]
        # A person mostly keeps to one language, as people do.
        self._habits = rng.sample(LANGUAGES, 2)
        self._sessions: list[list[Saying]] = [[] for _ in range(SESSIONS)]
        self._questions: list[dict[str, Any]] = []

    def build(self) -> dict[str, Any]:
        """The conversation as the bench's format has it."""
        for topic in self._topics:
            first = self._rng.randrange(2)
            self._place(topic, first)
            if self._rng.random() < 0.6:
                self._place(topic, 1 - first)
            self._distract(topic)
        turns, marks = self._spoken()
        for question in self._questions:
            question["evidence"] = [marks[mark] for mark in question["evidence"]]
        return {"id": self._name, "group": self._split, "turns": turns, "questions": self._questions}

    def _language(self, person: int) -> str:
        return self._habits[person] if self._rng.random() < 0.7 else self._rng.choice(LANGUAGES)

    def _place(self, topic: Topic, person: int) -> None:
        values = {slot: self._rng.choice(options) for slot, options in topic.values.items()}
        early, late = sorted(self._rng.sample(range(SESSIONS), 2))
        language = self._language(person)
        mark = f"{topic.name}{person}"
        said = self._statement(topic, person, language, values, mark)
        evidence, spoken = [mark], [said[1]]
        self._sessions[early if topic.category != "single" else self._rng.choice((early, late))].append(
            said[0]
        )
        for role in ("t", "n"):
            line = topic.line(role, language, self._rng)
            if line is not None:
                later = f"{mark}{role}"
                text = _filled(line[1], line[0], values)
                self._sessions[late].append(Saying([(person, text, line[0])], later))
                evidence = [*evidence, later] if role == "t" else [later]
                spoken.append(line[0])
        self._ask(topic, person, evidence, spoken[-1])

    def _statement(
        self, topic: Topic, person: int, language: str, values: dict[str, tuple[str, str]], mark: str
    ) -> tuple[Saying, str]:
        turns = []
        prompt = topic.line("p", language, self._rng)
        if prompt is not None:
            turns.append((1 - person, prompt[1], ""))
        line = topic.line("s", language, self._rng) or topic.line("a", language, self._rng)
        if line is None:
            raise ValueError(f"topic {topic.name} says nothing")
        turns.append((person, _filled(line[1], line[0], values), "*"))
        remark = topic.line("r", self._language(1 - person), self._rng)
        if remark is not None and self._rng.random() < 0.7:
            turns.append((1 - person, remark[1], ""))
        return Saying(turns, mark), line[0]

    def _ask(self, topic: Topic, person: int, evidence: list[str], spoken: str) -> None:
        language = self._rng.choice(LANGUAGES)
        line = topic.line("q", language, self._rng)
        if line is None:
            raise ValueError(f"topic {topic.name} asks nothing")
        name = self._people[person][1 if line[0] == "hi" else 0]
        tags = ["same language" if line[0] == spoken else f"{line[0]} asks {spoken}"]
        self._questions.append(
            {
                "question": line[1].replace("{W}", name),
                "evidence": evidence,
                "category": topic.category,
                "tags": tags,
            }
        )

    def _distract(self, topic: Topic) -> None:
        for lines in list(topic.lines["d"].values()):
            for text in lines:
                person = self._rng.randrange(2)
                self._rng.choice(self._sessions).append(Saying([(person, text, "")]))

    def _spoken(self) -> tuple[list[dict[str, str]], dict[str, str]]:
        turns: list[dict[str, str]] = []
        marks: dict[str, str] = {}
        start = datetime(2025, 1, 4, 9, tzinfo=UTC)
        for session, sayings in enumerate(self._sessions, 1):
            start += timedelta(days=self._rng.randrange(12, 33), minutes=self._rng.randrange(600))
            for saying in self._with_small_talk(sayings):
                for person, text, star in saying.turns:
                    number = sum(turn["session"] == str(session) for turn in turns) + 1
                    said = start + timedelta(seconds=50 * number)
                    turns.append(
                        {
                            "id": f"{session}:{number}",
                            "session": str(session),
                            "speaker": self._people[person][0],
                            "time": said.isoformat().replace("+00:00", "Z"),
                            "text": text,
                        }
                    )
                    if saying.mark and (star == "*" or len(saying.turns) == 1):
                        marks[saying.mark] = turns[-1]["id"]
            start = start.replace(hour=9, minute=0)
        return turns, marks

    def _with_small_talk(self, sayings: list[Saying]) -> list[Saying]:
        mixed = list(sayings)
        for _ in range(10):
            person = self._rng.randrange(2)
            mixed.append(Saying([(person, self._rng.choice(self._fill[self._language(person)]), "")]))
        self._rng.shuffle(mixed)
        return mixed


def _filled(text: str, language: str, values: dict[str, tuple[str, str]]) -> str:
    for slot, (latin, devanagari) in values.items():
        text = text.replace(f"{{{slot}}}", devanagari if language == "hi" else latin)
    return text


if __name__ == "__main__":
    main()

"""Reads the files of `indai memory bench`: our own format (docs/memory-bench.md) and LoCoMo's
(arXiv:2402.17753).

Forgiving on purpose, since published sets are: what is missing gets a plain default, evidence that names no
turn is counted and left out, a question without evidence is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from indai.protocol.errors import InvalidInput, Reason

FORMAT = "indai-memory-bench/1"
_LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TIME_FORMATS = ("%I:%M %p on %d %B, %Y", "%I:%M %p on %B %d, %Y", "%d %B, %Y", "%d %B %Y", "%B %d, %Y")
# A set without times still has an order.
_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000


@dataclass(frozen=True, slots=True)
class BenchTurn:
    """One thing that was said; `place` is its position in its session."""

    id: str
    session: str
    place: int
    speaker: str
    said_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids of the turns that answer it."""

    text: str
    evidence: tuple[str, ...]
    category: str
    tags: tuple[str, ...] = ()
    asked_ms: int = 0


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, and what is asked about them. `group`: weights for it are tuned on other groups."""

    id: str
    group: str
    turns: tuple[BenchTurn, ...]
    questions: tuple[Question, ...]
    skipped: int = 0


def load(path: Path) -> list[Conversation]:
    """The conversations of a file. Raises InvalidInput where there are none."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f'The file "{path}" cannot be read.') from error
    except ValueError as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f'The file "{path}" is not JSON.', hint="see docs/memory-bench.md"
        ) from error
    given = document.get("conversations") if isinstance(document, dict) else document
    samples = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    found = [_conversation(sample, number) for number, sample in enumerate(samples, 1)]
    found = [conversation for conversation in found if conversation.turns]
    if not found:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f'The file "{path}" holds no conversation with turns.',
            hint="see docs/memory-bench.md for the format",
        )
    return found


def _conversation(sample: Mapping[str, Any], number: int) -> Conversation:
    talk = sample.get("conversation")
    turns = _locomo_turns(talk) if isinstance(talk, dict) else _turns(_list(sample.get("turns")))
    known = {turn.id for turn in turns}
    asked = _list(sample.get("questions")) or _list(sample.get("qa"))
    read = [_question(question, known) for question in asked]
    questions = tuple(question for question in read if question is not None)
    name = str(sample.get("id") or sample.get("sample_id") or number)
    return Conversation(name, str(sample.get("group") or ""), turns, questions, len(read) - len(questions))


def _turns(items: Iterable[Mapping[str, Any]]) -> tuple[BenchTurn, ...]:
    turns: list[BenchTurn] = []
    places: dict[str, int] = {}
    before = int(_EPOCH.timestamp() * 1000)
    for number, item in enumerate(items, 1):
        session = str(item.get("session") or "1")
        places[session] = places.get(session, 0) + 1
        before = _time_ms(item.get("time")) or before + _MINUTE_MS
        text = " ".join(str(item[name]) for name in ("text", "image") if item.get(name))
        name = str(item.get("id") or number)
        turns.append(BenchTurn(name, session, places[session], str(item.get("speaker") or ""), before, text))
    return tuple(turns)


def _locomo_turns(talk: Mapping[str, Any]) -> tuple[BenchTurn, ...]:
    numbers = sorted(int(m.group(1)) for key in talk if (m := re.fullmatch(r"session_(\d+)", key)))
    flat: list[dict[str, Any]] = []
    start = int(_EPOCH.timestamp() * 1000)
    for number in numbers:
        start = _time_ms(talk.get(f"session_{number}_date_time")) or start + _DAY_MS
        for place, item in enumerate(_list(talk[f"session_{number}"]), 1):
            image = item.get("blip_caption")
            flat.append(
                {
                    "id": item.get("dia_id") or f"D{number}:{place}",
                    "session": str(number),
                    "speaker": item.get("speaker"),
                    "time": start + place * _MINUTE_MS,
                    "text": item.get("text"),
                    "image": f"[shares {image}]" if image else "",
                }
            )
    return _turns(flat)


def _question(item: Mapping[str, Any], known: set[str]) -> Question | None:
    text = str(item.get("question") or "").strip()
    evidence = tuple(dict.fromkeys(name for name in _evidence(item.get("evidence")) if name in known))
    if not text or not evidence:
        return None
    category = item.get("category")
    label = (
        _LOCOMO_CATEGORIES.get(category, str(category))
        if isinstance(category, int)
        else str(category or "all")
    )
    tags = tuple(str(tag) for tag in item.get("tags") or ())
    return Question(text, evidence, label, tags, _time_ms(item.get("time")) or 0)


def _evidence(given: Any) -> list[str]:
    """Ids, also where one string holds several, as in some published files."""
    items = given if isinstance(given, list) else [given]
    names: list[str] = []
    for item in items:
        if isinstance(item, str | int):
            names += [part for part in re.split(r"[;,\s]+", str(item)) if part]
    return names


def _time_ms(given: Any) -> int | None:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return int(given)
    if not isinstance(given, str):
        return None
    try:
        return _ms(datetime.fromisoformat(given))
    except ValueError:
        pass
    for pattern in _TIME_FORMATS:
        try:
            return _ms(datetime.strptime(given.strip().upper(), pattern))  # noqa: DTZ007 - made UTC below
        except ValueError:
            continue
    return None


def _ms(moment: datetime) -> int:
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _list(given: Any) -> list[Any]:
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []

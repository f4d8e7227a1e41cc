"""What a person asks for, by rule: an intent with its slots, or nothing. Pure.

`understand` is the seam: it sees the last message and gives an `Understood`, whose slots are words and plain
values, never a tool's own names. `indai.llm.local.provider` maps them onto whatever tools there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Slot = str | int


@dataclass(frozen=True, slots=True)
class Understood:
    """An intent (`meet`, `greet`, `thank`) and what was said about it: `person`, `minutes`, `when`."""

    intent: str
    slots: dict[str, Slot] = field(default_factory=dict)


_MEET = re.compile(
    r"\b(set ?up|schedule|arrange|book|fix|plan|have|need|want)\b.*?"
    r"(\b(meeting|meet|call|chat|sync|catch[- ]?up)\b|\b\d+\s*(min|minute|hour|hr)s?\b)"
    r"|\bmeet(ing)? with\b|^\s*meet\b|\bmeeting\b.*\b(rakh|karo|kar do|fix)|मीटिंग|मुलाकात",
    re.IGNORECASE,
)
_GREET = re.compile(r"^\s*(hi|hello|hey|namaste|namaskar|vanakkam|नमस्ते|வணக்கம்)\b[\s!.,]*$", re.IGNORECASE)
_THANK = re.compile(r"^\s*(thanks|thank you|dhanyavaad|shukriya|धन्यवाद|शुक्रिया)\b.*$", re.IGNORECASE)
_HANDLE = re.compile(r"\b([a-z0-9-]+(?:\.[a-z0-9-]+)+/[a-z0-9_-]+)\b", re.IGNORECASE)
_PERSON = re.compile(
    r"\bwith\s+([^\W\d_][\w.-]*)|([^\W\d_][\w.-]*)\s+(?:ke saath|ke sath|se)\b|([^\W\d_]+) के साथ",
    re.IGNORECASE,
)
_MINUTES = re.compile(r"\b(\d{1,3})\s*(?:m|min|mins|minute|minutes)\b", re.IGNORECASE)
_HOURS = re.compile(r"\b(\d(?:\.5)?|an?|half an)\s*(?:h|hr|hrs|hour|hours|ghanta|ghante)\b", re.IGNORECASE)
_WHEN = re.compile(
    r"\b(today|tomorrow|tonight|this week|next week|this month"
    r"|(?:on |next )?(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|aaj|kal|parso|is hafte|agle hafte)\b|(इस हफ्ते|आज|कल)",
    re.IGNORECASE,
)
_HOUR_WORDS = {"a": 60, "an": 60, "half an": 30}


def understand(text: str) -> Understood | None:
    """The intent of a message; None when no rule knows it."""
    if _GREET.match(text):
        return Understood("greet")
    if _THANK.match(text):
        return Understood("thank")
    if _MEET.search(text):
        return Understood("meet", _slots(text))
    return None


def _slots(text: str) -> dict[str, Slot]:
    found: dict[str, Slot] = {}
    if person := _person(text):
        found["person"] = person
    if minutes := _minutes(text):
        found["minutes"] = minutes
    if when := _WHEN.search(text):
        found["when"] = next(group for group in when.groups() if group).lower()
    return found


def _person(text: str) -> str:
    if handle := _HANDLE.search(text):
        return handle[1].lower()
    named = _PERSON.search(text)
    return next((group for group in named.groups() if group), "").strip(".") if named else ""


def _minutes(text: str) -> int:
    if minutes := _MINUTES.search(text):
        return int(minutes[1])
    if hours := _HOURS.search(text):
        word = hours[1].lower()
        return _HOUR_WORDS[word] if word in _HOUR_WORDS else round(float(word) * 60)
    return 0

"""What a form that asks for a meeting offers: on a public page, and at the desk of whose agent asks."""

from __future__ import annotations

from typing import Final

LENGTHS: Final = (15, 30, 45, 60)
DAYS: Final = (
    "tomorrow",
    "this week",
    "next week",
    "next monday",
    "next tuesday",
    "next wednesday",
    "next thursday",
    "next friday",
)
PARTS: Final = ("", "morning", "afternoon", "evening")


def misfits(minutes: str, when: str, time: str) -> dict[str, str]:
    """What is wrong with these fields, by their names; nothing when the form could have sent them."""
    wrong: dict[str, str] = {}
    if minutes not in map(str, LENGTHS):
        wrong["minutes"] = f"one of {', '.join(map(str, LENGTHS))}"
    if when not in DAYS or time not in PARTS:
        wrong["when"] = "choose one of the list"
    return wrong

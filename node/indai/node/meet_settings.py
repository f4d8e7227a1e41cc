"""What owners like in a meeting, and what happens when they move one in their calendar: stored, and kept in
memory for the host, which asks at every message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

import asyncpg
from indai.node.calendar.preferences import Hours, Preferences, Way, check
from indai.storage.pool import transaction


class OnChange(Enum):
    """What a meeting that its owner moved or deleted leads to."""

    ASK = "ask"
    TELL = "tell"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class MeetSettings:
    """One owner's."""

    preferences: Preferences = field(default_factory=Preferences)
    on_change: OnChange = OnChange.ASK

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps({"preferences": asdict(self.preferences), "on_change": self.on_change.value})

    @classmethod
    def from_json(cls, text: str) -> MeetSettings:
        """As it was stored."""
        doc: dict[str, Any] = json.loads(text)
        known = doc["preferences"]
        parts = {
            "hours": tuple(Hours(**each) for each in known["hours"]),
            "preferred": tuple(Hours(**each) for each in known["preferred"]),
            "ways": tuple(Way(**each) for each in known["ways"]),
        }
        return cls(Preferences(**(known | parts)), OnChange(doc["on_change"]))


_DEFAULT = MeetSettings()


class Tastes:
    """Every owner's settings; the only writer of their table."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._known: dict[str, MeetSettings] = {}

    async def load(self, owners: Iterable[str]) -> None:
        """Read them all."""
        wanted = list(owners)
        if not wanted:
            return
        async with transaction(self._pool, wanted) as connection:
            rows = await connection.fetch(
                "SELECT owner, doc FROM node.meet_settings WHERE owner = ANY($1)", wanted
            )
        self._known = {row["owner"]: MeetSettings.from_json(row["doc"]) for row in rows}

    def get(self, owner: str) -> MeetSettings:
        """The owner's, or what holds without any."""
        return self._known.get(owner, _DEFAULT)

    async def set(self, owner: str, settings: MeetSettings) -> None:
        """Store them; raises InvalidInput for what can't be."""
        check(settings.preferences)
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.meet_settings (owner, doc) VALUES ($1, $2)"
                " ON CONFLICT (owner) DO UPDATE SET doc = excluded.doc",
                owner,
                settings.to_json(),
            )
        self._known[owner] = settings

"""An office's departments: what each does, and within what time.

An owner with departments is an office: a request is routed by the department it names, else by its category,
else by words. The table is small and kept in memory; this object is its only writer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import asyncpg
from indai.node.extraction import stems
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.forms import DAY_MS, MINUTE_MS, check_name, check_text
from indai.protocol.kinds.ask import MAX_NAME, RequestWish
from indai.storage.pool import transaction

MAX_DEPARTMENTS, MAX_WORDS = 50, 50
MIN_SERVICE_MS, MAX_SERVICE_MS = MINUTE_MS, 3_653 * DAY_MS


@dataclass(frozen=True, slots=True)
class Department:
    """`categories` and `keywords` bring requests here; `service_ms` is its service level: resolved within
    that time of filing. `fallback`: takes what no other department does."""

    name: str
    title: str
    service_ms: int
    categories: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    fallback: bool = False


class Offices:
    """The table `node.offices`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._offices: dict[str, tuple[Department, ...]] = {}

    async def load(self, owners: Sequence[str]) -> None:
        """Read every office."""
        async with transaction(self._pool, owners) as connection:
            rows = await connection.fetch("SELECT owner, doc FROM node.offices WHERE owner = ANY($1)", owners)
        for row in rows:
            self._offices[row["owner"]] = tuple(_department(doc) for doc in json.loads(row["doc"]))

    def of(self, owner: str) -> tuple[Department, ...]:
        """An owner's departments; empty for who is no office."""
        return self._offices.get(owner, ())

    async def set(self, owner: str, departments: Sequence[Department]) -> None:
        """All departments of an owner. What was filed before stays as it was filed. Raises InvalidInput."""
        check(departments)
        text = json.dumps([asdict(department) for department in departments])
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.offices (owner, doc) VALUES ($1, $2::jsonb)"
                " ON CONFLICT (owner) DO UPDATE SET doc = excluded.doc",
                owner,
                text,
            )
        self._offices[owner] = tuple(departments)


def route(departments: Sequence[Department], wish: RequestWish) -> Department | None:
    """Whose a request is: the named department's, else its category's, else by the most keywords."""
    if wish.department:
        return next((one for one in departments if one.name == wish.department), None)
    for one in departments:
        if wish.category in one.categories or wish.category == one.name:
            return one
    said = stems(f"{wish.category.replace('-', ' ')} {wish.subject} {wish.text}")
    scores = [len(said & stems(" ".join(one.keywords))) for one in departments]
    if any(scores):
        return departments[scores.index(max(scores))]
    return next((one for one in departments if one.fallback), None)


def check(departments: Sequence[Department]) -> None:
    """Raises InvalidInput(INVALID_ARGUMENT) for what can't be an office."""
    names = [one.name for one in departments]
    if len(departments) > MAX_DEPARTMENTS or len(set(names)) != len(names):
        raise _wrong(f"An office has at most {MAX_DEPARTMENTS} departments, each with a name of its own.")
    if sum(one.fallback for one in departments) > 1:
        raise _wrong("At most one department takes what no other does.")
    for one in departments:
        try:
            check_text("title", one.title, 200, required=True)
            for name in (one.name, *one.categories):
                check_name("ASK-02", "department or category", name, MAX_NAME)
            for word in one.keywords:
                check_text("keyword", word, MAX_NAME, required=True)
        except ProtocolError as error:
            raise _wrong(error.message) from None
        if len(one.categories) + len(one.keywords) > MAX_WORDS:
            raise _wrong(f"{one.name} has more than {MAX_WORDS} categories and keywords.")
        if not MIN_SERVICE_MS <= one.service_ms <= MAX_SERVICE_MS:
            raise _wrong(f"The service level of {one.name} is a minute to ten years.")


def _department(doc: dict[str, Any]) -> Department:
    lists = {name: tuple(doc[name]) for name in ("categories", "keywords")}
    return Department(**doc | lists)


def _wrong(message: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, message, fields={"departments": "can't be used"})

"""What was agreed makes way for what is to take its place, and for nothing else: the tables see to it."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

import asyncpg
from indai.node.store import Store, hexed

from tests.conftest import Database

Row = dict[str, str | int | None]
OWNER = "ind.ai/alice"
HALF_HOUR = 1_800_000


def mid(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def slot(name: str, first: int, last: int, place: str = "") -> Row:
    """From and to in half hours of some day."""
    row: Row = {
        "owner": OWNER,
        "mid": hexed(mid(name)),
        "start_ms": first * HALF_HOUR,
        "end_ms": last * HALF_HOUR,
    }
    return row | ({"place": hexed(mid(place))} if place else {})


def only(name: str, place: str = "") -> Row:
    row: Row = {"owner": OWNER, "mid": hexed(mid(name))}
    return row | ({"place": hexed(mid(place))} if place else {})


async def test_two_slots_overlap_only_where_one_is_to_take_the_others_place(
    make_database: Callable[[], Awaitable[Database]],
) -> None:
    store = Store((await make_database()).pool, "log")

    async def change(**doc: list[Row]) -> bool:
        """Whether the tables take it."""
        try:
            await store.apply([OWNER], doc, 0, None)
        except asyncpg.ExclusionViolationError:
            return False
        return True

    assert await change(reserve=[slot("old", 4, 6)])
    assert await change(consume=[only("old")])
    assert not await change(reserve=[slot("other", 5, 7)])
    assert not await change(reserve=[slot("other", 5, 7, place="old")])  # no place of its own choice

    moving = slot("new", 5, 7, place="new")
    assert await change(make_way=[only("old", "new")], reserve=[moving])
    for first, last in ((3, 5), (5, 6), (6, 8), (4, 7)):  # the old time and the new one are both taken
        assert not await change(reserve=[slot("other", first, last)])
    # A second way of moving it may not overlap the first, wherever it lies.
    assert not await change(make_way=[only("old", "second")], reserve=[slot("second", 6, 8, place="second")])

    # It comes to nothing: what it alone held is free, the old time is not.
    assert await change(release=[only("new")])
    assert not await change(reserve=[slot("other", 5, 7)])
    assert await change(reserve=[slot("other", 6, 8)])
    assert await change(release=[only("other")])

    # Called off while it is being moved: the new time stays taken as a whole.
    assert await change(make_way=[only("old", "new")], reserve=[moving])
    assert await change(unbook=[only("old")])
    assert not await change(reserve=[slot("other", 5, 6)])
    assert await change(consume=[only("new")])
    assert await change(reserve=[slot("other", 4, 5)])

    # Given back and promised again in one batch.
    again = [slot("again", 6, 8, place="again")]
    assert await change(release=[only("other")], make_way=[only("new", "again")], reserve=again)
    assert await change(unbook=[only("new")], consume=[only("again")])
    assert await change(reserve=[slot("other", 4, 6)])

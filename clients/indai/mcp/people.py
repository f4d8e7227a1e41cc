"""Tools that find people and free time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from indai.mcp.free import Free, free_windows
from indai.mcp.session import Ctx, of, told
from indai.mcp.values import Quoted, Value, quoted, stamp
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import calendar_pb2, owner_pb2, registry_pb2
from pydantic import Field

HandleText = Annotated[str, Field(max_length=128, description="A handle, such as ind.ai/bob.")]
Moment = Annotated[datetime, Field(description="ISO 8601; without an offset in the owner's time zone.")]
MINUTE_MS = 60_000


class Listing(Value):
    """Somebody who asked to be found. The registry's word: resolve_handle verifies it."""

    handle: str
    intents: list[str]
    languages: Quoted


class People(Value):
    """Who was found."""

    people: list[Listing]
    next_page: str


class Person(Value):
    """A handle's record, verified against the registry's signed log."""

    handle: str
    subject: str = Field(description="Hex id of the handle's present owner.")
    node: str = Field(description="Handle of the node that answers for it; empty for none.")
    verified: bool


class Slot(Value):
    """A stretch in which nothing stands in the owner's calendar."""

    start: str
    end: str
    minutes: int


class Slots(Value):
    """Free stretches, in order. Nothing of what stands in the calendar is told."""

    slots: list[Slot]
    time_zone: str


@told
async def find_people(
    ctx: Ctx,
    intent: Annotated[str, Field(max_length=32, description="What they must answer, e.g. meet.")] = "",
    language: Annotated[str, Field(max_length=35, description="What they read, BCP 47, e.g. hi.")] = "",
    page: Annotated[str, Field(max_length=512)] = "",
) -> People:
    """Find handles that asked to be found, by what they answer and read. Names are not searched: for somebody
    whose handle is known, use resolve_handle."""
    request = registry_pb2.SearchHandlesRequest(intent=intent, language=language, page_token=page)
    answer = await of(ctx).registry.SearchHandles(request)
    found = [
        Listing(
            handle=one.handle,
            intents=list(one.intents),
            languages=quoted(", ".join(one.languages), one.handle),
        )
        for one in answer.listings
    ]
    return People(people=found, next_page=answer.next_page_token)


@told
async def resolve_handle(handle: HandleText, ctx: Ctx) -> Person:
    """Look a handle up in the registry and verify its whole history."""
    known = await of(ctx).resolver.resolve(handle)
    return Person(handle=known.handle, subject=known.subject_id, node=known.state.node, verified=True)


@told
async def find_slots(
    earliest: Moment,
    latest: Moment,
    ctx: Ctx,
    minutes: Annotated[int, Field(ge=1, le=1440, description="Shortest useful length.")] = 30,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
) -> Slots:
    """Free stretches of the owner's own calendar within their meeting hours. What the rules allow is decided
    when a meeting is asked for; whether the other side is free, only their agent says."""
    session = of(ctx)
    start, end = await between(ctx, earliest, latest)
    settings = await session.calendars.GetMeetSettings(calendar_pb2.GetMeetSettingsRequest())
    events = await session.owner.ListEvents(
        owner_pb2.ListEventsRequest(start_time=stamp(start), end_time=stamp(end))
    )
    busy = [(one.start_time.ToMilliseconds(), one.end_time.ToMilliseconds()) for one in events.events]
    zone = await session.zone()
    found = free_windows(Free(start, end, zone, settings.settings), busy, minutes * MINUTE_MS)[:limit]
    return Slots(
        slots=[
            Slot(
                start=datetime.fromtimestamp(begin / 1000, zone).isoformat(),
                end=datetime.fromtimestamp(until / 1000, zone).isoformat(),
                minutes=(until - begin) // MINUTE_MS,
            )
            for begin, until in found
        ],
        time_zone=zone.key,
    )


async def between(ctx: Ctx, earliest: datetime, latest: datetime) -> tuple[int, int]:
    """Both as milliseconds since the epoch. Raises InvalidInput when they are in the wrong order."""
    zone = None if earliest.tzinfo and latest.tzinfo else await of(ctx).zone()
    start, end = (
        round((at if at.tzinfo else at.replace(tzinfo=zone)).timestamp() * 1000) for at in (earliest, latest)
    )
    if start >= end:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "`earliest` is not before `latest`.", hint="give two times in order"
        )
    return start, end

"""A tenant's conversations in numbers: how it is now, and sums and percentiles of the days before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeVar

import asyncpg
from indai.node.tenancy.access import Post
from indai.node.tenancy.regions import region_of
from indai.node.tenancy.rollup import PAIR, STAGE, Count, Rollup, percentile
from indai.node.tenancy.talks import THEIRS
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.runtime.bindings import Bindings
from indai.storage.pool import transaction
from indai.v1 import tenant_pb2 as pb

MAX_DAYS: Final = 90
USUAL_DAYS: Final = 14
USUAL_STAGE_DAYS: Final = 7
MAX_PLACES: Final = 200

Name = TypeVar("Name", str, tuple[str, str])

_NOW: Final = f"""
    SELECT count(*) FILTER (WHERE status = 'active') AS active,
           count(*) FILTER (WHERE status = 'handed_off' AND taken_by = '') AS waiting,
           count(*) FILTER (WHERE status = 'handed_off' AND taken_by <> '') AS taken,
           count(*) FILTER (WHERE status = 'handed_off' AND taken_by = ''
                            AND handed_at < now() - make_interval(mins => $3)) AS late,
           min(handed_at) FILTER (WHERE status = 'handed_off' AND taken_by = '') AS since
    FROM runtime.sessions s
    WHERE {THEIRS} AND (status = 'handed_off' OR last_active_at >= now() - interval '24 hours')
      AND status <> 'closed'
"""  # noqa: S608 - of constants
_GUARDED: Final = f"""
    SELECT count(*) FROM runtime.guardrail_violations v JOIN runtime.sessions s ON s.id = v.session
    WHERE {THEIRS} AND v.owner = ANY ($2) AND v.severity <> 'log'
      AND v.created_at >= ((now() AT TIME ZONE $4)::date - ($3::int - 1))::timestamp AT TIME ZONE $4
"""  # noqa: S608
_DIMENSIONS: Final = ("topic", "mood", "ending", "language", "zone", "channel", PAIR)


class Figures:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool, bindings: Bindings) -> None:
        self._pool, self._bindings, self._rollup = pool, bindings, Rollup(pool)

    async def of(self, post: Post, days: int) -> pb.GetTenantFiguresResponse:
        """What is now, from the conversations themselves; what was, from the roll-ups."""
        back, zone = checked_days(days, USUAL_DAYS), await self._bindings.zone(post.tenant)
        minutes = await self._bindings.answer_minutes(post.tenant)
        counts = await self._rollup.counts(post, back, zone, _DIMENSIONS)
        async with transaction(self._pool, post.owners, post.tenant) as connection:
            now = await connection.fetchrow(_NOW, post.tenant, post.owners, minutes)
            guarded = await connection.fetchval(_GUARDED, post.tenant, post.owners, back, zone)
        named = {what: [one for one in counts if one.what == what] for what in _DIMENSIONS}
        regions = await self._regions(post.tenant, counts)
        pairs = _summed(
            ((one.name.partition("\n")[0], region_of(one.binding, one.name.partition("\n")[2], regions)), one)
            for one in named[PAIR]
        )
        made = pb.GetTenantFiguresResponse(
            active=now["active"],
            waiting=now["waiting"],
            taken=now["taken"],
            late=now["late"],
            days=sorted(_shares((str(one.day), one) for one in named["topic"]), key=lambda each: each.name),
            topics=_by_name(named["topic"]),
            moods=_by_name(named["mood"]),
            endings=_by_name(named["ending"]),
            languages=_by_name(named["language"]),
            zones=_by_name(named["zone"]),
            channels=_by_name(named["channel"]),
            regions=_shares((region_of(one.binding, one.name, regions), one) for one in named["zone"]),
            bindings=_shares((one.binding, one) for one in named["topic"]),
            places=[
                pb.TopicInRegion(topic=topic, region=region, count=count)
                for (topic, region), count in pairs[:MAX_PLACES]
            ],
            guarded=guarded,
            time_zone=zone,
        )
        if now["since"] is not None:
            made.waiting_since.FromDatetime(now["since"])
        return made

    async def count(self, post: Post) -> None:
        """Count ahead what a page would count."""
        await self._rollup.fold(post, await self._bindings.zone(post.tenant))

    async def stages(self, post: Post, days: int) -> pb.GetStageTimesResponse:
        """The slowest first."""
        back, zone = checked_days(days, USUAL_STAGE_DAYS), await self._bindings.zone(post.tenant)
        by_stage: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for one in await self._rollup.counts(post, back, zone, [STAGE]):
            by_stage[one.name].append((one.bucket, one.turns))
        found = [
            pb.StageTime(
                stage=stage,
                turns=sum(turns for _, turns in buckets),
                p50_ms=percentile(buckets, 0.5),
                p95_ms=percentile(buckets, 0.95),
            )
            for stage, buckets in by_stage.items()
        ]
        return pb.GetStageTimesResponse(stages=sorted(found, key=lambda one: (-one.p95_ms, one.stage))[:100])

    async def _regions(self, tenant: str, counts: Iterable[Count]) -> dict[str, str]:
        """Of the bindings that name one. A binding that is gone by now, or broken, has none."""
        found: dict[str, str] = {}
        for slug in {one.binding for one in counts}:
            try:
                region = (await self._bindings.of(tenant, slug)).binding.region
            except IndaiError:
                continue
            if region:
                found[slug] = region
        return found


def checked_days(days: int, usual: int) -> int:
    """How far back; raises InvalidInput for too far."""
    if days > MAX_DAYS:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"At most {MAX_DAYS} days are shown.")
    return days or usual


def _summed(named: Iterable[tuple[Name, Count]]) -> list[tuple[Name, int]]:
    """Turns by name, most first."""
    sums: defaultdict[Name, int] = defaultdict(int)
    for name, one in named:
        sums[name] += one.turns
    return sorted(sums.items(), key=lambda each: (-each[1], str(each[0])))


def _shares(named: Iterable[tuple[str, Count]]) -> list[pb.Share]:
    return [pb.Share(name=name, count=count) for name, count in _summed(named)]


def _by_name(counts: Iterable[Count]) -> list[pb.Share]:
    return _shares((one.name, one) for one in counts)

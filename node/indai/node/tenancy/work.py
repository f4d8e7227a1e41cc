"""What runs in the background for a tenant, and its channels: what waits, what was given up, trying again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

import asyncpg
from indai.node.tenancy.access import Post
from indai.node.views import timestamp
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.storage.pool import transaction
from indai.tools.jobs import Jobs
from indai.tools.values import Caller, Outcome
from indai.v1 import channels_pb2, memory_pb2
from indai.v1 import tenant_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.channels_pb2_grpc import ChannelServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

MAX_JOBS: Final = 500
MAX_LETTERS: Final = 50
MAX_CHANNELS: Final = 200
TOOL, MEMORY = "tool", "memory"
_OPEN: Final = """
    SELECT id, kind, tool, state, attempts, error, created_ms FROM tools.jobs
    WHERE holder = $1 AND state <> 'done' ORDER BY state, created_ms DESC, id LIMIT $2
"""


class Work:
    """See the module. Without the memory role there is none of its jobs."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        clock: Callable[[], int],
        memory: MemoryServiceAsyncStub | None,
        channels: ChannelServiceAsyncStub,
    ) -> None:
        self._pool, self._jobs = pool, Jobs(pool, clock, _nobody)
        self._memory, self._channels = memory, channels

    async def listed(self, post: Post) -> list[pb.TenantJob]:
        """Given up first, then the newest."""
        holder = _holder(post)
        async with transaction(self._pool, [holder]) as connection:
            rows = await connection.fetch(_OPEN, holder, MAX_JOBS)
        found = [
            pb.TenantJob(
                job_id=str(row["id"]),
                source=TOOL,
                task=f"{row['kind']} {row['tool']}",
                state=row["state"],
                attempts=row["attempts"],
                reason=row["error"],
                create_time=timestamp(row["created_ms"]),
            )
            for row in rows
        ]
        if self._memory is not None:
            request = memory_pb2.ListJobsRequest(access=_admin(post), page_size=MAX_JOBS)
            found += [_memory_job(job) for job in (await self._memory.ListJobs(request)).jobs]
        return sorted(found, key=lambda job: (job.state != "dead", -job.create_time.seconds))

    async def replay(self, post: Post, source: str, job: str) -> None:
        """Raises NotFound for what was not given up."""
        if source == TOOL:
            await self._jobs.retry(_holder(post), _uuid(job))
            return
        if (
            source != MEMORY
            or self._memory is None
            or not (job.isascii() and job.isdigit() and len(job) < 19)
        ):
            raise _no_job()
        request = memory_pb2.RetryJobsRequest(access=_admin(post), ids=[int(job)])
        if not (await self._memory.RetryJobs(request)).requeued:
            raise _no_job()

    async def channels(self, post: Post) -> list[pb.TenantChannel]:
        """With what could not be sent."""
        request = channels_pb2.ListChannelsRequest(tenant=post.tenant, page_size=MAX_CHANNELS)
        found = []
        for channel in (await self._channels.ListChannels(request)).channels:
            status = await self._channels.GetChannelStatus(
                channels_pb2.GetChannelStatusRequest(name=channel.name)
            )
            letters: list[channels_pb2.DeadLetter] = []
            if status.dead:
                asked = channels_pb2.ListDeadLettersRequest(name=channel.name, page_size=MAX_LETTERS)
                letters = list((await self._channels.ListDeadLetters(asked)).letters)
            status.channel.ClearField("settings")  # how it is set up is for who set it up
            found.append(pb.TenantChannel(status=status, letters=letters))
        return found

    async def replay_letters(self, post: Post, request: pb.ReplayTenantLettersRequest) -> int:
        """How many wait again. Raises NotFound for another tenant's channel."""
        listed = channels_pb2.ListChannelsRequest(tenant=post.tenant, page_size=MAX_CHANNELS)
        names = [one.name for one in (await self._channels.ListChannels(listed)).channels]
        if request.channel not in names:
            raise NotFound(Reason.NOT_FOUND, "There is no such channel.", hint="see: indai channel list")
        asked = channels_pb2.ReplayDeadLettersRequest(name=request.channel, letter_ids=request.letter_ids)
        return (await self._channels.ReplayDeadLetters(asked)).replayed


async def _nobody(_: Caller, __: Outcome) -> None:
    """Nothing is carried out here: the jobs are put back for the tools' own worker."""


def _holder(post: Post) -> str:
    return f"tenant:{post.tenant}"


def _admin(post: Post) -> memory_pb2.Access:
    return memory_pb2.Access(tenant=post.tenant, door=memory_pb2.DOOR_ADMIN)


def _memory_job(job: memory_pb2.Job) -> pb.TenantJob:
    return pb.TenantJob(
        job_id=str(job.id),
        source=MEMORY,
        task=job.task,
        state="dead" if job.state == "failed" else "waiting",
        attempts=job.attempts,
        reason=job.reason,
        create_time=job.create_time,
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "That is no id of a job.") from None


def _no_job() -> NotFound:
    return NotFound(Reason.NOT_FOUND, "There is no such job that was given up.", hint="load the list again")

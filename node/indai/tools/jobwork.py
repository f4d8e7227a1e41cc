"""What the jobs of tools do; each can be done again at any point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

from indai.protocol.errors import Reason, Unavailable
from indai.tools.approvals import Approvals
from indai.tools.jobs import LIFETIME_MS, Ended, Handler, Job, Later
from indai.tools.outcomes import failed
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Caller, Outcome, Status

SOON_S: Final = 5.0
SLOWER: Final = 10  # a thread is looked at after a tenth of its age

Look = Callable[[Caller, str], Awaitable[Mapping[str, Any]]]
"""A thread as a result, as it is now."""


class JobWork:
    """The handlers."""

    def __init__(
        self, toolbox: NodeToolbox, approvals: Approvals, look: Look, clock: Callable[[], int]
    ) -> None:
        self._toolbox = toolbox
        self._approvals = approvals
        self._look = look
        self._clock = clock

    @property
    def handlers(self) -> dict[str, Handler]:
        """By kind."""
        return {
            "run": self.run,
            "follow": self.follow,
            "approved": self.approved,
            "expire": self.expire,
            "remind": self.remind,
        }

    async def run(self, job: Job) -> Ended | Later:
        """A tool that takes long."""
        outcome = await self._toolbox.run_later(job.caller, job.tool, job.arguments)
        if outcome.status is Status.FAILED and outcome.retryable:
            raise Unavailable(Reason.UNREACHABLE, outcome.words)
        return Ended(outcome)

    async def follow(self, job: Job) -> Ended | Later:
        """A negotiation that others must answer."""
        age_ms = self._clock() - job.created_ms
        result = await self._look(job.caller, job.arguments["thread_id"])
        if result.get("running"):
            return Ended() if age_ms > LIFETIME_MS else Later(max(SOON_S, age_ms / 1000 / SLOWER))
        return Ended(self._toolbox.told(job.caller, job.tool, result))

    async def approved(self, job: Job) -> Ended | Later:
        """A call with the owner's yes that was never carried out."""
        asked = await self._approvals.find(job.holder, UUID(job.arguments["approval"]))
        if asked is None or asked.state != "approved":
            return Ended()
        return Ended(await self._toolbox.carry_out(asked))

    async def expire(self, job: Job) -> Ended | Later:
        """A question whose time ran out: whoever waited for it is told."""
        id, now_ms = UUID(job.arguments["approval"]), self._clock()
        asked = await self._approvals.find(job.holder, id)
        if asked is not None and asked.state == "pending" and asked.approval.expires_at_ms > now_ms:
            return Later((asked.approval.expires_at_ms - now_ms) / 1000 + 1)
        asked = await self._approvals.expire(job.holder, id, now_ms)
        if asked is None:
            return Ended()
        words = "Nobody answered in time, so nothing has happened"
        if asked.caller.person == asked.caller.owner:  # what was asked is between the owner and this node
            words += f": {asked.approval.terms.splitlines()[0]}"
        return Ended(failed("EXPIRED", f"{words}."))

    async def remind(self, job: Job) -> Ended | Later:
        """Words for the person, at their time."""
        return Ended(Outcome(Status.DONE, str(job.arguments["text"]), code="REMINDER"))

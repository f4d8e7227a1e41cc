"""What the jobs of tools do; each can be done again at any point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from indai.protocol.errors import Reason, Unavailable
from indai.tools.approvals import Approvals
from indai.tools.followed import Followed
from indai.tools.jobs import LIFETIME_MS, Ended, Handler, Job, Later
from indai.tools.outcomes import as_kept, declined, failed
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
        followed = self._toolbox.followed
        assert followed is not None  # noqa: S101 - who works on jobs has some
        followed.waits(job)
        done = await self._followed(followed, job)
        if isinstance(done, Ended):
            followed.ends(job)
        return done

    async def _followed(self, followed: Followed, job: Job) -> Ended | Later:
        age_ms = self._clock() - job.created_ms
        result = await self._look(job.caller, job.arguments["thread_id"])
        question = (result.get("approval") or {}).get("action_hash", "")
        if result.get("running") or (question and question == job.arguments.get("question")):
            return Ended() if age_ms > LIFETIME_MS else Later(max(SOON_S, age_ms / 1000 / SLOWER))
        if await followed.is_told_here(job):
            return Later(SOON_S)  # its turn ends it; where that fails, it tells
        outcome = self._toolbox.told(job.caller, job.tool, result)
        if not question:
            return Ended(outcome)
        # The next question is followed before it is told, and told once.
        await followed.begin(job.caller, job.tool, outcome)
        return Ended(replace(outcome, about=question))

    async def approved(self, job: Job) -> Ended | Later:
        """A call with the owner's word that was never carried out, or of which nobody was told who asked."""
        asked = await self._approvals.find(job.holder, UUID(job.arguments["approval"]))
        if asked is None:
            return Ended()
        about, elsewhere = str(asked.id), job.arguments.get("answered_in", "") != asked.caller.session
        if asked.state == "approved":
            return Ended(replace(await self._toolbox.carry_out(asked), about=about))
        if not elsewhere or "answered_in" not in job.arguments:
            return Ended()
        if asked.state == "declined":
            return Ended(replace(declined(asked), about=about))
        kept = await self._approvals.outcome(job.holder, asked.id)
        return Ended(replace(as_kept(kept), about=about) if kept else None)

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

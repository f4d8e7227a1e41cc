"""A negotiation as the result of a tool: looked at again later, and answered for the owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indai.protocol.party import DECLINED
from indai.tools.desk import Desk, Desks, settle
from indai.tools.files import Keep
from indai.tools.intents.common import shown
from indai.tools.intents.handing import with_files
from indai.tools.values import Caller, unheard
from indai.v1 import owner_pb2


@dataclass(frozen=True, slots=True)
class ThreadsOf:
    """Threads through an owner's own desk."""

    desks: Desks
    keep: Keep

    async def look(self, caller: Caller, thread_id: str) -> Mapping[str, Any]:
        """As it is now. Raises NotFound."""
        desk = self.desks(caller.owner)
        found = await desk.owner.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
        result = await self._shown(caller, desk, found.thread)
        said = next((each for each in reversed(found.messages) if each.move == "REJECT"), None)
        if result["state"] == "refused" and found.thread.reason == DECLINED and (not said or said.outgoing):
            return {**result, "state": "declined"}  # by this owner, wherever they said it
        return result

    async def answer(self, caller: Caller, code: str, approve: bool) -> Mapping[str, Any]:
        """The owner's word on a question of a negotiation; again, after a kill, it is the same. Raises
        NotFound for a code of nothing."""
        desk = self.desks(caller.owner)
        request = owner_pb2.AnswerApprovalRequest(code=code, approve=approve, channel=caller.channel)
        thread = (await desk.owner.AnswerApproval(request)).thread
        rested = await settle(desk, thread, unheard)
        return await self._shown(caller, desk, rested)

    async def _shown(self, caller: Caller, desk: Desk, thread: owner_pb2.Thread) -> Mapping[str, Any]:
        return await with_files(desk, self.keep, thread.kind, await shown(caller, desk, thread))

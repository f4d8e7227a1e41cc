"""What a payment provider's word makes of a pending payment: one call for each of its two ways to end.

A provider repeats itself, so both are idempotent: what is resolved already stays as it is. Only the
payee's node posts.
"""

from __future__ import annotations

from indai.node.engine import Engine
from indai.node.store import Store
from indai.protocol.errors import NotFound, Reason
from indai.protocol.messages import EventKind
from indai.protocol.party_state import OwnerActs


class Settlement:
    """Resolves pending commitments of the owners of this node, by the commitment's mid."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store, self._engine = store, engine

    async def post(self, owner: str, mid: bytes, amount_minor: int, sentence: str = "") -> None:
        """So much was paid, in minor units: at most what is pending, once.

        Raises NotFound, Refused (ILLEGAL_MOVE, THREAD_CLOSED), and ProtocolError with LIF-11 for more than is
        pending.
        """
        await self._act(owner, mid, OwnerActs(EventKind.POST, "", sentence, posted_minor=amount_minor))

    async def void(self, owner: str, mid: bytes, reason: str = "", sentence: str = "") -> None:
        """Nothing will be paid. Raises as `post`."""
        await self._act(owner, mid, OwnerActs(EventKind.VOID, reason, sentence))

    async def _act(self, owner: str, mid: bytes, said: OwnerActs) -> None:
        thread = await self._store.thread_of_commitment(owner, mid)
        if thread is None:
            raise NotFound(Reason.NOT_FOUND, f"{owner} has no commitment {mid.hex()[:12]}.")
        await self._engine.act(owner, thread, said)

"""What a coordinator of several is told: a few windows, or one word for each slot, by policy and calendar.

Nothing is held. What was told is counted in the owner's journal. A question that comes again is answered
again, by what is free then.
"""

from __future__ import annotations

from indai.node import succession
from indai.node.agents import Agents
from indai.node.draft import states_of
from indai.node.holdings import Promised
from indai.node.host import Host
from indai.node.kinds.acquaintance import Acquaintances, common
from indai.node.store import Store
from indai.protocol.ballots import BallotAnswer, BallotQuery, CallQuery, Ordinal
from indai.protocol.bodies import RejectBody
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.kinds.meet import MEET
from indai.protocol.messages import DAY_MS, MeetTerms
from indai.protocol.queries import Told, WindowsAnswer
from indai.v1 import policy_pb2

_DENIED = RejectBody("POLICY_DENIED", "That can't be arranged.")


class Ballots:
    """Answers for every owner of this node."""

    def __init__(self, host: Host, agents: Agents, store: Store, acquaintances: Acquaintances) -> None:
        self._host, self._agents, self._store = host, agents, store
        self._acquaintances = acquaintances

    async def windows(self, owner: str, peer: str, call: CallQuery, now_ms: int, hops: int) -> Told:
        """A few windows, best first. Where the owner would have to be asked, none: that is for the offer."""
        held = await self._held(owner, peer, call, now_ms)
        about = await self._about(owner, peer, len(call.attendees), now_ms, hops)
        found = await self._host.wish(owner, about, call.wish, held)
        if found.outcome == policy_pb2.OUTCOME_REFUSE and found.reason != "NO_COMMON_SLOT":
            await self._note(owner, peer, "POLICY_DENIED", "was told no time", len(call.attendees), now_ms)
            return _DENIED
        permitted = found.outcome == policy_pb2.OUTCOME_PERMIT and found.wish is not None
        windows = getattr(found.wish, "windows", ()) if permitted else ()
        told = f"was told {len(windows)} windows"
        await self._note(owner, peer, "WINDOWS", told, len(call.attendees), now_ms)
        return WindowsAnswer(tuple(windows))

    async def ordinals(self, owner: str, peer: str, ballot: BallotQuery, now_ms: int, hops: int) -> Told:
        """One word for each slot: what the owner would have to be asked about is to be avoided."""
        held = await self._held(owner, peer, ballot, now_ms)
        said, denied, wish = [], 0, ballot.wish
        about = await self._about(owner, peer, len(ballot.attendees), now_ms, hops)
        for slot in ballot.slots:
            terms = MeetTerms(slot.start_ms, slot.end_ms, wish.title, wish.place, "ballot")
            found = await self._host.terms(owner, about, terms, held)
            denied += found.reason == "POLICY_DENIED"
            if found.outcome == policy_pb2.OUTCOME_PERMIT:
                likes = self._host.likes(owner, slot.start_ms, slot.end_ms)
                said.append(Ordinal.YES if likes else Ordinal.OK)
            else:
                said.append(Ordinal.AVOID if found.outcome == policy_pb2.OUTCOME_ASK else Ordinal.NO)
        count = len(ballot.attendees)
        if denied == len(said):
            await self._note(owner, peer, "POLICY_DENIED", "was told nothing", count, now_ms)
            return _DENIED
        await self._note(owner, peer, "ORDINALS", f"was told how {len(said)} times suit", count, now_ms)
        return BallotAnswer(tuple(said))

    async def _about(self, owner: str, peer: str, attendees: int, now_ms: int, hops: int) -> policy_pb2.Facts:
        """What is known of the coordinator, and how many take part."""
        zone = self._agents.get(owner).zone
        facts = common(
            peer,
            now_ms,
            await self._acquaintances.of(owner, peer, [MEET.name], zone, now_ms),
            outgoing=False,
            hops=hops,
        )
        facts.meet.attendees = attendees
        return facts

    async def _held(self, owner: str, peer: str, query: CallQuery | BallotQuery, now_ms: int) -> Promised:
        """What the owner has promised, for a coordinator that names itself first and the owner after it. What
        just these have agreed makes way for what is to take its place."""
        if query.attendees[0] != peer or owner not in query.attendees[1:]:
            what = "A coordinator names itself first, and whom it asks among the others."
            raise ProtocolError(Reason.MALFORMED, what, rule="QRY-01")
        await self._agents.get(owner).calendar.refresh()
        named = query.supersedes
        thread = await self._store.thread_of_commitment(owner, named) if named else None
        keys = [(owner, thread)] if thread else []
        loaded = await self._store.load([owner], keys, [owner], now_ms - 2 * DAY_MS)
        old = next(iter(states_of(loaded).values()), None)
        if old is None or {owner, *succession.others(old)} != {*query.attendees}:
            return Promised(loaded.reserved[owner].slots)
        return Promised(loaded.reserved[owner].slots, succession.leaving(old, None))

    async def _note(self, owner: str, peer: str, reason: str, told: str, count: int, now_ms: int) -> None:
        """The owner's own account of what was disclosed to whom (GRP-06)."""
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "INSERT INTO node.journal (owner, at_ms, peer, event, reason, words)"
                " VALUES ($1, $2, $3, 'disclosed', $4, $5)",
                owner,
                now_ms,
                peer,
                reason,
                f"{peer} {told}, for a meeting of {count}.",
            )

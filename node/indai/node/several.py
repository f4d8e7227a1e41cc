"""Conversations with one peer or with several: the letterheads, and how a meeting of several begins."""

from __future__ import annotations

from indai.node import succession
from indai.node.compose import Letterhead, newest_key
from indai.node.context import Context
from indai.node.conversation import Conversation
from indai.node.desk import Cause, Desk
from indai.node.draft import Draft, ThreadState, intent_of
from indai.node.group_conversation import GroupConversation
from indai.node.inbound import MAX_HEAD_AGE_MS
from indai.node.items import Answered, Convene
from indai.protocol.delegations import check_delegation, links
from indai.protocol.errors import InvalidInput, Reason, Unavailable
from indai.protocol.group.state import Group, Member
from indai.protocol.party_state import OwnerConvenes, PeerRefused


def conversation(
    context: Context, draft: Draft, peer: str, cause: Cause | None = None, request_id: str | None = None
) -> Conversation:
    """One side's steps within this batch: of a coordinator, where the thread is one of several."""
    group = draft.state.side.group if draft.state else None
    if group is not None:
        return GroupConversation(_desk(context, draft, group.members[0].handle), draft, None, request_id)
    return Conversation(_desk(context, draft, peer), draft, cause, request_id)


async def convene(
    context: Context, draft: Draft, item: Convene, hops: int, old: ThreadState | None = None
) -> None:
    """The first step of a meeting of several: everybody is resolved, and nobody is asked twice. `hops`: how
    many agents have passed on what led to it; `old`: what has agreed the meeting whose place it is to take,
    which is moved by those who signed it and nobody else."""
    own = await context.resolver.resolve(item.owner, max_age_ms=MAX_HEAD_AGE_MS)
    members = []
    for handle in item.peers:
        record = await context.resolver.resolve(handle, max_age_ms=MAX_HEAD_AGE_MS)
        await context.host.check_hands(item.owner, record.chain)
        members.append(Member(record.subject_id, record.handle))
    if len({own.subject_id, *(member.subject for member in members)}) != len(members) + 1:
        what = "A meeting of several is of different people, and you are one of them already."
        raise InvalidInput(Reason.INVALID_ARGUMENT, what, fields={"peers": "named twice"})
    if old is not None:
        succession.check_people(old, {own.subject_id, *(each.subject for each in members)})
    talk = GroupConversation(_desk(context, draft, item.peers[0]), draft, None, item.request_id)
    subject, handle = own.subject_id, own.handle
    wanted = item.wish, item.thread, subject, handle, tuple(members), item.algorithm
    await talk.run(OwnerConvenes(*wanted, hops, item.supersedes))


async def refused(context: Context, draft: Draft, item: Answered) -> None:
    """A member's node has refused what its coordinator sent: there is no meeting of all."""
    group = draft.state.side.group if draft.state else None
    if group is not None:
        subject = _subject(group, item.outgoing.recipient)
        await conversation(context, draft, "").run(PeerRefused(subject, item.reason))


def _subject(group: Group, handle: str) -> str:
    return next((member.subject for member in group.members if member.handle == handle), "")


def _desk(context: Context, draft: Draft, peer: str) -> Desk:
    agent = context.agents.get(draft.owner)

    async def letterhead_to(handle: str, amount: tuple[str, int] | None = None) -> Letterhead:
        own = await context.resolver.resolve(draft.owner, max_age_ms=MAX_HEAD_AGE_MS)
        other = await context.resolver.resolve(handle, max_age_ms=MAX_HEAD_AGE_MS)
        side = draft.state.side if draft.state else None
        known = side and (_subject(side.group, handle) if side.group else side.peer)
        if side is not None and other.subject_id != known:
            what = f"{handle} belongs to another subject than this thread began with."
            raise Unavailable(Reason.UNKNOWN_PEER, what)
        intent = intent_of(draft.thread)
        key = agent.signing_key(own, draft.now_ms, intent, amount)
        if amount is not None:
            path = await context.resolver.authority_of(own, max_age_ms=MAX_HEAD_AGE_MS)
            check_delegation(path, intent, draft.now_ms, amount)
            draft.links = links(path, amount[0])
        # The key that the other has answered with: its node holds that one, whatever others its record names.
        seen = draft.thread.columns["peer_key"]
        if side and side.group:
            seen = dict(side.group.keys).get(other.subject_id, "")
        return Letterhead(
            context.resolver.policy.network, own, other, seen or newest_key(other), key, own.head
        )

    async def letterhead(amount: tuple[str, int] | None) -> Letterhead:
        return await letterhead_to(peer, amount)

    likes = context.host.reminding(draft.owner)
    return Desk(agent, peer, letterhead, letterhead_to, context.kinds, context.ledger, likes)

"""A coordinator's conversation with several at once: what `Conversation` does, with everybody's letterheads.

What goes to one member (a question) is sent as any message is. What goes to all is signed and stored once,
and a RELAY carries its bytes to each; so each delivery has its own row in the outbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indai.node import compose
from indai.node.compose import Letterhead, Written
from indai.node.conversation import Conversation
from indai.node.desk import Consulted
from indai.node.inbound import Inbound
from indai.node.kinds.base import Answer
from indai.node.outbox import Outgoing
from indai.protocol.envelope import parse_envelope
from indai.protocol.group.signing import complete
from indai.protocol.group.state import Group
from indai.protocol.messages import Move, Terms
from indai.protocol.party_state import (
    Consult,
    Effect,
    Event,
    Forward,
    HostAnswers,
    Outcome,
    OwnerConvenes,
    Send,
    Sent,
    Side,
)
from indai.v1 import negotiation_pb2, policy_pb2


class GroupConversation(Conversation):
    """The coordinator's steps within one batch."""

    _letters: dict[str, Letterhead]

    def _open(self, side: Side, event: Event) -> None:
        super()._open(side, event)
        if isinstance(event, OwnerConvenes):
            handles = ", ".join(member.handle for member in event.members)
            self._draft.set(kind=event.wish.kind, title=event.wish.about(), peer=handles)

    @property
    def _group(self) -> Group:
        group = self._draft.thread.side.group
        if group is None:
            raise RuntimeError("this thread is not of several")
        return group

    def _keep_received(self, inbound: Inbound) -> None:
        """A vote's signature is kept in the state: votes share one mid, whose row is the complete one's."""
        message = inbound.message
        if message.move is not Move.ACCEPT:
            self.keep(message, inbound.envelope.raw, inbound.header_id, outgoing=False)

    async def _carry_out(self, effect: Effect) -> Event | None:
        if isinstance(effect, Forward):
            await self._forward(effect.mid)
            return None
        return await super()._carry_out(effect)

    async def _consult(self, consult: Consult) -> HostAnswers:
        """Our own policy is asked about each member: their windows, and in the end the slot."""
        said = consult.terms
        module = self._desk.kinds[said.kind]
        for member in self._group.members:
            case = replace(self._case(), peer=member.handle)
            if isinstance(said, Terms):
                answer = await module.sign(case, said)
            else:
                answer = await module.propose(case, said)
            refused = answer.outcome == policy_pb2.OUTCOME_REFUSE
            self._judged(answer, refused=refused)
            if refused:
                return HostAnswers(Outcome.REFUSE, reason=answer.reason)
            said = answer.terms or answer.wish or said
        if self._bars(said):
            return self._overtaken(said)
        return HostAnswers(Outcome.PERMIT, said)

    def _judged(self, answer: Answer, *, refused: bool) -> None:
        # Our owner asked for it in so many words: what the policy would ask about, they have answered.
        asks = answer.outcome == policy_pb2.OUTCOME_ASK
        self._consulted = Consulted(answer, asks)
        self._note(answer, Outcome.REFUSE if refused else Outcome.PERMIT, asks)

    async def _send(self, send: Send) -> Sent:
        group, draft = self._group, self._draft
        to = group.handles((send.to,)) if send.to else tuple(member.handle for member in group.members)
        self._letters = {handle: await self._desk.letterhead_to(handle) for handle in to}
        first = self._letters[to[0]]
        others: Sequence[negotiation_pb2.Party] = ()
        if send.move is Move.OFFER:
            others = [compose.party_of(self._letters[handle]) for handle in to[1:]]
        body = send.body
        if send.move is Move.RECEIPT:
            receipt = self._receipt(send.in_reply_to)
            body = replace(receipt, commitment=draft.thread.commitment or b"")
        if body is None:
            raise RuntimeError(f"{send.move.name} has no body")
        now = draft.now_ms
        written = compose.write(
            first,
            send.move,
            body,
            draft.thread.side.thread_id,
            send.in_reply_to,
            now,
            now + send.expires_in_ms,
            send.supersedes,
            others=others,
            hops=draft.thread.side.hops,
        )
        self._store(written)
        return Sent(written.message)

    def _post(self, written: Written) -> None:
        draft = self._draft
        for handle, letterhead in self._letters.items():
            sent = written
            if written.message.move is not Move.QUERY:
                sent = self._relayed(letterhead, written.envelope.raw)
            move, thread = sent.message.move.value, draft.thread.side.thread_id
            draft.add("outbox", mid=sent.message.mid, move=move, recipient=handle)
            draft.sends.append(
                Outgoing(draft.owner, thread, sent.message.mid, move, handle, sent.envelope.raw)
            )

    def _relayed(self, letterhead: Letterhead, raw: bytes) -> Written:
        draft = self._draft
        sent = compose.relay(letterhead, raw, draft.thread.side.thread_id, draft.now_ms)
        self.keep(sent.message, sent.envelope.raw, sent.header_id, outgoing=True)
        return sent

    async def _forward(self, mid: bytes) -> None:
        """What one member said about the commitment, to all the others."""
        side, raw = self._draft.thread.side, self._events[mid]
        event = side.life.find(mid) if side.life else None
        others = [member.handle for member in self._group.members if event and member.subject != event.sender]
        for handle in others:
            letterhead = await self._desk.letterhead_to(handle)
            sent = self._relayed(letterhead, raw)
            message = sent.message
            move = message.move.value
            self._draft.add("outbox", mid=message.mid, move=move, recipient=handle)
            self._draft.sends.append(
                Outgoing(self._draft.owner, message.thread, message.mid, move, handle, sent.envelope.raw)
            )

    def _commit(self, mid: bytes) -> None:
        """All have signed: what goes into the ledger, and is kept, has every signature."""
        draft, offer = self._draft, self._draft.thread.commitment
        if offer is None:
            raise RuntimeError("there is nothing to commit")
        envelope = complete(parse_envelope(offer), self._group.votes)
        header = negotiation_pb2.Commitment.FromString(envelope.payload).header
        draft.add(
            "messages",
            mid=mid,
            move=Move.ACCEPT.value,
            thread=draft.thread.side.thread_id,
            outgoing=False,
            header_id=header.id,
            envelope=envelope.raw,
            cause_mid=None,
            cause_move=None,
            decision=None,
            stored_ms=draft.now_ms,
        )
        draft.state = replace(draft.thread, commitment=envelope.raw)
        super()._commit(mid)

"""One batch: its items, decided one after the other, each on what those before it have come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asyncpg
import structlog
from indai.node import several
from indai.node.book import Book
from indai.node.context import Context
from indai.node.conversation import Conversation
from indai.node.crowd import Crowd
from indai.node.desk import Cause
from indai.node.draft import Draft, ThreadState, intent_of
from indai.node.holdings import Holdings
from indai.node.inbound import MAX_HEAD_AGE_MS, Inbound
from indai.node.items import Act, Answered, Approval, Convene, Deliver, Item, Start, Wake, Withdrawal
from indai.node.late import is_hopeless
from indai.node.moving import Moves
from indai.node.store import Key, hexed
from indai.protocol import header
from indai.protocol.copies import replace
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason, Refused, Unavailable
from indai.protocol.messages import Message, Move
from indai.protocol.party_state import (
    Event,
    OwnerAnswers,
    OwnerStarts,
    OwnerWithdraws,
    Phase,
    Tick,
)

log = structlog.get_logger(__name__)


class Batch(Book):
    """Takes items one after the other."""

    def __init__(
        self,
        context: Context,
        threads: Mapping[Key, ThreadState],
        reserved: Mapping[str, Holdings],
        crowds: Mapping[str, Crowd],
        size: int,
    ) -> None:
        super().__init__(context, threads, reserved, crowds, size)
        self._outcomes: list[tuple[Item, Any]] = []
        self._moves = Moves(self, context)

    async def take(self, item: Item) -> None:
        """Decide one item; what it changes is kept only if it succeeds."""
        try:
            result: Any = await self._process(item)
        except IndaiError as error:
            result = error
        except asyncpg.PostgresError:
            raise  # the batch's transaction, not this item
        except Exception as error:
            # A fault of ours that one message uncovers must not fail the others beside it.
            log.exception("item failed", owner=item.owner, thread=item.thread.hex())
            result = IndaiError(Reason.INTERNAL, f"The node failed: {type(error).__name__}.")
        self._outcomes.append((item, result))

    def answer(self) -> None:
        """Tell everybody who waits. Called after COMMIT."""
        for item, result in self._outcomes:
            if isinstance(result, IndaiError):
                item.fail(result)
            else:
                item.succeed(result)

    async def _process(self, item: Item) -> Any:
        if (item.owner, item.thread) in self._erased:
            raise Refused(Reason.THREAD_CLOSED, "This has ended, and its owner has erased it.")
        match item:
            case Deliver():
                return await self._deliver(item.inbound)
            case Answered():
                return await self._answered(item)
            case Start():
                return await self._start(item)
            case Convene():
                await self._convene(item)
            case Approval():
                return await self._approval(item)
            case Act():
                await self._step(item, item.said)
            case Withdrawal():
                await self._step(item, OwnerWithdraws())
            case Wake():
                await self._step(item, Tick())
        return None

    async def _step(self, item: Item, event: Event) -> None:
        """An event of a thread that exists; nothing for one that does not."""
        if self.state(item.owner, item.thread) is not None:
            draft = self.draft(item.owner, item.thread)
            await self._conversation(draft, draft.thread.columns["peer"]).run(event)
            await self._moves.finish(draft)

    async def _deliver(self, inbound: Inbound) -> list[bytes]:
        message = inbound.message
        state = self.state(inbound.owner, message.thread)
        if state is not None and state.side.knows(message):
            if not inbound.proven:
                raise ProtocolError(
                    Reason.REPLAYED,
                    "The message was taken before; what was answered then stands.",
                    rule="HDR-06",
                )
            return await self._replies(inbound.owner, message)
        now_ms = self._context.clock()
        self._context.budget.take(inbound.owner, inbound.peer, now_ms, begins=state is None)
        if state is not None:
            inbound.check_scope(intent_of(state), self._context.clock())
        # An acceptance has the offer's times, and how late it may be the offerer decides.
        if message.move is not Move.ACCEPT:
            header.check_time(message.issued_at_ms, message.expires_at_ms, self._context.clock())
        draft = self.draft(inbound.owner, message.thread)
        if state is None or not state.side.phase.ended:
            await self._moves.hear(draft, message)
        if state is None:  # what has to wait and comes again has begun nothing yet
            self._context.echoes.hear(inbound.owner, inbound.peer, now_ms)
        await self._receive(draft, inbound)
        if state is None or state.side.thread is None or draft.thread.side.phase is Phase.ASKING_OWNER:
            crowd = self._crowd(inbound.owner).copy()
            crowd.move(state, draft.thread)
            crowd.check(inbound.peer)
        await self._moves.finish(draft)
        return draft.replies

    async def _replies(self, owner: str, message: Message) -> list[bytes]:
        """What was answered to a known message at once, be it earlier in this very batch."""
        cause = (owner, hexed(message.mid), message.move.value)
        fresh = [
            bytes.fromhex(row["envelope"].removeprefix("\\x"))
            for row in self._rows.get("messages", ())
            if (row["owner"], row["cause_mid"], row["cause_move"]) == cause
        ]
        return fresh or await self._context.store.replies(owner, message.mid, message.move.value)

    async def _receive(self, draft: Draft, inbound: Inbound) -> None:
        message = inbound.message
        if message.move is Move.ACCEPT:
            self.points.append("before-receipt")
        cause = Cause(message.mid, message.move.value, inbound.proven)
        conversation = self._conversation(draft, inbound.peer, cause)
        await conversation.receive(inbound)

    async def _answered(self, item: Answered) -> None:
        """The row leaves the outbox with the peer's answer; each reply stands for itself.

        Only what the reply itself did wrong is final. When our own side can't take it now, or it came before
        what it follows, the whole item is taken back, and the outbox brings it again: it comes no other way.
        """
        known = self.state(item.owner, item.thread)
        if item.reason == Reason.OUT_OF_ORDER.name and not is_hopeless(item, known, self._context.clock()):
            raise Unavailable(Reason.UNREACHABLE, "What the message follows is still on its way.")
        before = self.mark()
        draft = self.draft(item.owner, item.thread)
        draft.add("acks", mid=item.outgoing.mid, move=item.outgoing.move)
        if item.reason and item.reason != Reason.REPLAYED.name:
            draft.journal(
                "refused-by-peer", item.reason, f"{item.outgoing.recipient}'s node: {item.sentence}"
            )
            self._refused(draft, item)
            self._drop_answers(draft, item)
            await several.refused(self._context, draft, item)
        await self._moves.finish(draft)
        for reply in item.replies:
            try:
                await self._deliver(replace(reply, proven=False))
            except ProtocolError as error:
                if error.reason is Reason.OUT_OF_ORDER:
                    self.return_to(before)
                    raise
                if error.reason is not Reason.REPLAYED:
                    self._note_refused(item, reply, error)
            except Exception:
                self.return_to(before)
                raise

    def _note_refused(self, item: Answered, reply: Inbound, error: ProtocolError) -> None:
        """The owner sees on the thread itself why the peer's answer does not count."""
        log.warning("reply refused", owner=item.owner, reason=error.reason.name, error=error.message)
        noted = self.draft(item.owner, item.thread)
        noted.journal("refused-message", error.reason.name, error.message, reply.message.mid)
        hint = f" ({error.hint})" if error.hint else ""
        noted.set(words=f"The answer of {reply.peer} was refused: {error.message}{hint}")
        self.merge(noted)

    def _refused(self, draft: Draft, item: Answered) -> None:
        """Our first message was refused as such: there is nobody to negotiate with."""
        side = draft.thread.side
        first = side.thread.messages[0].mid if side.thread else None
        if item.outgoing.mid == first and item.outgoing.move == Move.PROPOSE.value and not side.phase.ended:
            ended = replace(side, phase=Phase.REJECTED, reason=item.reason)
            draft.state = replace(draft.thread, side=ended)
            draft.set(words=f"{item.outgoing.recipient}'s node refused the message: {item.sentence}")

    def _drop_answers(self, draft: Draft, item: Answered) -> None:
        """What follows a message of ours that never arrives can't arrive either."""
        thread = draft.thread.side.thread
        for message in thread.messages if thread else ():
            own = message.sender == draft.thread.side.owner and message.move is not Move.ACCEPT
            if own and message.in_reply_to == item.outgoing.mid:
                draft.add("acks", mid=message.mid, move=message.move.value)
                self.dropped.append((draft.owner, message.mid, message.move.value))

    async def _start(self, item: Start) -> None:
        own = await self._context.resolver.resolve(item.owner, max_age_ms=MAX_HEAD_AGE_MS)
        peer = await self._context.resolver.resolve(item.peer, max_age_ms=MAX_HEAD_AGE_MS)
        await self._context.host.check_hands(item.owner, peer.chain)
        draft = self.draft(item.owner, item.thread)
        await self._moves.begin(draft, item)
        conversation = self._conversation(draft, item.peer, request_id=item.request_id)
        subjects, hops = (own.subject_id, peer.subject_id), await self._hops(item)
        await conversation.run(OwnerStarts(item.wish, item.thread, *subjects, item.supersedes, hops))
        await self._moves.finish(draft)

    async def _convene(self, item: Convene) -> None:
        draft = self.draft(item.owner, item.thread)
        old = await self._moves.begin(draft, item)
        await several.convene(self._context, draft, item, await self._hops(item), old)
        await self._moves.finish(draft)

    async def _hops(self, item: Start | Convene) -> int:
        """How many agents have passed on what leads to the new thread: one more than to the one
        it names that has the most."""
        keys = [(item.owner, thread) for thread in item.passes_on]
        unknown = [key for key in keys if self.state(*key) is None]
        if unknown:
            self.keep(await self._context.store.load([item.owner], unknown, [], self._context.clock()))
        hops = 0
        for key in keys:
            because = self.state(*key)
            if because is None:
                raise NotFound(Reason.NOT_FOUND, "There is no such thread to pass on.", hint="indai threads")
            hops = max(hops, because.side.hops + 1)
        header.check_hops(hops)
        return hops

    async def _approval(self, item: Approval) -> Refused | None:
        if self.state(item.owner, item.thread) is None:
            raise NotFound(Reason.NOT_FOUND, "There is no such question.", hint="indai inbox")
        draft = self.draft(item.owner, item.thread)
        side = draft.thread.side
        if side.phase is Phase.ASKING_OWNER and draft.now_ms >= side.deadline_ms:
            # Silence until the deadline was the answer; it is given now, and the owner told after COMMIT.
            await self._step(item, Tick())
            return Refused(Reason.THREAD_CLOSED, "The question had run out before your answer came.")
        state = "countered" if item.instead else "approved" if item.approved else "declined"
        await self._moves.answer(draft, item.instead or side.terms, approved=item.approved)
        # The table's compare-and-set makes it single-use, whatever memory says.
        draft.add("answers", action_hash=item.action_hash, state=state)
        draft.journal("approval", state.upper(), f"You {state} this.")
        conversation = self._conversation(draft, draft.thread.columns["peer"])
        await conversation.run(OwnerAnswers(item.approved, item.instead))
        await self._moves.finish(draft)
        return None

    def _conversation(
        self, draft: Draft, peer: str, cause: Cause | None = None, request_id: str | None = None
    ) -> Conversation:
        return several.conversation(self._context, draft, peer, cause, request_id)

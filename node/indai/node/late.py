"""What can be told of an item before its thread is looked up, and of a message whose time is over."""

from __future__ import annotations

from indai.node.draft import ThreadState
from indai.node.items import Answered, Convene, Deliver, Item, Start
from indai.protocol.header import GRACE_MS
from indai.protocol.messages import Move


def begins(item: Item, now_ms: int) -> bool:
    """Whether the item begins a thread, as far as can be told without looking: what would be refused if it
    were new (late, or superseding) is looked up, since a known message gets its stored outcome."""
    if not isinstance(item, Deliver) or item.retried:
        return isinstance(item, Start | Convene)
    said = item.inbound.message
    return not said.in_reply_to and not said.supersedes and now_ms <= said.expires_at_ms


def is_hopeless(item: Answered, state: ThreadState | None, now_ms: int) -> bool:
    """Whether a message that the peer calls OUT_OF_ORDER follows one of ours that can't arrive any more: an
    offer that rode in a response, came too late and was refused there. Nobody tells us of that."""
    thread = state.side.thread if state else None
    said = thread.find(item.outgoing.mid, Move(item.outgoing.move)) if thread else None
    if thread is None or said is None:
        return False
    asks = (Move.PROPOSE, Move.COUNTER, Move.OFFER)
    followed = (one for one in thread.messages if one.mid == said.in_reply_to and one.move in asks)
    late_ms = now_ms - 2 * GRACE_MS
    return any(one.sender == said.sender and one.expires_at_ms < late_ms for one in followed)

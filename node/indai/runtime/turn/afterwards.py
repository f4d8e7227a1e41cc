"""Who talks, whether an answer goes out at all, and what its owner is told of it afterwards."""

from __future__ import annotations

from datetime import UTC, datetime

from indai.protocol.errors import Reason
from indai.runtime.conversations.notices import Notices
from indai.runtime.conversations.values import Thought, Turn
from indai.runtime.turn.state import Context
from indai.runtime.words import say


def is_owner(turn: Turn) -> bool:
    """Whether the agent's own, verified owner speaks."""
    place = turn.session.place
    return place.door == "private" and turn.request.sender.verified and place.handle in turn.handles


def person_of(turn: Turn) -> str:
    """Who talks, as tools know them: the owner, a proved handle, or the person's id."""
    if is_owner(turn):
        return turn.session.place.handle
    if turn.request.sender.verified and turn.handles:
        return turn.handles[0]
    return turn.session.person.hex


def drafts_only(context: Context) -> bool:
    """Whether what the agent would say waits for its owner: it is only drafted."""
    return context.composed.agent.autonomy == "draft" and not is_owner(context.turn)


async def tell_owner(notices: Notices, context: Context, thought: Thought) -> None:
    """What the owner should know of what happened to somebody else at their agent."""
    place, tell = context.turn.session.place, notices.tell
    if place.door == "private" or not place.handle:
        return
    day = datetime.fromtimestamp(context.caller.now_ms / 1000, UTC).date().isoformat()
    if thought.ending == "degraded":
        budget = thought.reason == Reason.OVER_BUDGET.name
        key = "notice_budget" if budget else "notice_degraded"
        await tell(place.handle, f"{key} {day}", say(key))
    if thought.trace.get("disabled"):
        await tell(place.handle, f"tool {context.turn.session.id.hex}", say("notice_tool"))
    if "complaint" in thought.trace.get("tags", ()):
        await tell(place.handle, f"complaint {context.turn.id.hex}", say("notice_complaint"))
    if "draft" in thought.trace:
        words = f"{say('notice_draft')}\n{thought.trace['draft']}"
        await tell(place.handle, f"draft {context.turn.id.hex}", words)

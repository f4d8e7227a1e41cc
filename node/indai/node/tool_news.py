"""Tells conversations what became of work that a tool began in them: durable, and once for each thing."""

from __future__ import annotations

from uuid import UUID

from indai.runtime.conversations.outbound import Notice, Outbound
from indai.tools.values import Caller, Outcome, Push, Status
from indai.v1 import conversation_pb2 as pb

MOST = 6


def pushing(outbound: Outbound) -> Push:
    """A port of the toolbox onto what conversations send of their own accord."""

    async def push(caller: Caller, outcome: Outcome) -> None:
        session = _session(caller.session)
        if session is None:
            return  # an owner's program called: it looks for itself
        notice = Notice(key=_key(outcome), reply=pb.Reply(text=told(outcome), language="en"))
        # At a door of an organisation's own the conversation is the tenant's.
        for owner in dict.fromkeys((caller.owner, caller.tenant)):
            if owner and await outbound.put(owner, session, notice) is not None:
                return

    return push


def told(outcome: Outcome) -> str:
    """What is said of an outcome, without a model: its sentence, or its most important fields."""
    if outcome.words:
        return outcome.words
    if outcome.status is Status.NEEDS_APPROVAL and outcome.approval is not None:
        return f"{outcome.approval.terms}\n\nTo agree, answer with the code {outcome.approval.code}."
    weight = max((each.importance for each in outcome.fields), default=0)
    shown = [each for each in outcome.fields if each.importance == weight] or list(outcome.fields)
    lines = [f"{each.label}: {each.text}" for each in shown[:MOST]]
    return "\n".join(lines) or "It is done."


def _key(outcome: Outcome) -> str:
    """Names what is told, so that telling it again is one message."""
    if outcome.job:
        return f"tool-job:{outcome.job}"
    if outcome.approval is not None:
        return f"tool-approval:{outcome.approval.action_hash}:{outcome.approval.expires_at_ms}"
    return f"tool-thread:{outcome.thread}:{outcome.result.get('state', '')}"


def _session(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None

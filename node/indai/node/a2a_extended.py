"""The extended card: what a caller who has proved who they are is told beyond the public one (A2A 1.0, 8.3).

Whoever means to deal with this handle can check all of it against the registry: the subject and its keys, the
home node's ledger and the key that signs its heads, and what a message may be.
"""

from __future__ import annotations

from typing import Any, Final

from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from indai.client.resolver import Resolver
from indai.node.inbound import MAX_HEAD_AGE_MS
from indai.protocol.header import MAX_SKEW_MS
from indai.protocol.wire import MAX_MESSAGE
from indai.v1 import intents_pb2 as pb2
from indai.v1.negotiation_pb2 import Propose

_EXAMPLES: Final = {
    "meet": Propose(meet=pb2.MeetWish(title="Lunch", duration_minutes=30)),
    "share": Propose(share=pb2.ShareWish(field="email", consent=pb2.Consent(purpose_code="101"))),
    "ask": Propose(ask=pb2.AskWish(question="When are you open on Friday?")),
    "pay": Propose(pay=pb2.PayWish(amount_minor=150_000, currency="INR", purpose="Lamp")),
    "book": Propose(book=pb2.BookWish(item="table", title="A table", quantity=2)),
}
"""What a signed PROPOSE of each kind wishes, as JSON for readers; windows, ids and keys are the sender's."""


async def extend(card: pb.AgentCard, handle: str, resolver: Resolver) -> pb.AgentCard:
    """`card` with what the registry proves of `handle`, and examples for its skills. Raises as `resolve`."""
    own = await resolver.resolve(handle, max_age_ms=MAX_HEAD_AGE_MS)
    node = await resolver.node_of(own)
    record, said = node.state.node_record, own.state.advertisement
    told: dict[str, Any] = {
        "subject": own.subject_id,
        "network": resolver.policy.network,
        "keys": [key.key_id for key in own.state.agent_keys if not key.revoked_at_ms],
        "node": node.handle,
        "versions": list(said.versions) if said else [1],
        "languages": list(said.languages) if said else [],
        "doors": list(said.doors) if said else [],
        "max_envelope_bytes": (said.envelope_bytes if said else 0) or MAX_MESSAGE,
        "max_clock_skew_ms": MAX_SKEW_MS,
    }
    if record is not None:
        told |= {"ledger": record.ledger_origin, "ledger_key": record.ledger_vkey}
    for extension in card.capabilities.extensions:
        extension.params.update(told)
    for skill in card.skills:
        skill.examples.append(json_format.MessageToJson(_EXAMPLES[skill.id], indent=None))
    return card

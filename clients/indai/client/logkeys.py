"""Asking a registry how its log came by the key that it signs with now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indai.client.network import Head, NetworkPolicy
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.logkeys import KeyChange, announced_by
from indai.protocol.note import Verifier
from indai.v1 import registry_pb2

if TYPE_CHECKING:
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

_TIMEOUT_S = 30.0
MAX_CHANGES = 64  # a log changes its key in years, if ever


@dataclass(frozen=True, slots=True)
class Followed:
    """The policy with the log's newest key, the verified heads that show each change, and all keys."""

    policy: NetworkPolicy
    heads: tuple[Head, ...]
    keys: tuple[Verifier, ...]


async def log_keys(stub: RegistryServiceAsyncStub, known_size: int) -> list[tuple[KeyChange, list[bytes]]]:
    """Every change of the log's key, oldest first, and the proof that leads to its head; nothing is verified.

    The proof is from `known_size`, or from the head of the change before if that is larger. Raises what the
    stub's channel raises.
    """
    request = registry_pb2.ListLogKeysRequest(known_size=known_size)
    answer = await stub.ListLogKeys(request, timeout=_TIMEOUT_S)
    return [
        (
            KeyChange(one.index, one.leaf, tuple(one.inclusion_proof), one.checkpoint),
            list(one.consistency_proof),
        )
        for one in answer.changes[:MAX_CHANGES]
    ]


async def follow_log_keys(stub: RegistryServiceAsyncStub, policy: NetworkPolicy) -> Followed:
    """From the log's first key to its newest, through the one that `policy` believes.

    Whether the heads are of one log is for the caller to check. Raises as `NetworkPolicy.follow`, and
    ProtocolError(BAD_SIGNATURE) when the registry does not show how the believed key came about.
    """
    followed, heads, keys = policy.with_log(policy.first), list[Head](), [policy.first]
    for change, _ in await log_keys(stub, 0):
        if announced_by(change.leaf) == followed.log:
            head, followed = followed.follow(change)
            heads.append(head)
            keys.append(followed.log)
    if policy.log not in keys:
        message = f"The registry does not show how {policy.origin} came by the key that is believed here."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="REG-44")
    return Followed(followed, tuple(heads), tuple(keys))

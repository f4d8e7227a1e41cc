"""Operations on handles, signed here with rotation keys that never leave this machine.

The node makes agent keys and knows their secrets; the registry stores what was signed; only these functions
hold a rotation key, and only while they sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from indai.cli.errors import wrong
from indai.cli.home import Home
from indai.cli.session import Registry, now_ms, operator_session, registry_session
from indai.client import handlekeys
from indai.client.resolver import Resolved
from indai.protocol.envelope import Envelope
from indai.protocol.errors import NotFound, Reason, Refused
from indai.protocol.handles import Handle, check_claimable
from indai.protocol.handlestate import NodeRecord
from indai.protocol.keys import SigningKey
from indai.v1 import owner_pb2, registry_pb2

if TYPE_CHECKING:
    from indai.v1.owner_pb2_grpc import OperatorServiceAsyncStub

INTENTS = ("meet",)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A handle that lives on a node now."""

    handle: str
    subject_id: str
    node: str
    key_id: str
    token_file: Path
    rotation_file: Path


async def claim_handle(
    home: Home, handle: str, *, policy_yaml: str = "", calendar: str = "", registry: str = ""
) -> Claimed:
    """Give `handle` a rotation key, an agent on the node, and its CREATE in the registry's log.

    A claim that was interrupted is completed when it is made again. Raises Refused(HANDLE_TAKEN).
    """
    parsed = Handle.parse(handle)
    check_claimable(parsed)
    name = str(parsed)
    async with registry_session(home, registry) as where, operator_session(home) as operator:
        if await find(where, name) is not None:
            raise Refused(Reason.HANDLE_TAKEN, f"The handle {name} is taken.", hint="choose another name")
        signer = rotation_key(home, name, create=True)
        node, agent_key = await _agent(home, operator, name, policy_yaml, calendar)
        operation = handlekeys.claim(
            name,
            where.network.origin,
            [signer],
            now_ms=now_ms(),
            agent_keys=[handlekeys.new_agent_key(agent_key.public_key, now_ms())],
            node=node,
            intents=INTENTS,
        )
        await submit(where, operation)
        await where.resolver.tail()  # it has just proved that the handle was free
        record = await where.resolver.resolve(name)
    return Claimed(
        name, record.subject_id, node, agent_key.key_id, home.token_file(name), home.rotation_file(name)
    )


async def rotate_key(home: Home, handle: str, old_key_id: str = "", registry: str = "") -> tuple[str, str]:
    """Put a fresh agent key in the place of one: (old key id, new key id)."""
    name = str(Handle.parse(handle))
    async with registry_session(home, registry) as where, operator_session(home) as operator:
        record = await where.resolver.resolve(name)
        signer = rotation_key(home, name)
        # A handle whose last key was revoked gets a new one beside it.
        old = _chosen(record, old_key_id) if old_key_id or _live(record) else ""
        request = owner_pb2.CreateAgentKeyRequest(handle=name)
        made = (await operator.CreateAgentKey(request)).agent_key
        new, now = handlekeys.new_agent_key(made.public_key, now_ms()), now_ms()
        if old:
            operation = handlekeys.rotate_agent_key(record.chain, signer, old, new, now_ms=now)
        else:
            operation = handlekeys.add_agent_key(record.chain, signer, new, now_ms=now)
        await submit(where, operation)
    return old, made.key_id


async def revoke_key(home: Home, handle: str, key_id: str = "", registry: str = "") -> str:
    """End an agent key: its id."""
    name = str(Handle.parse(handle))
    async with registry_session(home, registry) as where:
        record = await where.resolver.resolve(name)
        old = _chosen(record, key_id)
        signer = rotation_key(home, name)
        await submit(where, handlekeys.revoke_agent_key(record.chain, signer, old, now_ms=now_ms()))
    return old


async def enrol_node(home: Home, registry: str, handle: str, record: registry_pb2.NodeRecord) -> None:
    """Claim a node's handle, or bring its record up to date when its address or a key has changed."""
    wanted = NodeRecord(record.address, record.tls_spki_sha256, record.ledger_origin, record.ledger_vkey)
    async with registry_session(home, registry) as where:
        before = await find(where, handle)
        if before is None:
            signer = rotation_key(home, handle, create=True)
            origin = where.network.origin
            await submit(
                where, handlekeys.claim(handle, origin, [signer], now_ms=now_ms(), node_record=wanted)
            )
        elif before.state.node_record != wanted:
            signer = rotation_key(home, handle)
            await submit(where, handlekeys.set_node_record(before.chain, signer, wanted, now_ms=now_ms()))


async def find(where: Registry, handle: str) -> Resolved | None:
    """The handle's verified record; None when the registry proves that it is not taken."""
    try:
        return await where.resolver.resolve(handle)
    except NotFound:
        return None


async def submit(where: Registry, operation: Envelope) -> None:
    """Append a signed operation to the registry's log."""
    await where.stub.SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))


def rotation_key(home: Home, handle: str, *, create: bool = False) -> SigningKey:
    """The handle's rotation key, from its file; a new one is made for a claim."""
    path = home.rotation_file(handle)
    if path.exists():
        return handlekeys.load_key_file(path)
    if not create:
        raise NotFound(
            Reason.NOT_FOUND,
            f"The rotation key of {handle} is not in {path.parent}.",
            hint=f"bring it back for this command: put its file at {path}",
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return handlekeys.create_key_file(path)


async def _agent(
    home: Home, operator: OperatorServiceAsyncStub, handle: str, policy_yaml: str, calendar: str
) -> tuple[str, registry_pb2.AgentKey]:
    """(node, first key) of a new agent, or of one whose claim was interrupted before the registry knew it."""
    if not home.token_file(handle).exists():
        request = owner_pb2.CreateAgentRequest(handle=handle, calendar_path=calendar, policy_yaml=policy_yaml)
        made = await operator.CreateAgent(request)
        home.write(home.token_file(handle), made.token + "\n")
        return made.node, made.agent_key
    node = (await operator.GetNode(owner_pb2.GetNodeRequest())).handle
    again = await operator.CreateAgentKey(owner_pb2.CreateAgentKeyRequest(handle=handle))
    return node, again.agent_key


def _chosen(record: Resolved, key_id: str) -> str:
    """The key meant: the one named, or the only one that is not revoked."""
    live = _live(record)
    if key_id:
        return key_id
    if len(live) == 1:
        return live[0]
    if not live:
        raise NotFound(
            Reason.NOT_FOUND,
            f"{record.handle} has no agent key that is not revoked.",
            hint=f"see: indai handle resolve {record.handle}",
        )
    raise wrong(f"{record.handle} has {len(live)} agent keys.", "name one: " + ", ".join(live))


def _live(record: Resolved) -> list[str]:
    return [key.key_id for key in record.state.agent_keys if not key.revoked_at_ms]

"""Operations on handles, signed here with rotation keys that never leave this machine.

The node makes agent keys and knows their secrets; the registry stores what was signed; only these functions
hold a rotation key, and only while they sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from indai.cli.errors import wrong
from indai.cli.home import Home
from indai.cli.operation_files import write_operation
from indai.cli.session import Registry, now_ms, operator_session, registry_session
from indai.client import handlekeys
from indai.client.resolver import Resolved
from indai.protocol.envelope import Envelope
from indai.protocol.errors import IndaiError, NotFound, Reason, Refused
from indai.protocol.handles import Handle, check_claimable
from indai.protocol.handlestate import NodeRecord
from indai.protocol.keys import SigningKey
from indai.protocol.operations import Chain
from indai.v1 import owner_pb2, registry_pb2

if TYPE_CHECKING:
    from indai.v1.owner_pb2_grpc import OperatorServiceAsyncStub


@dataclass(frozen=True, slots=True)
class Claimed:
    """A handle that lives on a node now."""

    handle: str
    subject_id: str
    node: str
    key_id: str
    token_file: Path
    rotation_file: Path
    warnings: tuple[str, ...] = ()


async def claim_handle(
    home: Home,
    handle: str,
    *,
    policy_yaml: str = "",
    calendar: str = "",
    registry: str = "",
    key: str = "",
    invite: str = "",
    voucher: bytes = b"",
) -> Claimed:
    """Give `handle` a rotation key, an agent on the node, and its CREATE in the registry's log.

    `key` is a key file that exists already, such as the one a handle was transferred to. A claim that was
    interrupted is completed when it is made again. Raises Refused(HANDLE_TAKEN).
    """
    from indai.node.kinds.served import INTENTS  # noqa: PLC0415 -- other commands start sooner without it

    parsed = Handle.parse(handle)
    check_claimable(parsed)
    name = str(parsed)
    async with registry_session(home, registry) as where, operator_session(home) as operator:
        before = await find(where, name)
        if before is not None and not before.chain.ended_at_ms:
            raise Refused(Reason.HANDLE_TAKEN, f"The handle {name} is taken.", hint="choose another name")
        signer = handlekeys.load_key_file(Path(key)) if key else rotation_key(home, name, create=True)
        node, agent_key = await _agent(home, operator, name, policy_yaml, calendar)
        operation = handlekeys.claim(
            name,
            where.network.origin,
            [signer],
            now_ms=now_ms(),
            agent_keys=[handlekeys.new_agent_key(agent_key.public_key, now_ms())],
            node=node,
            intents=INTENTS,
            predecessor=before.chain if before else None,
        )
        try:
            warnings = await submit(where, operation, invite=invite, voucher=voucher)
        except IndaiError as error:
            raise _kept(home, operation, name, error) from error
        await where.resolver.tail()  # it has just proved that the handle was free
        record = await where.resolver.resolve(name)
    return Claimed(
        name,
        record.subject_id,
        node,
        agent_key.key_id,
        home.token_file(name),
        Path(key) if key else home.rotation_file(name),
        warnings,
    )


async def new_agent_key(home: Home, handle: str) -> bytes:
    """The public half of a new agent key, which the handle's node makes and keeps."""
    async with operator_session(home) as operator:
        request = owner_pb2.CreateAgentKeyRequest(handle=str(Handle.parse(handle)))
        return (await operator.CreateAgentKey(request)).agent_key.public_key


def rotate_to(
    chain: Chain,
    signer: SigningKey,
    old: str,
    public_key: bytes,
    now: int,
    *,
    scopes: Sequence[str] = (),
    limits: Sequence[tuple[str, int]] = (),
) -> tuple[Envelope, str]:
    """The operation that puts an agent key in the place of one, and that one's id ("": it had none left)."""
    new = handlekeys.new_agent_key(public_key, now, scopes=scopes, limits=limits)
    # A handle whose last key was revoked gets a new one beside it.
    revoked = chosen_key(chain, old) if old or _live(chain) else ""
    if revoked:
        return handlekeys.rotate_agent_key(chain, signer, revoked, new, now_ms=now), revoked
    return handlekeys.add_agent_key(chain, signer, new, now_ms=now), ""


async def enrol_node(home: Home, registry: str, handle: str, record: registry_pb2.NodeRecord) -> None:
    """Claim a node's handle, or bring its record up to date when its address or a key has changed."""
    wanted = NodeRecord.from_proto(record)
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


async def submit(
    where: Registry, operation: Envelope, *, invite: str = "", voucher: bytes = b""
) -> tuple[str, ...]:
    """Append a signed operation to the registry's log; what the registry has to say about it."""
    request = registry_pb2.SubmitOperationRequest(operation=operation.raw, invite=invite, voucher=voucher)
    return tuple((await where.stub.SubmitOperation(request)).warnings)


def _kept(home: Home, operation: Envelope, name: str, error: IndaiError) -> IndaiError:
    """A claim's error. A domain confirms one CREATE, which is kept: another would be another subject."""
    if error.metadata.get("rule") != "REG-41":
        return error
    path = home.claim_file(name)
    write_operation(str(path), operation)
    return Refused(
        error.reason,
        error.message,
        hint=f"{error.hint}; then: indai handle submit {path}",
        metadata=error.metadata,
    )


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


def chosen_key(chain: Chain, key_id: str) -> str:
    """The agent key meant: the one named, or the only one that is not revoked."""
    live = _live(chain)
    if key_id:
        return key_id
    if len(live) == 1:
        return live[0]
    if not live:
        raise NotFound(
            Reason.NOT_FOUND,
            f"{chain.handle} has no agent key that is not revoked.",
            hint=f"see: indai handle resolve {chain.handle}",
        )
    raise wrong(f"{chain.handle} has {len(live)} agent keys.", "name one: " + ", ".join(live))


def _live(chain: Chain) -> list[str]:
    return [key.key_id for key in chain.state.agent_keys if not key.revoked_at_ms]

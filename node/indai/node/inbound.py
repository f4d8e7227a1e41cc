"""From bytes off the wire to a message that may be acted on: the checks that need no database.

Order as in `indai.protocol.header`: size and form, the signer's key at our newest verified head, the
signature, network and audience. What follows (replay, time, the thread's rules, policy) is the engine's,
since it needs the stored state. A header is read before its signature is checked only to find the key: a
lie there finds the wrong key, and the signature fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from indai.client.gossip import Heard
from indai.client.resolver import Resolved, Resolver
from indai.node.agents import Agents
from indai.protocol import header as rules
from indai.protocol import hello
from indai.protocol.delegations import check_delegation
from indai.protocol.envelope import Envelope, parse_envelope, verify_signature
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason, Refused, Unavailable
from indai.protocol.group.signing import check_complete, read, signer_of
from indai.protocol.kinds.table import KINDS, cost_to, read_terms
from indai.protocol.messages import Message, Move, Payload
from indai.protocol.operations import Chain
from indai.protocol.quoting import quoted
from indai.protocol.wire import strict_parse
from indai.v1 import envelope_pb2, negotiation_pb2

PAYLOADS: dict[str, type[Payload]] = {
    "move": negotiation_pb2.Move,
    "commitment": negotiation_pb2.Commitment,
    "receipt": negotiation_pb2.Receipt,
    "event": negotiation_pb2.Event,
}
REFRESH_MS = 5_000
MAX_HEAD_AGE_MS = 10 * 60_000  # meet: a key is judged at a head no older than this


@dataclass(frozen=True, slots=True)
class Inbound:
    """One verified message for one local owner. `proven` says that the sender's own node delivered it."""

    owner: str
    peer: str
    envelope: Envelope
    payload: Payload
    message: Message
    header_id: bytes
    peer_key: str
    proven: bool
    authority: tuple[Chain, ...] = ()
    signature: bytes = b""  # of a vote on a commitment of several: the voter's own
    commitment: bytes = b""  # what a RECEIPT to several carries, every signature verified

    def check_scope(self, intent: str, now_ms: int) -> None:
        """Whether its signer may act in this kind of intent; raises ProtocolError. The gate has looked at
        what the message itself says: a HOLD or an event is of its thread's kind.
        """
        if self.authority:
            self.authority[-1].key_valid_at(self.peer_key, now_ms, intent)
            check_delegation(self.authority, intent, now_ms)


@dataclass(frozen=True, slots=True)
class _Claim:
    """Who signed and for whom, as the message says."""

    owner: str
    owner_subject: str
    peer: str
    peer_subject: str


class Gate:
    """Verifies what peers send. Raises ProtocolError or NotFound, and nothing is stored.

    `hear` is told which registry head the sender of each verified message has seen; `check_hands` refuses a
    peer whose handle was somebody else's when the owner's rules were set.
    """

    def __init__(
        self,
        resolver: Resolver,
        agents: Agents,
        clock: Callable[[], int],
        hear: Callable[[Heard], None],
        check_hands: Callable[[str, Chain], Awaitable[None]],
    ) -> None:
        self._check_hands = check_hands
        self._resolver = resolver
        self._hear = hear
        self._agents = agents
        self._clock = clock
        self._refreshed_ms = 0

    async def check(self, raw: bytes, caller_spki: bytes | None, now_ms: int) -> Inbound:
        """Every check before the database, in order."""
        envelope = parse_envelope(raw)
        payload = _parse(envelope)
        carried = _carried(payload)
        if carried is None:
            return await self._check(envelope, payload, caller_spki, now_ms, _claim(payload, envelope))
        outer = payload.header
        await self._check_sender(envelope, payload, _claim(payload, envelope), now_ms)
        inner = parse_envelope(carried)
        said = _parse(inner)
        return await self._check(inner, said, caller_spki, now_ms, _relayed(outer, said), relayed=True)

    async def _check_sender(
        self, envelope: Envelope, payload: Payload, claim: _Claim, now_ms: int
    ) -> tuple[list[tuple[str, str, str]], Sequence[Chain]]:
        """Form, addressee, signatures, network and audience: (who signed, whose authority the last is)."""
        header = payload.header
        rules.check_form(header)
        if claim.owner not in self._agents:
            raise ProtocolError(
                Reason.WRONG_AUDIENCE,
                f"The message is for {quoted(claim.owner)}, who does not live here.",
                rule="HDR-03",
            )
        signers = await self._signers(payload, envelope)
        intent = _intent(payload)
        path: Sequence[Chain] = ()
        for index, (handle, subject, key_id) in enumerate(signers):
            amount = _cost(payload, first=index == 0)
            path = await self._verify(envelope, index, handle, subject, key_id, now_ms, intent, amount)
        rules.check_network(header.network, self._resolver.policy.network)
        own = await self._resolver.resolve(claim.owner, max_age_ms=MAX_HEAD_AGE_MS)
        rules.check_audience(claim.owner, claim.owner_subject, claim.owner, own.subject_id)
        self._check_subject(own)
        return signers, path

    async def _check(
        self,
        envelope: Envelope,
        payload: Payload,
        caller_spki: bytes | None,
        now_ms: int,
        claim: _Claim,
        *,
        relayed: bool = False,
    ) -> Inbound:
        header = payload.header
        signers, path = await self._check_sender(envelope, payload, claim, now_ms)
        peer = await self._resolver.resolve(claim.peer, max_age_ms=MAX_HEAD_AGE_MS)
        await self._check_hands(claim.owner, peer.chain)
        if header.sender == claim.peer and header.registry_size:
            self._hear(Heard(claim.peer, header.registry_size, header.registry_root))
        message = read(payload, envelope)
        commitment = b""
        if isinstance(payload, negotiation_pb2.Receipt) and payload.commitment:
            commitment = await self._complete(payload, claim.owner_subject, now_ms)
        if relayed and message.move is not Move.EVENT:
            message = replace(message, recipient=claim.owner_subject)
        proven = caller_spki is not None and await self._is_node_of(claim.peer, caller_spki)
        voted = message.move is Move.ACCEPT and message.parties and len(envelope.signatures) == 2
        return Inbound(
            claim.owner,
            claim.peer,
            envelope,
            payload,
            message,
            header.id,
            signers[-1][2],
            proven,
            tuple(path),
            envelope.signatures[1].sig if voted else b"",
            commitment,
        )

    async def _complete(self, receipt: negotiation_pb2.Receipt, owner: str, now_ms: int) -> bytes:
        """The commitment that a RECEIPT carries, with every signature verified (GRP-03)."""
        envelope = parse_envelope(receipt.commitment)
        commitment = check_complete(envelope, receipt.mid, receipt.header.sender_subject)
        if owner not in {party.subject_id for party in commitment.parties}:
            message = "The RECEIPT is of a commitment that its recipient is no party of."
            raise ProtocolError(Reason.WRONG_AUDIENCE, message, rule="HDR-03")
        for index, party in enumerate(commitment.parties):
            await self._verify(envelope, index, party.handle, party.subject_id, party.key_id, now_ms, "meet")
        return envelope.raw

    async def check_hello(
        self, raw: bytes, caller_spki: bytes | None, now_ms: int
    ) -> tuple[hello.Hello, bool]:
        """A HELLO for an agent here, and whether its sender's own node brought it; not yet its pin."""
        envelope = parse_envelope(raw)
        said = hello.read(envelope)
        header = said.header
        if header.recipient not in self._agents:
            raise ProtocolError(
                Reason.WRONG_AUDIENCE,
                f"The HELLO is for {quoted(header.recipient)}, who does not live here.",
                rule="HDR-03",
            )
        await self._verify(envelope, 0, header.sender, header.sender_subject, header.key_id, now_ms)
        rules.check_network(header.network, self._resolver.policy.network)
        own = await self._resolver.resolve(header.recipient, max_age_ms=MAX_HEAD_AGE_MS)
        rules.check_audience(header.recipient, header.recipient_subject, own.handle, own.subject_id)
        self._check_subject(own)
        rules.check_time(header.issued_at_ms, header.expires_at_ms, now_ms)
        return said, caller_spki is not None and await self._is_node_of(header.sender, caller_spki)

    def _check_subject(self, own: Resolved) -> None:
        """A message for who took over a handle is not for the former owner's agent."""
        try:
            self._agents.get(own.handle).check_subject(own.chain)
        except Refused:
            message = f"The message is for {own.subject_id}, who does not live here."
            raise ProtocolError(Reason.WRONG_AUDIENCE, message, rule="HDR-03") from None

    async def check_card(self, said: hello.Hello, now_ms: int) -> None:
        """The card is that of the sender's record, if need be of one that the registry shows only now."""
        sender = said.header.sender
        record = await self._resolver.resolve(sender, max_age_ms=MAX_HEAD_AGE_MS)
        if hello.record_digest(record.state) != said.card.record:
            if not await self._refreshed():
                # Perhaps a newer record than the one known here; not refused for good unseen.
                raise Unavailable(Reason.STALE_HEAD, f"The card of {sender} is not of the record known here.")
            record = await self._resolver.resolve(sender, max_age_ms=MAX_HEAD_AGE_MS)
        hello.check_record(said.card, record.chain, now_ms)

    async def _signers(self, payload: Payload, envelope: Envelope) -> list[tuple[str, str, str]]:
        """(handle, subject, key id) for each signature, from the signed bytes; the envelope's key ids are
        hints."""
        if not isinstance(payload, negotiation_pb2.Commitment):
            header = payload.header
            named = [(header.sender, header.sender_subject, header.key_id)]
        else:
            named = [(party.handle, party.subject_id, party.key_id) for party in payload.parties]
            voter = signer_of(payload, envelope)
            named = [named[0], named[voter]] if voter else named[: len(envelope.signatures)]
        if len(named) != len(envelope.signatures):
            raise ProtocolError(Reason.MALFORMED, "There are more signatures than parties.", rule="NEG-01")
        return named

    async def _verify(
        self,
        envelope: Envelope,
        index: int,
        handle: str,
        subject: str,
        key_id: str,
        now_ms: int,
        intent: str = "",
        amount: tuple[str, int] | None = None,
    ) -> Sequence[Chain]:
        """The signature counts; who is answerable for it, from the handle that is nobody's sub-agent on."""
        try:
            record: Resolved = await self._resolver.resolve(handle, max_age_ms=MAX_HEAD_AGE_MS)
        except (NotFound, InvalidInput):
            raise ProtocolError(Reason.UNKNOWN_PEER, f"{quoted(handle)} is not in the registry.") from None
        if record.subject_id != subject:
            raise ProtocolError(Reason.UNKNOWN_PEER, f"{handle} is another subject than the message says.")
        if record.chain.agent_key(key_id) is None:
            if not await self._refreshed():
                # Perhaps a new key. It is not looked up for every liar, and not refused for good unseen.
                raise Unavailable(
                    Reason.STALE_HEAD, f"{handle} has no key {quoted(key_id)} that is known here yet."
                )
            record = await self._resolver.resolve(handle, max_age_ms=MAX_HEAD_AGE_MS)
        record.chain.key_valid_at(key_id, now_ms, intent, amount)
        key = record.chain.agent_key(key_id)
        if key is None:
            raise ProtocolError(Reason.UNKNOWN_KEY, f"{handle} has no key {quoted(key_id)}.")
        verify_signature(envelope, index, key.public_key)
        path = await self._resolver.authority_of(record, max_age_ms=MAX_HEAD_AGE_MS)
        check_delegation(path, intent, now_ms, amount)
        return path

    async def _refreshed(self) -> bool:
        """Read the registry's log for a key unknown here, but not for every liar: at most once in a while."""
        now = self._clock()
        if now - self._refreshed_ms < REFRESH_MS:
            return False
        self._refreshed_ms = now
        await self._resolver.tail()
        return True

    async def _is_node_of(self, peer: str, caller_spki: bytes) -> bool:
        person = await self._resolver.resolve(peer, max_age_ms=MAX_HEAD_AGE_MS)
        record = (await self._resolver.node_of(person)).state.node_record
        return record is not None and record.tls_spki_sha256 == caller_spki


def _parse(envelope: Envelope) -> Payload:
    payload_class = PAYLOADS.get(envelope.kind)
    if payload_class is None:
        raise ProtocolError(
            Reason.UNKNOWN_TYPE, f"A peer may not send a message of kind {envelope.kind}.", rule="ENV-03"
        )
    return strict_parse(payload_class, envelope.payload)


def _intent(payload: Payload) -> str:
    """The kind of intent that a message names; "" for one that is of its thread's."""
    said: negotiation_pb2.Propose | negotiation_pb2.Counter | negotiation_pb2.Commitment
    if isinstance(payload, negotiation_pb2.Commitment):
        said = payload
    elif isinstance(payload, negotiation_pb2.Move) and payload.WhichOneof("step") == "propose":
        said = payload.propose
    elif isinstance(payload, negotiation_pb2.Move) and payload.WhichOneof("step") == "counter":
        said = payload.counter
    else:
        return ""
    name = said.WhichOneof("terms")
    return KINDS[name].intent if name else ""


def _carried(payload: Payload) -> bytes | None:
    """The exact bytes that a RELAY carries."""
    if isinstance(payload, negotiation_pb2.Move) and payload.WhichOneof("step") == "relay":
        return payload.relay.envelope
    return None


def _cost(payload: Payload, *, first: bool) -> tuple[str, int] | None:
    """What a commitment costs this signer."""
    if not isinstance(payload, negotiation_pb2.Commitment):
        return None
    return cost_to(read_terms(payload), first=first)


def _claim(payload: Payload, envelope: Envelope) -> _Claim:
    """An acceptance is the offer's own bytes, so there the sender is another party and the owner the
    first."""
    header: envelope_pb2.Header = payload.header
    sender = (header.sender, header.sender_subject)
    recipient = (header.recipient, header.recipient_subject)
    if isinstance(payload, negotiation_pb2.Commitment) and len(envelope.signatures) > 1:
        voter = signer_of(payload, envelope)
        if voter:
            recipient = (payload.parties[voter].handle, payload.parties[voter].subject_id)
        return _Claim(*sender, *recipient)
    return _Claim(*recipient, *sender)


def _relayed(outer: envelope_pb2.Header, payload: Payload) -> _Claim:
    """What goes to several is for whom it was relayed to, and from who signed it. An event of another member
    belongs to the thread with the coordinator, who relays it. Nothing else is relayed: what was meant for one
    must not reach another."""
    header: envelope_pb2.Header = payload.header
    sender = outer if isinstance(payload, negotiation_pb2.Event) else header
    match payload:
        case negotiation_pb2.Commitment():
            is_of_several = len(payload.parties) > 2
        case negotiation_pb2.Receipt():
            is_of_several = bool(payload.commitment)
        case negotiation_pb2.Move():
            is_of_several = payload.WhichOneof("step") == "withdraw"
        case _:
            is_of_several = True
    if not is_of_several or outer.recipient_subject == header.sender_subject or header.thread != outer.thread:
        raise ProtocolError(Reason.MALFORMED, "The message carries what is not to be relayed.", rule="GRP-01")
    return _Claim(outer.recipient, outer.recipient_subject, sender.sender, sender.sender_subject)


@dataclass(frozen=True, slots=True)
class Address:
    """Who a message says it is from and for. Nothing here is verified."""

    owner: str = ""
    peer: str = ""
    thread: bytes | None = None
    mid: bytes | None = None


def addressed(raw: bytes) -> Address:
    """Read the address off a message that was refused, as far as it can be read."""
    try:
        envelope = parse_envelope(raw)
        payload = _parse(envelope)
        claim = _claim(payload, envelope)
    except ProtocolError:
        return Address()
    return Address(claim.owner, claim.peer, payload.header.thread, envelope.mid)

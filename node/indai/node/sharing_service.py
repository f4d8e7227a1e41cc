"""SharingService: what an owner has to share, and consents given and received. Scoped to the caller."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import asyncpg
from indai.client.resolver import Resolver
from indai.node import views
from indai.node.agents import Agents
from indai.node.auth import caller
from indai.node.belongings import Belonging, Belongings
from indai.node.clock import DatabaseClock
from indai.node.compose import newest_key
from indai.node.contents import Contents, kept_until_ms, open_sealed, recipient_key
from indai.node.engine import Engine
from indai.node.inbound import MAX_HEAD_AGE_MS
from indai.node.kinds.share import item_of, terms_of
from indai.node.owner_service import request_uuid
from indai.node.querier import Querier, refused
from indai.node.store import Store
from indai.node.thread_views import ThreadViews, peer_of, side_of
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason, Refused
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.book import BookWish
from indai.protocol.kinds.share import SHARE, Consent, Mode, ShareTerms, ShareWish
from indai.protocol.lifecycle import State
from indai.protocol.queries import (
    CapabilitiesAnswer,
    PriceAnswer,
    PriceQuery,
    StatusAnswer,
    StatusQuery,
    WindowsAnswer,
)
from indai.protocol.queries import CapabilitiesQuery as Capabilities
from indai.protocol.queries import WindowsQuery as Windows
from indai.v1 import intents_pb2, sharing_pb2_grpc
from indai.v1 import sharing_pb2 as pb

MAX_PAGE = 500
MAX_NUMBER = 1 << 62

_Asked = pb.AskForShareRequest | pb.OfferShareRequest


class SharingServicer(sharing_pb2_grpc.SharingServiceServicer):
    """SharingService."""

    def __init__(
        self,
        belongings: Belongings,
        contents: Contents,
        store: Store,
        agents: Agents,
        resolver: Resolver,
        engine: Engine,
        querier: Querier,
        threads: ThreadViews,
        clock: DatabaseClock,
    ) -> None:
        self._belongings = belongings
        self._contents = contents
        self._store = store
        self._agents = agents
        self._resolver = resolver
        self._engine = engine
        self._querier = querier
        self._threads = threads
        self._clock = clock

    async def SetProfileField(
        self, request: pb.SetProfileFieldRequest, context: Any
    ) -> pb.SetProfileFieldResponse:
        """Sealed and stored."""
        owner = caller(context).owner
        field = await self._belongings.set_field(owner, request.name, request.value, request.tags)
        return pb.SetProfileFieldResponse(field=_belonging(field))

    async def ListProfileFields(
        self, request: pb.ListProfileFieldsRequest, context: Any
    ) -> pb.ListProfileFieldsResponse:
        """All of them."""
        fields = await self._belongings.fields(caller(context).owner)
        return pb.ListProfileFieldsResponse(fields=[_belonging(field) for field in fields])

    async def RemoveProfileField(
        self, request: pb.RemoveProfileFieldRequest, context: Any
    ) -> pb.RemoveProfileFieldResponse:
        """Gone from here."""
        await self._belongings.remove(caller(context).owner, f"profile/{request.name}")
        return pb.RemoveProfileFieldResponse()

    async def PutSharedDocument(
        self, request: pb.PutSharedDocumentRequest, context: Any
    ) -> pb.PutSharedDocumentResponse:
        """Sealed and stored."""
        document = await self._belongings.put_document(
            caller(context).owner,
            request.name,
            request.title,
            request.media_type,
            request.content,
            request.tags,
        )
        return pb.PutSharedDocumentResponse(document=_belonging(document))

    async def ListSharedDocuments(
        self, request: pb.ListSharedDocumentsRequest, context: Any
    ) -> pb.ListSharedDocumentsResponse:
        """All of them."""
        documents = await self._belongings.documents(caller(context).owner)
        return pb.ListSharedDocumentsResponse(documents=[_belonging(one) for one in documents])

    async def RemoveSharedDocument(
        self, request: pb.RemoveSharedDocumentRequest, context: Any
    ) -> pb.RemoveSharedDocumentResponse:
        """Gone from here."""
        await self._belongings.remove(caller(context).owner, f"document/{request.name}")
        return pb.RemoveSharedDocumentResponse()

    async def OfferShare(self, request: pb.OfferShareRequest, context: Any) -> pb.OfferShareResponse:
        """An OFFER of a thing that is there, for the peer's newest key."""
        owner, peer = caller(context).owner, peer_of(request.peer)
        wish = _wish(request, await self._key_of(peer))
        thing = await self._belongings.find(owner, item_of(wish))
        if thing is None:
            raise NotFound(
                Reason.NOT_FOUND,
                f"You have no {item_of(wish)}.",
                hint="indai profile set, indai document add",
            )
        request_id = request_uuid(request.request_id)
        again = await self._store.thread_of_request(owner, request_id)
        if again is None:
            sha256 = await self._contents.offer(owner, wish.recipient_key, thing.content)
            terms = terms_of(wish, thing, sha256)
            again = await self._engine.start(owner, peer, terms, request_id)
        return pb.OfferShareResponse(thread=await self._threads.of(owner, again))

    async def AskForShare(self, request: pb.AskForShareRequest, context: Any) -> pb.AskForShareResponse:
        """A PROPOSE, for our own newest key."""
        owner, peer = caller(context).owner, peer_of(request.peer)
        wish = _wish(request, await self._key_of(owner))
        thread = await self._engine.start(owner, peer, wish, request_uuid(request.request_id))
        return pb.AskForShareResponse(thread=await self._threads.of(owner, thread))

    async def ReadShared(self, request: pb.ReadSharedRequest, context: Any) -> pb.ReadSharedResponse:
        """The owner's copy while it may be kept; else by QUERY, as the consent allows."""
        owner = caller(context).owner
        row = await self._threads.find(owner, request.thread_id, SHARE.name)
        side, now_ms = side_of(row), self._clock()
        offer = side.thread.offer if side.thread else None
        if side.life is None or offer is None or not isinstance(offer.body, ShareTerms):
            raise Refused(Reason.ILLEGAL_MOVE, "Nothing is shared in this thread yet.", hint="indai threads")
        terms = offer.body
        if offer.sender == side.owner:
            raise Refused(Reason.ILLEGAL_MOVE, "This is what you shared yourself.", hint="indai consents")
        if side.life.state is State.CANCELLED:
            await self._contents.drop(owner, row["mid"], terms.content_sha256)
            raise Refused(Reason.POLICY_DENIED, "The consent was revoked.", hint="ask anew: indai ask-for")
        copy = await self._contents.kept(owner, row["mid"], now_ms)
        if copy is not None:
            return pb.ReadSharedResponse(content=copy, media_type=terms.media_type, from_copy=True)
        sealed = await self._querier.content(owner, row["peer"], row["mid"])
        content = open_sealed(sealed, self._agents.get(owner).keys.values(), terms)
        if terms.consent.mode is not Mode.VIEW:
            until_ms = kept_until_ms(terms.consent, now_ms)
            await self._contents.keep(owner, row["mid"], row["thread"], content, now_ms, until_ms)
        return pb.ReadSharedResponse(content=content, media_type=terms.media_type)

    async def ListConsents(self, request: pb.ListConsentsRequest, context: Any) -> pb.ListConsentsResponse:
        """From the signed commitments themselves."""
        owner, size = caller(context).owner, min(request.page_size or 100, MAX_PAGE)
        before, last = _after(request.page_token)
        async with self._store.scope(owner) as connection:
            rows = await connection.fetch(
                "SELECT t.*, (SELECT count(*) FROM node.disclosures d WHERE d.owner = t.owner"
                " AND d.peer = t.peer AND d.commitment = t.mid) AS reads FROM node.threads t"
                " WHERE t.owner = $1 AND t.kind = 'share' AND t.phase = 'COMMITTED' AND t.erased_ms IS NULL"
                " AND (t.created_ms, t.thread) < ($2, $3) ORDER BY t.created_ms DESC, t.thread DESC LIMIT $4",
                owner,
                before,
                last,
                size + 1,
            )
        token = (
            json.dumps([rows[size - 1]["created_ms"], rows[size - 1]["thread"].hex()])
            if len(rows) > size
            else ""
        )
        consents = [_artefact(row, self._clock()) for row in rows[:size]]
        return pb.ListConsentsResponse(consents=consents, next_page_token=token)

    async def ListDisclosures(
        self, request: pb.ListDisclosuresRequest, context: Any
    ) -> pb.ListDisclosuresResponse:
        """What was told by QUERY, and the answers that were given."""
        owner = caller(context).owner
        peer = peer_of(request.peer) if request.peer else ""
        told = [_disclosure(row) for row in await self._contents.disclosures(owner, peer)]
        async with self._store.scope(owner) as connection:
            answers = await connection.fetch(
                "SELECT peer, 'answer' AS item, count(*) AS times, min(created_ms) AS first_ms,"
                " max(updated_ms) AS last_ms FROM node.threads WHERE owner = $1 AND kind = 'ask'"
                " AND NOT outgoing AND phase = 'COMMITTED' AND ($2 = '' OR peer = $2)"
                " GROUP BY peer LIMIT 500",
                owner,
                peer,
            )
        told += [_disclosure(row) for row in answers]
        told.sort(key=lambda one: one.last_time.ToMilliseconds(), reverse=True)
        return pb.ListDisclosuresResponse(disclosures=told[:MAX_PAGE])

    async def QueryPeer(self, request: pb.QueryPeerRequest, context: Any) -> pb.QueryPeerResponse:
        """One QUERY, its checked ANSWER."""
        owner, peer = caller(context).owner, peer_of(request.peer)
        told = await self._querier.ask(owner, peer, _about(request))
        match told:
            case CapabilitiesAnswer(kinds):
                return pb.QueryPeerResponse(kinds=kinds)
            case StatusAnswer():
                due = views.timestamp(told.due_ms) if told.due_ms else None
                return pb.QueryPeerResponse(state=told.state, stage=told.stage, due_time=due)
            case WindowsAnswer(windows):
                found = [intents_pb2.Window(start_ms=one.start_ms, end_ms=one.end_ms) for one in windows]
                return pb.QueryPeerResponse(windows=found)
            case PriceAnswer(available, price_minor, currency):
                return pb.QueryPeerResponse(available=available, price_minor=price_minor, currency=currency)
        raise refused(peer, told)

    async def _key_of(self, handle: str) -> bytes:
        record = await self._resolver.resolve(handle, max_age_ms=MAX_HEAD_AGE_MS)
        key = record.chain.agent_key(newest_key(record))
        if key is None:
            raise Refused(Reason.UNKNOWN_KEY, f"The record of {handle} names no key that is valid.")
        return recipient_key(key.public_key)


def _wish(request: _Asked, key: bytes) -> ShareWish:
    try:
        wish = ShareWish(request.field, request.document, Consent.from_pb(request.consent), key)
        wish.check()
    except ProtocolError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
    return wish


def _about(request: pb.QueryPeerRequest) -> Capabilities | PriceQuery | StatusQuery | Windows:
    match request.WhichOneof("about"):
        case "commitment":
            try:
                mid = bytes.fromhex(request.commitment)
            except ValueError:
                mid = b""
            if len(mid) == 32:
                return StatusQuery(mid)
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A mid has 64 hexadecimal digits.")
        case "within":
            return Windows(request.duration_minutes, Window(request.within.start_ms, request.within.end_ms))
        case "capabilities":
            return Capabilities()
        case "price":
            wish = BookWish.from_pb(request.price)
            try:
                wish.check()
            except ProtocolError as error:
                raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
            return PriceQuery(wish)
    raise InvalidInput(Reason.INVALID_ARGUMENT, "The query asks nothing.")


def _belonging(thing: Belonging) -> pb.Belonging:
    is_field = thing.item.startswith("profile/")
    return pb.Belonging(
        name=thing.name,
        title=thing.title,
        media_type=thing.media_type,
        size_bytes=thing.size_bytes,
        tags=thing.tags,
        update_time=views.timestamp(thing.updated_ms),
        value=thing.content.decode("utf-8", "replace") if is_field else "",
    )


def _artefact(row: asyncpg.Record, now_ms: int) -> pb.ConsentArtefact:
    side = side_of(row)
    offer = side.thread.offer if side.thread else None
    if offer is None or side.life is None or not isinstance(offer.body, ShareTerms):
        raise RuntimeError("an agreed share without its terms")
    given = offer.sender == side.owner
    return pb.ConsentArtefact(
        consent_id=row["mid"].hex(),
        thread_id=row["thread"].hex(),
        peer=row["peer"],
        given=given,
        item=item_of(offer.body),
        consent=offer.body.consent.to_pb(),
        status=status(offer.body.consent, side.life.state, now_ms),
        create_time=views.timestamp(row["created_ms"]),
        reads=row["reads"] if given else 0,
    )


def status(consent: Consent, state: State, now_ms: int) -> pb.ConsentStatus.ValueType:
    """Where a consent stands: what was called off stays so, also past its end."""
    if state is State.CANCELLED:
        return pb.CONSENT_STATUS_REVOKED
    over = state.ended or now_ms >= consent.to_ms
    return pb.CONSENT_STATUS_EXPIRED if over else pb.CONSENT_STATUS_ACTIVE


def _disclosure(row: asyncpg.Record) -> pb.Disclosure:
    return pb.Disclosure(
        peer=row["peer"],
        item=row["item"],
        times=row["times"],
        first_time=views.timestamp(row["first_ms"]),
        last_time=views.timestamp(row["last_ms"]),
    )


def _after(token: str) -> tuple[int, bytes]:
    if not token:
        return MAX_NUMBER, b"\xff" * 16
    try:
        parts: Sequence[Any] = json.loads(token)
        number, text = parts
        if type(number) is int and 0 <= number <= MAX_NUMBER:
            return number, bytes.fromhex(text)
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidInput(Reason.INVALID_ARGUMENT, "The page token is not one of ours.")

"""One of each kind of intent, as an owner's own program begins it, and what the other side needs for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.channels import CheckedChannel
from indai.v1 import asking_pb2, commerce_pb2, group_pb2, intents_pb2, negotiation_pb2, owner_pb2, sharing_pb2
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.group_pb2_grpc import GroupServiceStub
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub

# (channel of who begins, the other side or sides, a number that grows) -> the thread it goes on in.
Begin = Callable[[CheckedChannel, Sequence[str], int], Awaitable[owner_pb2.Thread]]

A_DAY, HOURS, PER_DAY = 86_400, 8, 16
ADDRESS = "upi:shop@okbank"
TIMEOUT_S = 60
POLICY = """\
version: 1
timezone: UTC
currency: INR
visibility:
  - { id: open, to: anyone, profile: [email] }
rules:
  - { id: all, allow: [meet, share, ask, pay, book], with: anyone }
"""


async def prepare(channel: CheckedChannel) -> None:
    """Who is asked can be paid, has lamps and an e-mail address, and takes requests."""
    commerce, asking, sharing = (
        CommerceServiceStub(channel),
        AskingServiceStub(channel),
        SharingServiceStub(channel),
    )
    account = commerce_pb2.PayAccount(payee=ADDRESS, name="Bench")
    await commerce.SetPayAccount(commerce_pb2.SetPayAccountRequest(account=account))
    lamps = commerce_pb2.StockItem(item="lamp", title="Lamp", units=1_000_000)
    await commerce.SetStockItem(commerce_pb2.SetStockItemRequest(item=lamps))
    lights = asking_pb2.Department(name="lights", title="Lights", service_minutes=1440, categories=["lights"])
    await asking.SetDepartments(asking_pb2.SetDepartmentsRequest(departments=[lights]))
    email = sharing_pb2.SetProfileFieldRequest(name="email", value="bench@example.org")
    await sharing.SetProfileField(email)


async def meet(channel: CheckedChannel, peers: Sequence[str], number: int) -> owner_pb2.Thread:
    """Fifteen minutes on some day."""
    start = _day(number)
    window = intents_pb2.Window(start_ms=start * 1000, end_ms=(start + HOURS * 3600) * 1000)
    propose = negotiation_pb2.Propose()
    propose.meet.CopyFrom(intents_pb2.MeetWish(title="Bench", duration_minutes=15, windows=[window]))
    return await _start(channel, peers, wish=propose)


async def group(channel: CheckedChannel, peers: Sequence[str], number: int) -> owner_pb2.Thread:
    """The same with several."""
    start = _day(number)
    request = group_pb2.StartGroupRequest(
        request_id=str(uuid.uuid4()),
        peers=peers,
        title="Bench",
        duration_minutes=15,
        start_time=Timestamp(seconds=start),
        end_time=Timestamp(seconds=start + HOURS * 3600),
    )
    return (await GroupServiceStub(channel).StartGroup(request, timeout=TIMEOUT_S)).thread


async def share(channel: CheckedChannel, peers: Sequence[str], number: int) -> owner_pb2.Thread:
    """A field of the peer's profile, for a day."""
    now_ms = int(time.time() * 1000)
    consent = intents_pb2.Consent(
        purpose_code="101",
        purpose_text="Bench",
        mode=intents_pb2.CONSENT_MODE_STORE,
        fetch=intents_pb2.FETCH_TYPE_ONETIME,
        data_life_unit=intents_pb2.SPAN_UNIT_DAY,
        data_life_value=1,
        from_ms=now_ms - 60_000,
        to_ms=now_ms + A_DAY * 1000,
    )
    request = sharing_pb2.AskForShareRequest(
        request_id=str(uuid.uuid4()), peer=peers[0], field="email", consent=consent
    )
    return (await SharingServiceStub(channel).AskForShare(request, timeout=TIMEOUT_S)).thread


async def ask(channel: CheckedChannel, peers: Sequence[str], number: int) -> owner_pb2.Thread:
    """A question that the peer's agent answers from what everybody may read."""
    request = asking_pb2.AskQuestionRequest(
        request_id=str(uuid.uuid4()), peer=peers[0], question="What is your e-mail?"
    )
    return (await AskingServiceStub(channel).AskQuestion(request, timeout=TIMEOUT_S)).thread


async def file(channel: CheckedChannel, peers: Sequence[str], number: int) -> owner_pb2.Thread:
    """A request to an office."""
    request = asking_pb2.FileRequestRequest(
        request_id=str(uuid.uuid4()),
        office=peers[0],
        subject=f"Street light {number} is dark",
        text="It has been so for a week.",
        category="lights",
    )
    return (await AskingServiceStub(channel).FileRequest(request, timeout=TIMEOUT_S)).thread


async def pay(channel: CheckedChannel, peers: Sequence[str], number: int) -> owner_pb2.Thread:
    """One rupee to a known address."""
    due_ms = (int(time.time()) + A_DAY) * 1000
    terms = intents_pb2.PayTerms(
        payee=ADDRESS, amount_minor=100, currency="INR", purpose="Bench", due_ms=due_ms
    )
    return await _start(channel, peers, pay=terms)


async def book(channel: CheckedChannel, peers: Sequence[str], number: int) -> owner_pb2.Thread:
    """One of very many lamps."""
    propose = negotiation_pb2.Propose()
    propose.book.CopyFrom(intents_pb2.BookWish(item="lamp", title="lamp", quantity=1))
    return await _start(channel, peers, wish=propose)


KINDS: dict[str, Begin] = {
    "meet": meet,
    "share": share,
    "ask": ask,
    "request": file,
    "pay": pay,
    "book": book,
}


async def _start(
    channel: CheckedChannel,
    peers: Sequence[str],
    wish: negotiation_pb2.Propose | None = None,
    pay: intents_pb2.PayTerms | None = None,
) -> owner_pb2.Thread:
    request = owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()), peer=peers[0], wish=wish, pay=pay)
    return (await OwnerServiceStub(channel).StartIntent(request, timeout=TIMEOUT_S)).thread


def _day(number: int) -> int:
    """The first second of the day on which the n-th meeting of a pair is, from the day after tomorrow on."""
    return (int(time.time()) // A_DAY + 2 + number // PER_DAY) * A_DAY

"""One wish and one answer to it for every kind, for tests."""

from __future__ import annotations

from indai.protocol.forms import DAY_MS, HOUR_MS, MINUTE_MS
from indai.protocol.kinds.ask import AskTerms, AskWish, RequestTerms, RequestWish, Source
from indai.protocol.kinds.base import Terms, Window, Wish
from indai.protocol.kinds.book import BookTerms, BookWish
from indai.protocol.kinds.pay import Direction, PayTerms, PayWish
from indai.protocol.kinds.share import Consent, Fetch, Mode, ShareTerms, ShareWish, Unit

from tests.unit.transcripts import NOW, WISH, slot

CONSENT = Consent(
    "101", "To send the papers", Mode.STORE, Fetch.ONETIME, Unit.MONTH, 6, NOW, NOW + 30 * DAY_MS
)
PERIODIC = Consent("102", "News", Mode.VIEW, Fetch.PERIODIC, Unit.INF, 0, NOW, NOW + 30 * DAY_MS, Unit.DAY, 2)
KEY = b"k" * 32
SHARE = ShareWish("email", "", CONSENT, KEY)
SHARED = ShareTerms("email", "", CONSENT, KEY, b"h" * 32, "text/plain", 17)
ASK = AskWish("When does the bakery open?", "opening-hours")
ANSWERED = AskTerms(ASK.question, ASK.topic, "At seven.\nClosed on Mondays.", (Source("The sign"),), 90)
REQUEST = RequestWish("Street light", "It has been dark for a week.", "street-lights")
FILED = RequestTerms(
    REQUEST.subject, REQUEST.text, REQUEST.category, "electric", "SL-2027/17", NOW + 7 * DAY_MS
)
PAY = PayWish(Direction.REQUEST, "upi:bob@bank", 50_000, "INR", "Rent", NOW + DAY_MS)
PAID = PayTerms("upi:bob@bank", 50_000, "INR", "Rent", NOW + DAY_MS)
GOODS = BookWish("sku-1", "A lamp", 1, max_price_minor=1_000, currency="INR")
SOLD = BookTerms("sku-1", "A lamp", 1, price_minor=900, currency="INR", due_ms=NOW + 3 * DAY_MS)
ROOM = BookWish("room-7", "A room", 2, (Window(NOW + DAY_MS, NOW + 2 * DAY_MS),), 60)
BOOKED = BookTerms(
    "room-7",
    "A room",
    2,
    NOW + DAY_MS,
    NOW + DAY_MS + HOUR_MS,
    900,
    "INR",
    cancel_until_ms=NOW + DAY_MS - 30 * MINUTE_MS,
    fee_minor=100,
)

PAIRS: tuple[tuple[Wish, Terms], ...] = (
    (WISH, slot()),
    (SHARE, SHARED),
    (ASK, ANSWERED),
    (REQUEST, FILED),
    (PAY, PAID),
    (GOODS, SOLD),
    (ROOM, BOOKED),
)

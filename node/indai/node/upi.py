"""UPI links (NPCI's linking specification): `upi://pay` with the commitment bound into the reference `tr`."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from indai.node.kinds.money import decimal
from indai.protocol.kinds.pay import PayTerms, payment_reference

SCHEME = "upi:"
CURRENCY = "INR"
MAX_NOTE = 50


def upi_link(terms: PayTerms, mid: bytes, name: str) -> str:
    """The link that a UPI app opens; "" for another kind of address or currency. `name`: of who is paid."""
    if not terms.payee.startswith(SCHEME) or terms.currency != CURRENCY:
        return ""
    fields = {
        "pa": terms.payee.removeprefix(SCHEME),
        "pn": name,
        "tr": payment_reference(mid),
        "tn": terms.purpose[:MAX_NOTE],
        "am": decimal(terms.amount_minor, CURRENCY),
        "cu": CURRENCY,
    }
    return "upi://pay?" + urlencode(fields, quote_via=quote, safe="@")

"""What keeps a page's visitor safe: headers, forms that only our own pages can send, and limits.

Every answer has a Content-Security-Policy that runs and loads nothing but our own files: no inline script, no
inline style, no frame. A form carries a token bound to its visitor's cookie, and the browser's own word about
where the request comes from (`Origin`, `Sec-Fetch-Site`) must agree (OWASP: Cross-Site Request Forgery).
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from typing import Final
from urllib.parse import urlsplit

from indai.protocol.errors import Reason, Refused

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
HSTS: Final = "max-age=31536000"
FIELD: Final = "csrf"
_MAX_KEYS: Final = 20_000


def form_token(secret: bytes, cookie: str) -> str:
    """What a form must carry that a visitor with this cookie sends; 43 characters."""
    return hmac.new(secret, b"form:" + cookie.encode(), hashlib.sha256).hexdigest()


def check_form(secret: bytes, cookie: str, token: str) -> None:
    """Raises Refused unless the form was made for the visitor with this cookie."""
    if not cookie or not hmac.compare_digest(form_token(secret, cookie).encode(), token.encode()):
        raise Refused(
            Reason.PERMISSION_DENIED,
            "This form was not made for you, or is from before you signed in.",
            hint="go back, load the page again and repeat what you did",
        )


def check_origin(headers: Mapping[str, str], hosts: frozenset[str]) -> None:
    """Raises Refused when the browser says that another site sends this. `hosts`: `host[:port]` of ours."""
    origin = headers.get("Origin", "")
    if origin and urlsplit(origin).netloc.lower() not in hosts:
        raise _foreign()
    if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise _foreign()


class Limit:
    """At most `most` in any `span_ms` for one key; in memory, bounded. One event loop owns it."""

    def __init__(self, most: int, span_ms: int) -> None:
        self._most, self._span_ms = most, span_ms
        self._taken: OrderedDict[Hashable, deque[int]] = OrderedDict()

    def check(self, key: Hashable, now_ms: int) -> None:
        """Count one more; raises Refused(RATE_LIMITED) when that is too many."""
        taken = self._taken.setdefault(key, deque())
        self._taken.move_to_end(key)
        if len(self._taken) > _MAX_KEYS:
            self._taken.popitem(last=False)
        while taken and taken[0] <= now_ms - self._span_ms:
            taken.popleft()
        if len(taken) >= self._most:
            raise Refused(Reason.RATE_LIMITED, "That is too often.", hint="wait a minute, and then try again")
        taken.append(now_ms)


def _foreign() -> Refused:
    return Refused(
        Reason.PERMISSION_DENIED,
        "Another site tried to send this form.",
        hint="open the desk itself and do it there",
    )

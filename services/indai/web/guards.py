"""What keeps a page's visitor safe: headers, forms that only our own pages can send, and limits.

Every answer has a Content-Security-Policy that runs and loads nothing but our own files: no inline script, no
inline style, no frame. A form carries a token bound to its visitor's cookie, and the browser's own word about
where the request comes from (`Origin`, `Sec-Fetch-Site`) must agree (OWASP: Cross-Site Request Forgery).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from indai.protocol.errors import Reason, Refused

NOBODY: Final = "'none'"
FRAMES: Final = f"frame-ancestors {NOBODY}"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self';"
        f" connect-src 'self'; form-action 'self'; base-uri 'none'; {FRAMES}"
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


def visitor_cookie(secret: bytes) -> str:
    """A new visitor: 18 random bytes in base64url, a dot, and our code over them, so that nobody makes up who
    they are."""
    random = base64.urlsafe_b64encode(secrets.token_bytes(18)).decode()
    return f"{random}.{code(secret, b'cookie:', random)[:32]}"


def is_visitor(secret: bytes, cookie: str) -> bool:
    """Whether we made this visitor's cookie."""
    random, _, end = cookie.partition(".")
    made = code(secret, b"cookie:", random)[:32]
    return bool(random) and hmac.compare_digest(made.encode(), _bytes(end))


def visitor_name(secret: bytes, cookie: str) -> str:
    """Whom the cookie stands for, 64 hexadecimal digits: what may be kept, since nobody gets the cookie from
    it."""
    return code(secret, b"visitor:", cookie)


@dataclass(frozen=True, slots=True)
class Known:
    """A browser that somebody signed in with before: `of` which scope, and a name for the browser. Both are
    empty for one that nobody did. It opens nothing; it has limits of its own, which no stranger uses up."""

    of: str = ""
    browser: str = ""


UNKNOWN: Final = Known()


def known_cookie(secret: bytes, scope: str) -> str:
    """For a browser that signed in: the scope, 18 random bytes, both in hexadecimal, and our code over it."""
    text = f"{scope.encode().hex()}.{secrets.token_hex(18)}"
    return f"{text}.{code(secret, b'known:', text)[:32]}"


def known_by(secret: bytes, cookie: str) -> Known:
    """Whom we made this cookie for."""
    text, _, end = cookie.rpartition(".")
    if not text or not hmac.compare_digest(code(secret, b"known:", text)[:32].encode(), _bytes(end)):
        return UNKNOWN
    scope, _, browser = text.partition(".")
    return Known(bytes.fromhex(scope).decode(), browser)


def framed_by(sites: Iterable[str]) -> str:
    """The policy of a page that these sites may frame, e.g. `https://shop.example`."""
    return HEADERS["Content-Security-Policy"].replace(FRAMES, f"frame-ancestors {' '.join(sites) or NOBODY}")


def form_token(secret: bytes, cookie: str) -> str:
    """What a form must carry that a visitor with this cookie sends; 43 characters."""
    return code(secret, b"form:", cookie)


def check_form(secret: bytes, cookie: str, token: str) -> None:
    """Raises Refused unless the form was made for the visitor with this cookie."""
    if not cookie or not hmac.compare_digest(form_token(secret, cookie).encode(), _bytes(token)):
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


def code(secret: bytes, purpose: bytes, text: str) -> str:
    """Ours over a text for a purpose (HMAC-SHA256, 64 hexadecimal digits)."""
    return hmac.new(secret, purpose + _bytes(text), hashlib.sha256).hexdigest()


def _bytes(text: str) -> bytes:
    """Of what a stranger sent, which may be no Unicode."""
    return text.encode("utf-8", "replace")


def _foreign() -> Refused:
    return Refused(
        Reason.PERMISSION_DENIED,
        "Another site tried to send this form.",
        hint="open the desk itself and do it there",
    )

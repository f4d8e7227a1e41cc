"""Calls to a provider of speech: over TLS, bounded, never redirected, and its faults in our words."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.voice.speech import failed

SecretOf = Callable[[str], Awaitable[str]]
"""The secret behind a reference `vault:NAME`; raises NotFound."""
MAX_ANSWER = 16 * 1024 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=20, sock_connect=5)
_LOOPBACK = re.compile(r"^http://(localhost|127(\.\d+){3}|\[::1\])([:/]|$)")
_REFUSED = {401, 403}


def checked_url(url: str) -> str:
    """An address that secrets may be sent to: https, or this machine. Raises InvalidInput."""
    if not url.startswith("https://") and not _LOOPBACK.match(url):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "A provider's address would carry secrets in the clear.",
            hint="write https",
        )
    return url


async def post(
    session: aiohttp.ClientSession, engine: str, url: str, headers: Mapping[str, str], **body: Any
) -> dict[str, Any]:
    """The JSON object that answers. `body` is aiohttp's `json` or `data`.

    Raises Refused (PROVIDER_REFUSED) when the key is refused, Unavailable for what may succeed later or
    elsewhere.
    """
    try:
        async with session.post(
            checked_url(url), headers=headers, timeout=_TIMEOUT, allow_redirects=False, **body
        ) as answer:
            data = await _read(answer, engine)
            status = answer.status
    except TimeoutError:
        raise failed(engine, "did not answer in time", Reason.DEADLINE_EXCEEDED) from None
    except aiohttp.ClientError:
        raise failed(engine, "can't be reached", Reason.UNREACHABLE) from None
    if status in _REFUSED:
        raise Refused(
            Reason.PROVIDER_REFUSED,
            f"The speech engine {engine} refuses the key it was given.",
            hint="set the secret anew: indai secret set",
        )
    if status == 429:
        raise failed(engine, "is asked too often", Reason.RATE_LIMITED)
    if status != 200:
        raise failed(engine, f"answered {status}")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise failed(engine, "answered what is no JSON") from None
    if not isinstance(found, dict):
        raise failed(engine, "answered something else than a JSON object")
    return found


async def _read(answer: aiohttp.ClientResponse, engine: str) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_any():
        data += piece
        if len(data) > MAX_ANSWER:
            raise failed(engine, "answered too much")
    return bytes(data)

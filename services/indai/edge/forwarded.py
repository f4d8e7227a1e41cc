"""Who really calls, behind proxies of ours: `X-Forwarded-For` is believed from them alone, right to left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from indai.protocol.errors import InvalidInput, Reason

Network = IPv4Network | IPv6Network


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks such as `10.0.0.0/8`. Raises InvalidInput for one that is none."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text.strip()))
        except ValueError:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{text[:60]!r} is no address or network of a proxy.",
                hint="like 10.0.0.7 or 10.0.0.0/8",
            ) from None
    return tuple(found)


def caller(peer: str, forwarded_for: str, proxies: Sequence[Network]) -> str:
    """The first that is no proxy, seen from us; nothing when a proxy of ours names what is no address."""
    hops = [hop.strip() for hop in forwarded_for.split(",") if hop.strip()]
    try:
        while hops and any(ip_address(peer) in network for network in proxies):
            peer = str(ip_address(hops.pop()))
    except ValueError:
        return ""
    return peer

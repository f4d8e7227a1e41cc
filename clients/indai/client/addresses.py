"""`host:port` as nodes publish it and servers bind it, read strictly.

An address may come from a stranger's record, and gRPC would read `unix:/path` or `xds:` out of a plain
string: so only a host name, an IPv4 address or a bracketed IPv6 address with a port is taken, and the scheme
is always ours. A name is resolved once, and what was checked is what is connected to: a name server can't
answer differently the second time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from dataclasses import dataclass

from indai.client.rpc import unreachable
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.protocol.quoting import quoted

_SHAPE = re.compile(
    r"(?:\[([0-9a-fA-F:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)):([0-9]{1,5})"
)
_HINT = "write it as host:port, such as 127.0.0.1:7400 or [::1]:7400"


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; `str()` gives `host:port` again."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def target(self) -> str:
        """The gRPC target, with a scheme that cannot be chosen from outside."""
        match _ip(self.host):
            case ipaddress.IPv4Address():
                return f"ipv4:{self}"
            case ipaddress.IPv6Address():
                return f"ipv6:{self}"
        return f"dns:///{self}"

    @property
    def is_loopback(self) -> bool:
        """True when only this machine can reach it."""
        ip = _ip(self.host)
        return ip.is_loopback if ip is not None else self.host.lower() == "localhost"


def parse_address(text: str) -> Address:
    """Reads `host:port`; port 0 (any free one) is allowed for binding. Raises InvalidInput."""
    match = _SHAPE.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{quoted(text)} is not an address.", hint=_HINT)
    host = match[1] or match[2]
    if (match[1] or host[-1].isdigit()) and _ip(host) is None:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{quoted(host)} is not an IP address.", hint=_HINT)
    return Address(host, int(match[3]))


async def resolve(where: Address, *, public_only: bool = False) -> list[Address]:
    """The IP addresses behind `where`, in the system's order, at least one.

    With `public_only` addresses of private networks are left out, so that a stranger's record cannot make a
    node knock at its own neighbours. Raises Unavailable for an unknown name, Refused(INSECURE) when nothing
    public is left.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            where.host, where.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except OSError:
        raise unreachable(str(where), "the host name is unknown") from None
    hosts = dict.fromkeys(str(at[0]) for *_, at in found)
    kept = [Address(host, where.port) for host in hosts if not public_only or is_public(host)]
    if not kept:
        raise Refused(
            Reason.INSECURE,
            f"{where} is not a public address.",
            hint="a record must name an address that others can reach; private ones must be allowed",
        )
    return kept


def is_public(host: str) -> bool:
    """True for a globally reachable IP address; one that wraps an IPv4 address is judged by that one."""
    ip = _ip(host)
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or _nat64(ip) or ip
    return ip is not None and ip.is_global and not ip.is_multicast


def _nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address inside the well-known prefix of RFC 6052."""
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

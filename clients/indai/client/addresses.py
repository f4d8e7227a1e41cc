"""`host:port` as nodes publish it and servers bind it, read strictly.

An address may come from a stranger's record, and gRPC would read `unix:/path` or `xds:` out of a plain
string: so only a host name, an IPv4 address or a bracketed IPv6 address with a port is taken, and the scheme
is always ours.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from indai.protocol.errors import InvalidInput, Reason
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


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

"""Ports for servers that a test stops and starts again, or must name before they listen.

Any port that the kernel gives out itself (`:0`) may become somebody's outgoing connection while its server is
away. These lie below that range, and each worker of a run has its own stretch of them.
"""

from __future__ import annotations

import os
import random
import socket
from itertools import cycle
from pathlib import Path

_LOWEST, _STRETCH = 12_000, 2_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on; this process gives out all others before it again."""
    for _ in range(_STRETCH):
        port = next(_numbers)
        with socket.socket() as probe:
            # As servers do: connections that are over, and only waited for, are no reason to pass a port by.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise RuntimeError("no port is free")


def free_address() -> str:
    """The same as `host:port`."""
    return f"127.0.0.1:{free_port()}"


def _stretch() -> range:
    kernels = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    stretches = max(1, (kernels - _LOWEST) // _STRETCH)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    start = _LOWEST + worker % stretches * _STRETCH
    return range(start, start + _STRETCH)


# Two runs at once on a machine begin at different ones.
_numbers = cycle(random.SystemRandom().sample(_stretch(), _STRETCH))

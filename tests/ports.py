"""Ports for servers that a test stops and starts again, or must name before they listen.

Any port that the kernel gives out itself (`:0`) may become somebody's outgoing connection while its server is
away. These lie below that range, and each worker of a run has its own stretch of them. Two runs at once on a
machine share none either: who gives a port out holds its name until the process ends.
"""

from __future__ import annotations

import os
import random
import socket
import sys
from itertools import cycle
from pathlib import Path

_LOWEST, _STRETCH = 12_000, 2_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on; this process gives out all others before it again."""
    for _ in range(_STRETCH):
        port = next(_numbers)
        if not _claimed(port):
            continue
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


def _claimed(port: int) -> bool:
    """Whether it is this process that gives the port out. A name in Linux' abstract namespace is held by one
    socket at a time and is gone with its process (unix(7)); elsewhere two runs may meet."""
    if port in _claims or sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0indai-tests-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims[port] = claim
    return True


def _stretch() -> range:
    kernels = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    stretches = max(1, (kernels - _LOWEST) // _STRETCH)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    start = _LOWEST + worker % stretches * _STRETCH
    return range(start, start + _STRETCH)


_claims: dict[int, socket.socket] = {}
_numbers = cycle(random.SystemRandom().sample(_stretch(), _STRETCH))

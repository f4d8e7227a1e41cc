"""Files that agents hand out: kept in the data directory beside those that came in, by their hash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from indai.edge.files import Files
from indai.edge.media import FILES_S, MediaStore
from indai.node.keystore import KeyStore
from indai.tools.files import Keep

MEDIA: Final = "media"
SWEEP_S: Final = 3600.0
HASHES: Final = "edge-people"
"""The name under which the node key gives the secret of the channels."""


def keeper(data: Path) -> Keep:
    """Keeps what tools make, and erases what is old."""
    store, swept = MediaStore(data / MEDIA), 0.0

    async def keep(file_name: str, media_type: str, content: bytes) -> Mapping[str, Any]:
        nonlocal swept
        reference = await asyncio.to_thread(store.put, content)
        if (now := time.time()) - swept > SWEEP_S:  # there may be no channels here that do it
            swept = now
            await asyncio.to_thread(store.sweep, now - FILES_S)
        return {
            "reference": reference,
            "file_name": file_name,
            "media_type": media_type,
            "size": len(content),
        }

    return keep


def addresses(data: Path, keystore: KeyStore, clock: Callable[[], int], url: Callable[[], str]) -> Files:
    """Where pages say that files are fetched: the channels serve them, by the same key."""
    return Files(MediaStore(data / MEDIA), keystore.derive(HASHES), clock, url)

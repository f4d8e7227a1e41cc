"""Files that agents hand out: kept in the data directory beside those that came in, by their hash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from indai.edge.files import Files
from indai.edge.media import MediaStore
from indai.node.keystore import KeyStore
from indai.tools.files import Keep

MEDIA: Final = "media"
HASHES: Final = "edge-people"
"""The name under which the node key gives the secret of the channels."""


def keeper(data: Path) -> Keep:
    """Keeps what tools make."""
    store = MediaStore(data / MEDIA)

    async def keep(file_name: str, media_type: str, content: bytes) -> Mapping[str, Any]:
        reference = await asyncio.to_thread(store.put, content)
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

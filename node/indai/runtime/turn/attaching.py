"""Files of tools as media of an answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from indai.tools.files import Attached
from indai.v1 import conversation_pb2 as pb

MOST: Final = 5
"""Files of one answer."""
_PICTURES: Final = "image/"


def media_of(files: Iterable[Attached]) -> list[pb.Media]:
    """Each file once, however often tools named it."""
    once = {each.reference: each for each in files}
    return [
        pb.Media(
            kind="image" if each.media_type.startswith(_PICTURES) else "document",
            media_type=each.media_type,
            reference=each.reference,
            size=each.size,
            file_name=each.file_name,
        )
        for each in list(once.values())[:MOST]
    ]

"""Files on their way out: which ones a provider takes, as what, and how they stand in an outbox. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indai.v1 import conversation_pb2 as pb

PICTURE: Final = "image"
DOCUMENT: Final = "document"
_KEY: Final = "file"
_MB: Final = 1024 * 1024
_PICTURES: Final = frozenset({"image/jpeg", "image/png"})


@dataclass(frozen=True, slots=True)
class Takes:
    """What a provider takes. `documents` are media types, None for any; sizes are bytes. `lacking`: reasons
    for which only files are refused, as where an app was never given the right to send them."""

    picture_bytes: int = 5 * _MB
    document_bytes: int = 10 * _MB
    documents: frozenset[str] | None = None
    lacking: frozenset[str] = frozenset()

    def kind(self, media: pb.Media) -> str:
        """`image`, `document`, or nothing for a file that this provider does not take."""
        if media.media_type in _PICTURES and media.size <= self.picture_bytes:
            return PICTURE
        known = self.documents is None or media.media_type in self.documents
        return DOCUMENT if known and media.size <= self.document_bytes else ""


@dataclass(frozen=True, slots=True)
class File:
    """One file, to be handed to a provider. `link` is where it can be fetched for some days; it is empty
    where nobody can."""

    kind: str
    media_type: str
    name: str
    link: str = field(repr=False)
    content: bytes = field(repr=False)


def as_payload(kind: str, media: pb.Media) -> dict[str, Any]:
    """A file as the payload of a message: by its reference, so that a row stays small."""
    return {
        _KEY: {
            "kind": kind,
            "reference": media.reference,
            "media_type": media.media_type,
            "name": media.file_name,
            "size": media.size,
        }
    }


def as_media(payload: dict[str, Any]) -> pb.Media | None:
    """The file that a payload carries; None for one of words."""
    said = payload.get(_KEY)
    if not isinstance(said, dict) or "reference" not in said:
        return None  # a provider's own message may have such a field
    return pb.Media(
        kind=said["kind"],
        reference=said["reference"],
        media_type=said["media_type"],
        file_name=said["name"],
        size=said["size"],
    )


def linked(text: str, files: Sequence[tuple[str, str]]) -> str:
    """Words with the names of files beneath, and the addresses that they are fetched from where there are."""
    lines = [f"{name}: {address}" if address else f"({name})" for name, address in files]
    return "\n\n".join(filter(None, [text, *lines]))

"""What a file is, by its first bytes: what a provider or a person claims of it is not believed."""

from __future__ import annotations

from typing import Final

HEAD: Final = 512

# Signature, offset, type. https://www.iana.org/assignments/media-types; container formats by their brand.
_SIGNATURES: Final = (
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"WAVE", 8, "audio/wav"),
    (b"OggS", 0, "audio/ogg"),
    (b"ID3", 0, "audio/mpeg"),
    (b"\xff\xfb", 0, "audio/mpeg"),
    (b"\xff\xf3", 0, "audio/mpeg"),
    (b"\xff\xf1", 0, "audio/aac"),
    (b"\xff\xf9", 0, "audio/aac"),
    (b"#!AMR", 0, "audio/amr"),
    (b"fLaC", 0, "audio/flac"),
    (b"ftypM4A", 4, "audio/mp4"),
    (b"ftyp", 4, "video/mp4"),
    (b"\x1aE\xdf\xa3", 0, "video/webm"),
    (b"%PDF-", 0, "application/pdf"),
    (b"PK\x03\x04", 0, "application/zip"),
)
# A zip that says it is one of these is kept as what it says: it is opened by nobody here.
_IN_ZIP: Final = (
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
)
_TEXTS: Final = ("text/plain", "text/csv", "text/calendar", "text/vcard", "text/x-vcard")
_MARKUP: Final = (b"<!doctype", b"<html", b"<svg", b"<?xml", b"<script", b"#!/", b"<?php")


def sniff(head: bytes, claimed: str) -> str:
    """The media type of what begins with `head`; empty for what is not taken: programs, pages, scripts."""
    for signature, offset, media_type in _SIGNATURES:
        if head[offset : offset + len(signature)] == signature:
            if offset == 8 and head[:4] != b"RIFF":
                continue
            return claimed if media_type == "application/zip" and claimed in _IN_ZIP else _but_zip(media_type)
    plain = claimed.partition(";")[0].strip().lower()
    return plain if plain in _TEXTS and _is_text(head) else ""


def _but_zip(media_type: str) -> str:
    """Archives are not taken: what is in them is nobody's claim."""
    return "" if media_type == "application/zip" else media_type


def _is_text(head: bytes) -> bool:
    if b"\x00" in head or any(mark in head.lower() for mark in _MARKUP):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # the last letter is cut
    return True

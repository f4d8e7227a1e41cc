"""How the values of an export's fields are written: one text for each, and nothing else is read back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from types import MappingProxyType
from typing import Any

_MAX_INT = (1 << 63) - 1


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    value.encode("utf-8")  # a lone surrogate is JSON but not text
    return value


def _int(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_INT:
        raise ValueError("not a number from 0 to 2^63 - 1")
    return value


def _from_base64(value: object) -> bytes:
    try:
        return base64.b64decode(_text(value).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("not base64") from error


# As JSON. What is hexadecimal or base64 has nothing in it that JSON would escape.
ENCODERS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "text": lambda value: encode_basestring_ascii(_text(value)),
        "int": lambda value: str(_int(value)),
        "hex": lambda value: f'"{value.hex()}"',
        "base64": lambda value: f'"{base64.b64encode(value).decode("ascii")}"',
    }
)
DECODERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"text": _text, "int": _int, "hex": lambda value: bytes.fromhex(_text(value)), "base64": _from_base64}
)

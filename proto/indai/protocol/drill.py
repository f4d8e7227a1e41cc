"""Recovery drills: a rotation key signs a challenge, which changes nothing and shows that its holder has it.

What is signed begins with words that no envelope begins with (`DSSEv1`), so a drill's signature can stand for
no operation of a handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.keys import SigningKey, key_id, verify

MAX_CHALLENGE: Final = 100
_PREFIX: Final = "ind.ai recovery drill 1"


def sign(key: SigningKey, handle: str, challenge: str) -> bytes:
    """The signature (64 bytes) of a rotation key under a challenge."""
    return key.sign(_signed(handle, challenge))


def who_signed(
    rotation_keys: Sequence[bytes], handle: str, challenge: str, signature: bytes
) -> tuple[str, int]:
    """Id of the rotation key that signed, and its rank (1: the highest authority). Raises
    ProtocolError(BAD_SIGNATURE) when none did."""
    message = _signed(handle, challenge)
    for rank, public in enumerate(rotation_keys, 1):
        if verify(public, message, signature):
            return key_id(public), rank
    raise ProtocolError(
        Reason.BAD_SIGNATURE,
        "No rotation key of this handle made this signature for this drill.",
        hint="copy the whole line that `indai handle drill` printed, for the challenge that is shown now",
    )


def _signed(handle: str, challenge: str) -> bytes:
    if (
        not challenge
        or len(challenge) > MAX_CHALLENGE
        or not challenge.isascii()
        or not challenge.isprintable()
    ):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "A drill's challenge is a short line of letters and digits."
        )
    return "\n".join((_PREFIX, handle, challenge)).encode()

"""Sound as the rest of this room handles it: mono, 16 bits, little-endian.

Beside it what telephones and files make of it: mu-law is ITU-T G.711; resampling is by a windowed sinc, so
that what a lower rate can't hold doesn't fold back.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from indai.protocol.errors import InvalidInput, Reason
from numpy.typing import NDArray

HEARING = 16_000
"""Hertz at which speech is recognised and browsers talk."""
TELEPHONE = 8_000
_BYTES = 2
_HALF_WIDTH = 16  # samples of the lower rate, on each side
_RATES = range(4_000, 96_001)
_BIAS, _CLIP = 0x84, 32_635
Samples = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Audio:
    """Mono sound: `pcm` is 16-bit little-endian, `rate` in hertz."""

    pcm: bytes = field(repr=False)
    rate: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.pcm) / _BYTES / self.rate

    def samples(self) -> Samples:
        """As numbers; half a sample at the end is dropped."""
        return np.frombuffer(self.pcm[: len(self.pcm) // _BYTES * _BYTES], dtype="<i2").astype(np.int16)

    def at(self, rate: int) -> Audio:
        """The same sound at another rate."""
        return (
            self if rate == self.rate else Audio(resampled(self.samples(), self.rate, rate).tobytes(), rate)
        )


def resampled(samples: Samples, have: int, want: int) -> Samples:
    """Samples of a sound at another rate."""
    if have == want or not len(samples):
        return samples
    lower = min(have, want)
    half = round(_HALF_WIDTH * have / lower)
    width = 0.95 * lower / have
    # Where a new sample lies between two old ones repeats: the filter is made once for each such place.
    common = gcd(have, want)
    whole, phase = np.divmod(np.arange(len(samples) * want // have, dtype=np.int64) * have, want)
    phase //= common
    between = np.arange(want // common) * (common / want)
    padded = np.pad(samples, (half, half + 1))
    out = np.zeros(len(whole))
    for step in range(1 - half, half + 1):
        off = between - step
        window = 0.5 + 0.5 * np.cos(np.pi * np.clip(off / half, -1, 1))
        out += padded[whole + step + half] * (np.sinc(width * off) * width * window)[phase]
    return np.clip(np.rint(out), -32_768, 32_767).astype(np.int16)


def _expanded() -> Samples:
    code = ~np.arange(256, dtype=np.int64) & 0xFF
    magnitude = ((((code & 0x0F) << 3) + _BIAS) << ((code & 0x70) >> 4)) - _BIAS
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


_EXPANDED = _expanded()


def from_mulaw(data: bytes) -> Audio:
    """Sound of a telephone line."""
    return Audio(_EXPANDED[np.frombuffer(data, dtype=np.uint8)].tobytes(), TELEPHONE)


def to_mulaw(audio: Audio) -> bytes:
    """Sound for a telephone line, at its rate."""
    samples = audio.at(TELEPHONE).samples().astype(np.int64)
    magnitude = np.minimum(np.abs(samples), _CLIP) + _BIAS
    segment = np.floor(np.log2(magnitude)).astype(np.int64) - 7
    code = (segment << 4) | ((magnitude >> (segment + 3)) & 0x0F) | np.where(samples < 0, 0x80, 0)
    out: bytes = (~code & 0xFF).astype(np.uint8).tobytes()
    return out


def wav(audio: Audio) -> bytes:
    """As a WAV file."""
    size = len(audio.pcm)
    form = struct.pack("<HHIIHH", 1, 1, audio.rate, audio.rate * _BYTES, _BYTES, 16)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + size)
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + form
        + (b"data" + struct.pack("<I", size) + audio.pcm)
    )


def from_wav(data: bytes) -> Audio:
    """Sound of a WAV file of 16-bit PCM, several channels mixed.

    The length that its header claims is not believed: a program that writes to a pipe doesn't know it. Raises
    InvalidInput.
    """
    stream = io.BytesIO(data)
    if stream.read(4) != b"RIFF" or not stream.read(4) or stream.read(4) != b"WAVE":
        raise _no_wav("it does not begin like one")
    form: tuple[int, ...] = ()
    while len(head := stream.read(8)) == 8:
        name, size = head[:4], struct.unpack("<I", head[4:])[0]
        body = stream.read(size + size % 2)
        if name == b"fmt " and len(body) >= 16:
            form = struct.unpack("<HHIIHH", body[:16])
        elif name == b"data":
            return _mixed(body[:size], form)
    raise _no_wav("it holds no sound")


def _mixed(body: bytes, form: tuple[int, ...]) -> Audio:
    if not form or form[0] not in (1, 0xFFFE) or form[5] != 16:
        raise _no_wav("it is not 16-bit PCM")
    channels, rate = form[1], form[2]
    if not 1 <= channels <= 8 or rate not in _RATES:
        raise _no_wav("its channels or its rate are out of range")
    whole = np.frombuffer(body[: len(body) // (2 * channels) * 2 * channels], dtype="<i2")
    return Audio(whole.reshape(-1, channels).mean(axis=1).astype(np.int16).tobytes(), rate)


def _no_wav(why: str) -> InvalidInput:
    return InvalidInput(Reason.MALFORMED, f"This is no WAV file that can be read: {why}.")

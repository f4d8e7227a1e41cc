"""Voice notes: files of sound, as messengers send them, to words.

Decoded by libsndfile (WAV, FLAC, OGG with Vorbis or Opus, MP3), in a thread and up to two minutes. What a
file calls itself is not believed: libsndfile looks.
"""

from __future__ import annotations

import asyncio
import io

import numpy as np
import soundfile
from indai.language import detect
from indai.language.scripts import base
from indai.protocol.errors import InvalidInput, Reason
from indai.voice.audio import HEARING, Audio, resampled
from indai.voice.speech import LONGEST_S, Heard, Speech

MOST_BYTES = 16 * 1024 * 1024
_RATES = range(4_000, 96_001)


async def transcribe(speech: Speech, data: bytes, language: str = "") -> Heard:
    """What a voice note says; `language` is the contact's, BCP 47. Text is "" when nothing was recognised.

    Raises InvalidInput for what is no sound, too long or too large, and what `Speech.hear` raises.
    """
    audio = await asyncio.to_thread(decoded, data)
    heard = await speech.hear(audio, base(language) or "en")
    return (
        Heard(heard.text, detect(heard.text, heard.language).tag, heard.confidence) if heard.text else heard
    )


def decoded(data: bytes) -> Audio:
    """The sound of a file, at HEARING."""
    if len(data) > MOST_BYTES:
        raise InvalidInput(Reason.TOO_LARGE, f"A voice note has at most {MOST_BYTES // 1024 // 1024} MB.")
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.samplerate not in _RATES or not 1 <= file.channels <= 8:
                raise InvalidInput(Reason.MALFORMED, "The voice note's rate or channels are out of range.")
            # What the header says of its length may be a lie: no more than this is decoded, and a second at a
            # time, since eight channels of silence are hundreds of megabytes in a file of a few.
            rate, most = file.samplerate, file.samplerate * LONGEST_S + 1
            seconds = file.blocks(blocksize=rate, frames=most, dtype="int16", always_2d=True)
            parts = [each.mean(axis=1).astype(np.int16) for each in seconds]
            mono = np.concatenate(parts) if parts else np.zeros(0, np.int16)
    except (soundfile.SoundFileError, ValueError, TypeError, OverflowError):
        raise InvalidInput(
            Reason.MALFORMED, "The voice note can't be decoded.", hint="OGG, MP3, FLAC and WAV are read"
        ) from None
    if len(mono) > rate * LONGEST_S:
        raise InvalidInput(Reason.TOO_LARGE, f"A voice note lasts at most {LONGEST_S} s.")
    return Audio(resampled(mono, rate, HEARING).tobytes(), HEARING)

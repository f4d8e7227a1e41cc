"""Sound: telephones' and files' forms, rates, and where utterances begin and end."""

from __future__ import annotations

import io
import struct
import tracemalloc

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput, Reason
from indai.voice.audio import HEARING, TELEPHONE, Audio, from_mulaw, from_wav, resampled, to_mulaw, wav
from indai.voice.endpointing import FRAME_BYTES, Began, Ended, Endpointer, Event
from indai.voice.notes import decoded


def tone(hertz: float, seconds: float, rate: int = HEARING, loud: float = 8_000) -> Audio:
    at = np.arange(int(seconds * rate)) / rate
    return Audio((np.sin(2 * np.pi * hertz * at) * loud).astype(np.int16).tobytes(), rate)


def noise(seconds: float, loud: float, seed: int = 0) -> bytes:
    chance = np.random.default_rng(seed)
    return chance.normal(0, loud, int(seconds * HEARING)).astype(np.int16).tobytes()


def test_mulaw_has_the_values_of_g711() -> None:
    # ITU-T G.711, table 2a, in 16 bits.
    known = {0xFF: 0, 0x7F: 0, 0x80: 32_124, 0x00: -32_124, 0xF0: 120, 0x8F: 16_764, 0x0F: -16_764}
    heard = from_mulaw(bytes(known))
    assert heard.rate == TELEPHONE
    assert heard.samples().tolist() == list(known.values())


def test_every_code_of_mulaw_survives_a_round_trip() -> None:
    codes = bytes(code for code in range(256) if code != 0x7F)  # the second zero
    assert to_mulaw(from_mulaw(codes)) == codes


@given(st.lists(st.integers(-32_768, 32_767), min_size=1, max_size=200))
def test_mulaw_is_off_by_a_step_at_most(samples: list[int]) -> None:
    before = np.array(samples, dtype=np.int16)
    after = from_mulaw(to_mulaw(Audio(before.tobytes(), TELEPHONE))).samples()
    size = np.abs(before.astype(int))
    off = np.abs(after.astype(int) - before.astype(int))
    assert (off <= 4 + size / 16 + (size > 32_000) * 700).all()


def test_a_tone_survives_another_rate_and_what_does_not_fit_is_gone() -> None:
    low = resampled(tone(440, 0.5, 22_050).samples(), 22_050, HEARING)
    spectrum = np.abs(np.fft.rfft(low))
    assert abs(np.argmax(spectrum) * HEARING / len(low) - 440) < 4
    folded = resampled(tone(7_000, 0.5).samples(), HEARING, TELEPHONE)
    assert np.abs(folded[200:-200]).max() < 80, "7 kHz would be heard as 1 kHz"


def test_wav_files_come_and_go() -> None:
    sound = tone(300, 0.1)
    assert from_wav(wav(sound)) == sound
    claims_more = bytearray(wav(sound))
    claims_more[40:44] = struct.pack("<I", 0x7FFFFFFF)
    assert from_wav(bytes(claims_more)) == sound


@pytest.mark.parametrize(
    "data",
    [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"<html>", wav(tone(300, 0.1))[:30], wav(Audio(b"", 8000))[:36],
     wav(tone(1, 0.01)).replace(b"\x10\x00data", b"\x08\x00data"), wav(Audio(b"\0" * 8, 1))],
)  # fmt: skip
def test_what_is_no_sound_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        from_wav(data)


@pytest.mark.parametrize(
    ("kind", "subtype"), [("OGG", "OPUS"), ("OGG", "VORBIS"), ("FLAC", "PCM_16"), ("WAV", "PCM_16")]
)
def test_voice_notes_of_messengers_are_decoded(kind: str, subtype: str) -> None:
    file = io.BytesIO()
    stereo = np.stack([tone(500, 0.6, 48_000).samples()] * 2, axis=1)
    soundfile.write(file, stereo, 48_000, format=kind, subtype=subtype)
    heard = decoded(file.getvalue())
    spectrum = np.abs(np.fft.rfft(heard.samples()[2_000:-2_000]))
    assert heard.rate == HEARING
    assert abs(heard.seconds - 0.6) < 0.1
    peak = np.argmax(spectrum) * HEARING / (len(heard.samples()) - 4_000)
    assert abs(peak - 500) < 10


def test_a_voice_note_that_is_too_long_or_none_is_refused() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(8_000 * 130, dtype=np.int16), 8_000, format="FLAC")
    with pytest.raises(InvalidInput) as refused:
        decoded(file.getvalue())
    assert refused.value.reason is Reason.TOO_LARGE
    for data in (b"", b"OggS" + b"\0" * 50, b"%PDF-1.7", file.getvalue()[:20]):
        with pytest.raises(InvalidInput) as malformed:
            decoded(data)
        assert malformed.value.reason is Reason.MALFORMED


def test_a_few_bytes_that_unfold_to_many_channels_are_decoded_a_second_at_a_time() -> None:
    file, seconds = io.BytesIO(), 20
    soundfile.write(file, np.zeros((96_000 * seconds, 8), dtype=np.int16), 96_000, format="FLAC")
    assert len(file.getvalue()) < 100_000
    tracemalloc.start()
    try:
        assert decoded(file.getvalue()).seconds == seconds
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 96_000 * seconds * 8 * 2  # less than all of it at once


def heard(ears: Endpointer, sound: bytes, piece: int = 640) -> list[Event]:
    return [event for at in range(0, len(sound), piece) for event in ears.push(sound[at : at + piece])]


@pytest.mark.parametrize("piece", [640, 100, 6_400])
@pytest.mark.parametrize("line", [2, 60, 300])
def test_an_utterance_is_cut_out_of_the_noise_of_its_line(line: int, piece: int) -> None:
    speech = np.frombuffer(noise(1.2, line), "<i2") + tone(200, 1.2, loud=8_000).samples() // 1
    sound = noise(1, line) + speech.astype(np.int16).tobytes() + noise(1.5, line, 1)
    events = heard(Endpointer(), sound, piece)
    assert [type(event) for event in events] == [Began, Ended]
    ended = events[1]
    assert isinstance(ended, Ended)
    assert 1.2 <= ended.audio.seconds < 2.5


def test_silence_noise_and_clicks_are_no_utterances() -> None:
    click = tone(900, 0.03).pcm
    for sound in (b"\0" * FRAME_BYTES * 100, noise(3, 100), noise(1, 30) + click + noise(1, 30)):
        assert heard(Endpointer(), sound) == []


def test_an_endless_utterance_is_cut() -> None:
    syllable = tone(200, 0.25).pcm + noise(0.1, 5)
    events = heard(Endpointer(), noise(0.5, 5) + syllable * 190)
    ends = [event for event in events if isinstance(event, Ended)]
    assert len(ends) >= 2
    assert all(event.audio.seconds <= 30 for event in ends)


def test_what_was_said_when_the_line_closed_is_kept() -> None:
    ears = Endpointer()
    heard(ears, noise(0.5, 5) + tone(200, 1).pcm)
    assert ears.speaking
    assert [type(event) for event in ears.flush()] == [Ended]
    assert ears.flush() == []

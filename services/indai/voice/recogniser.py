"""The process that recognises English with PocketSphinx; `indai.voice.local` starts it.

A process of its own, since recognising holds Python's lock for as long as it takes. On its input come
utterances, each as four bytes of length (big-endian) and PCM at 16 kHz; for each it writes a line of JSON,
{"text": "..."}.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from indai.voice.audio import HEARING
from indai.voice.ngram_model import arpa, pronunciations, sentences

_REQUESTS, _SOUNDS = "requests", "sounds"
LONGEST = 16_000 * 2 * 120
_SILENCE = HEARING * 2 // 5  # samples before and after
# How much less likely a sound may be as a request than as a mere sequence of English sounds: a logarithm for
# each frame of 10 ms, in PocketSphinx's unit. Chosen on the sentences of bench/voice.py.
_MARGIN = -0.000_35
_FRAME = HEARING // 100
_NOISE = 8  # of 32,768: a synthetic voice is too clean, and the logarithm of nothing misleads the recogniser


def decoder() -> Any:
    """PocketSphinx with its English sounds and our language model. Raises ImportError without it."""
    from pocketsphinx import Decoder, get_model_path  # noqa: PLC0415 - only this process needs it

    found = Decoder(samprate=HEARING, lm=None, loglevel="FATAL")
    for word, sounds in pronunciations().items():
        if found.lookup_word(word) is None:
            found.add_word(word, sounds, False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.arpa"
        path.write_text(arpa(sentences()), "ascii")
        found.add_lm_file(_REQUESTS, str(path))
    found.add_allphone_file(_SOUNDS, get_model_path("en-us/en-us-phone.lm.bin"))
    return found


def recognise(with_decoder: Any, pcm: bytes) -> dict[str, Any]:
    """What was said; "" for what is no request: everything sounds like some request, if only a little."""
    rough = _roughened(pcm)
    text, as_request = _decoded(with_decoder, _REQUESTS, rough)
    _, as_sounds = _decoded(with_decoder, _SOUNDS, rough)
    if (as_request - as_sounds) / max(1, len(pcm) // 2 // _FRAME) < _MARGIN:
        text = ""
    return {"text": text}


def _decoded(with_decoder: Any, search: str, sound: bytes) -> tuple[str, float]:
    """The best words, or sounds, and their score."""
    with_decoder.activate_search(search)
    with_decoder.start_utt()
    with_decoder.process_raw(sound, full_utt=True)
    with_decoder.end_utt()
    hypothesis = with_decoder.hyp()
    return ("", 0.0) if hypothesis is None else (hypothesis.hypstr, hypothesis.best_score)


def _roughened(pcm: bytes) -> bytes:
    """The sound with silence around it and a little noise, always the same."""
    samples = np.pad(np.frombuffer(pcm[: len(pcm) // 2 * 2], dtype="<i2").astype(np.int32), _SILENCE)
    noise = np.random.default_rng(1).integers(-_NOISE, _NOISE + 1, len(samples))
    rough: bytes = np.clip(samples + noise, -32_768, 32_767).astype("<i2").tobytes()
    return rough


def serve(utterances: BinaryIO, answers: BinaryIO) -> None:
    """Until the input ends."""
    ours = decoder()
    answers.write(b"{}\n")  # ready
    answers.flush()
    while len(head := utterances.read(4)) == 4:
        size = struct.unpack(">I", head)[0]
        if size > LONGEST:
            return
        answers.write(json.dumps(recognise(ours, utterances.read(size))).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)

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

LONGEST = 16_000 * 2 * 120
_SILENCE = HEARING * 2 // 5  # samples before and after
_NOISE = 8  # of 32,768: a synthetic voice is too clean, and the logarithm of nothing misleads the recogniser


def decoder() -> Any:
    """PocketSphinx with its English sounds and our language model. Raises ImportError without it."""
    from pocketsphinx import Decoder  # noqa: PLC0415 - half a second, and only this process needs it

    found = Decoder(samprate=HEARING, lm=None, loglevel="FATAL")
    for word, sounds in pronunciations().items():
        if found.lookup_word(word) is None:
            found.add_word(word, sounds, False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.arpa"
        path.write_text(arpa(sentences()), "ascii")
        found.add_lm_file("requests", str(path))
    found.activate_search("requests")
    return found


def recognise(with_decoder: Any, pcm: bytes) -> dict[str, Any]:
    """What was said. It can't say how sure that is."""
    with_decoder.start_utt()
    with_decoder.process_raw(_roughened(pcm), full_utt=True)
    with_decoder.end_utt()
    hypothesis = with_decoder.hyp()
    return {"text": "" if hypothesis is None else hypothesis.hypstr}


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

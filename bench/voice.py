"""How well the local engine understands English, by what espeak-ng says: `python -m bench.voice`.

Word error rate of ten requests of the kinds that its language model is made of, and of ten other sentences,
by several synthetic voices. Real people on real lines were not measured.
"""

from __future__ import annotations

import asyncio
import re
import time

import numpy as np
from indai.voice.audio import TELEPHONE, Audio, from_mulaw, to_mulaw
from indai.voice.local import LocalSpeech

# Ten of the kind it is made for, and ten that people say anyway.
FOR_IT = (
    "I would like to meet Bob for half an hour",
    "Please cancel my meeting with Priya",
    "Are you free on Friday afternoon",
    "Set up a call with Rahul tomorrow at eleven",
    "What is on my calendar today",
    "Can I see the doctor on Monday morning",
    "Pay Ravi five hundred rupees",
    "Move our meeting to Thursday",
    "How much does it cost",
    "Yes please",
)
ANYTHING = (
    "My washing machine is leaking again",
    "Do you have the red shirt in medium",
    "The parcel never arrived at my place",
    "I forgot the password of my account",
    "Is there parking near your building",
    "The train was two hours late",
    "Which documents do I need for a passport",
    "My son has a fever since last night",
    "I want a refund for the broken lamp",
    "Turn left after the big temple",
)
VOICES = ("en-us", "en-us+klatt4", "en-us+f3", "en-gb")


def words(text: str) -> list[str]:
    """Lower-case words."""
    return re.findall(r"[a-z']+", text.lower())


def errors(said: list[str], heard: list[str]) -> int:
    """Words put in, left out or changed (Levenshtein)."""
    row = list(range(len(heard) + 1))
    for at, word in enumerate(said, start=1):
        before, row[0] = row[0], at
        for place, other in enumerate(heard, start=1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != other))
    return row[-1]


def over_a_telephone(audio: Audio) -> Audio:
    """As a telephone line carries it, with a little of its noise."""
    line = audio.at(TELEPHONE).samples().astype(np.int64)
    noise = np.random.default_rng(0).normal(0, 30, len(line)).astype(np.int64)
    noisy = np.clip(line + noise, -32_768, 32_767).astype(np.int16).tobytes()
    return from_mulaw(to_mulaw(Audio(noisy, TELEPHONE)))


async def main() -> None:
    """Prints the table of docs/voice.md."""
    ears = LocalSpeech()
    await ears.hear(Audio(b"\0\0" * 16_000, 16_000), "en")
    spent = lasted = 0.0
    for telephone in (False, True):
        for name, sentences in (("requests", FOR_IT), ("anything", ANYTHING)):
            for voice in VOICES:
                wrong = whole = right = nothing = 0
                for sentence in sentences:
                    audio = await LocalSpeech(voices={"en": voice}).say(sentence, "en")
                    audio = over_a_telephone(audio) if telephone else audio
                    began = time.perf_counter()
                    heard = await ears.hear(audio, "en")
                    spent, lasted = spent + time.perf_counter() - began, lasted + audio.seconds
                    nothing += not heard.text
                    missed = errors(words(sentence), words(heard.text))
                    wrong, whole, right = wrong + missed, whole + len(words(sentence)), right + (not missed)
                line = "telephone" if telephone else "microphone"
                told = f"{line:10} {name:8} {voice:12} WER {wrong / whole:4.0%}"
                print(f"{told}  whole sentences {right}/10, not understood {nothing}/10")
    print(f"{spent / lasted:.2f} s of work for a second of speech")
    await ears.close()


if __name__ == "__main__":
    asyncio.run(main())

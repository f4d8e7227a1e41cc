"""Hears where an utterance begins and ends: voiced frames of 20 ms against the noise of the line.

A frame is voiced when its energy is well above the noise floor: the quietest tenth of the last three seconds
(minimum statistics, after Martin 2001). Three voiced frames of five begin an utterance (a click doesn't),
700 ms without one end it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from indai.voice.audio import HEARING, Audio

FRAME_MS = 20
FRAME_BYTES = HEARING * FRAME_MS // 1000 * 2
_ABOVE_DB, _LEAST_DB = 10.0, -50.0  # over the noise; of full scale
_MEMORY = 3_000 // FRAME_MS  # frames in which there is a pause, whoever speaks
_BEGIN, _OF = 3, 5
_BEFORE = 15  # frames kept from before the beginning: soft consonants
_QUIET = 35
_LONGEST = 30_000 // FRAME_MS


@dataclass(frozen=True, slots=True)
class Began:
    """Somebody speaks: what is being said to them stops."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What they said, with a little silence around it."""

    audio: Audio


Event = Began | Ended


@dataclass(slots=True)
class Endpointer:
    """Feed it sound at HEARING; it answers with what began and ended. Nothing is kept of silence."""

    _rest: bytes = field(default=b"", repr=False)
    _before: deque[bytes] = field(default_factory=lambda: deque(maxlen=_BEFORE), repr=False)
    _voiced: deque[bool] = field(default_factory=lambda: deque(maxlen=_OF), repr=False)
    _said: list[bytes] = field(default_factory=list, repr=False)
    _levels: deque[float] = field(default_factory=lambda: deque(maxlen=_MEMORY), repr=False)
    _quiet: int = 0
    speaking: bool = False

    def push(self, pcm: bytes) -> list[Event]:
        """Events of this piece of sound, in order."""
        data = self._rest + pcm
        whole = len(data) // FRAME_BYTES * FRAME_BYTES
        self._rest = data[whole:]
        events: list[Event] = []
        for at in range(0, whole, FRAME_BYTES):
            events += self._frame(data[at : at + FRAME_BYTES])
        return events

    def flush(self) -> list[Event]:
        """The line is closed: what was said until now is all."""
        return [self._end()] if self.speaking else []

    def _frame(self, frame: bytes) -> list[Event]:
        voiced = self._is_voiced(frame)
        self._voiced.append(voiced)
        if not self.speaking:
            self._before.append(frame)
            if sum(self._voiced) < _BEGIN:
                return []
            self.speaking, self._quiet, self._said = True, 0, list(self._before)
            self._before.clear()
            return [Began()]
        self._said.append(frame)
        self._quiet = 0 if voiced else self._quiet + 1
        return [self._end()] if self._quiet >= _QUIET or len(self._said) >= _LONGEST else []

    def _end(self) -> Ended:
        audio = Audio(b"".join(self._said), HEARING)
        self.speaking, self._said = False, []
        self._voiced.clear()
        return Ended(audio)

    def _is_voiced(self, frame: bytes) -> bool:
        samples = np.frombuffer(frame, dtype="<i2").astype(np.float64)
        power = float(np.mean(np.square(samples - samples.mean())))
        level = 10 * np.log10(power / 32_768**2 + 1e-10)
        self._levels.append(float(level))
        floor = sorted(self._levels)[len(self._levels) // 10]
        return bool(level > max(floor + _ABOVE_DB, _LEAST_DB))

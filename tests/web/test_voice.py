"""A public page is spoken to: the browser's own microphone, fed with a sentence that espeak-ng says."""

from __future__ import annotations

import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
from indai.voice.local import LocalSpeech
from playwright.async_api import async_playwright, expect

from tests.service.web.conftest import Desks
from tests.web.conftest import ARGUMENTS, CHROMIUM, HAVE_CHROMIUM, PHONE, screen

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not HAVE_CHROMIUM, reason="there is no browser: apt-get install chromium"),
    pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="apt-get install espeak-ng"),
]


async def _recorded(sentence: str, path: Path) -> Path:
    """A file that stands for the microphone, again and again: whoever listens late hears the next time. There
    is a long near-silence after it: who speaks again before they were understood is listened to anew."""
    rate = 16_000
    audio = await LocalSpeech(voices={"en": "en-us+klatt4"}).say(sentence, "en")
    hush = np.random.default_rng(0).normal(0, 12, 20 * rate).astype(np.int16).tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(hush[: 4 * rate] + audio.at(rate).pcm + hush)
    return path


async def test_a_visitor_speaks_and_is_answered(desks: Desks, tmp_path: Path) -> None:
    sound = await _recorded("What can you do", tmp_path / "microphone.wav")
    fake = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")
    arguments = [*ARGUMENTS, *fake, f"--use-file-for-fake-audio-capture={sound}"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        async with screen(browser, desks, PHONE) as window:
            await window.open("/bob")
            await window.click("button", "Speak")
            mine, theirs = window.page.locator("#talk .mine"), window.page.locator("#talk .theirs")
            await expect(mine.last).to_contain_text("what can you do", ignore_case=True, timeout=120_000)
            await expect(theirs.last).not_to_be_empty()
            await window.check()
            await window.picture("spoken")
            await window.click("button", "Hang up")
            await expect(window.page.get_by_role("button", name="Speak", exact=True)).to_be_visible()
        await browser.close()

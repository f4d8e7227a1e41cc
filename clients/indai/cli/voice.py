"""`indai voice`: what the engines of speech that this node uses say and hear."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import aiohttp
import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.language import detect
from indai.language.scripts import base
from indai.node.keystore import open_keystore
from indai.node.secrets import Secrets
from indai.node.voice_role import FILE
from indai.protocol.errors import Reason, Unavailable
from indai.voice.audio import wav
from indai.voice.config import engines, parse_config
from indai.voice.notes import MOST_BYTES, decoded, transcribe
from indai.voice.speech import Chain, Health

T = TypeVar("T")
_HERE = "indai.cli.voice:"
SECTIONS = {"Commands": {"say": _HERE + "say", "hear": _HERE + "hear", "check": _HERE + "check"}}
_language = click.option(
    "--language", metavar="TAG", default="", help="BCP 47, e.g. hi; else it is found out."
)


@click.command("voice", cls=Group, sections=SECTIONS)
def voice() -> None:
    """Try the engines of speech that this node uses.

    They are named in speech.yaml in the data directory; without it, it is the
    local engine: espeak-ng speaks, PocketSphinx understands simple English.
    """


@command("say", 'indai voice say "Good morning" --to morning.wav', "indai voice say नमस्ते --to namaste.wav")
@click.argument("text")
@click.option("--to", "target", metavar="FILE", required=True, help="The WAV file to write; - for stdout.")
@_language
@data_option
def say(home: Home, text: str, target: str, language: str) -> None:
    """Say TEXT into a file."""
    spoken_in = base(language) or detect(text).language
    audio = run(_with(home, lambda speech: speech.say(text, spoken_in)))
    if target == "-":
        sys.stdout.buffer.write(wav(audio))
        return
    Path(target).write_bytes(wav(audio))
    emit(
        {"file": target, "language": spoken_in, "seconds": round(audio.seconds, 2), "rate": audio.rate},
        lambda page: page.line(f"{audio.seconds:.1f} s of {spoken_in} are in {target}."),
    )


@command("hear", "indai voice hear morning.wav", "indai voice hear note.ogg --language hi")
@click.argument("file", type=click.Path(dir_okay=False))
@_language
@data_option
def hear(home: Home, file: str, language: str) -> None:
    """Print what is said in FILE (WAV, OGG, MP3 or FLAC)."""
    if Path(file).stat().st_size > MOST_BYTES:
        raise wrong("The file is too large.", f"at most {MOST_BYTES // 1024 // 1024} MB")
    data = Path(file).read_bytes()
    heard = run(_with(home, lambda speech: transcribe(speech, data, language)))
    seconds = round(decoded(data).seconds, 2)
    emit(
        {"text": heard.text, "language": heard.language, "seconds": seconds},
        lambda page: page.line(heard.text or "No word was understood."),
    )


@command("check", "indai voice check")
@data_option
def check(home: Home) -> None:
    """Ask each engine whether it can be used; exits with 6 when none can."""

    async def asked(speech: Chain) -> list[Health]:
        return [await engine.check() for engine in speech.engines]

    found = run(_with(home, asked))

    def show(page: Page) -> None:
        for each in found:
            page.line(f"{each.engine}: {each.words}", "green" if each.usable else "red")

    listed = [{"engine": each.engine, "usable": each.usable, "words": each.words} for each in found]
    emit({"engines": listed, "usable": any(each.usable for each in found)}, show)
    if not any(each.usable for each in found):
        raise Unavailable(
            Reason.PROVIDER_FAILED, "No engine of speech can be used.", hint="see docs/voice.md"
        )


async def _with(home: Home, task: Callable[[Chain], Awaitable[T]]) -> T:
    """Do something with the engines of this data directory."""
    path = home.path / FILE
    config = parse_config(path.read_text("utf-8") if path.exists() else "")

    async def secret(reference: str) -> str:
        return await asyncio.to_thread(_secret, home, reference)

    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        speech = engines(config, session, secret)
        try:
            return await task(speech)
        finally:
            await speech.close()


def _secret(home: Home, reference: str) -> str:
    return Secrets(home.path, open_keystore(home.path, os.environ), os.environ).get(reference)

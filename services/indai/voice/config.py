"""Which engines of speech there are, and which telephone numbers: `speech.yaml`.

Strict: an unknown field or a secret that is written out is named with its path. Without the file the local
engine does what it can. docs/voice.md describes each field.
"""

from __future__ import annotations

from typing import Annotated, Literal

import aiohttp
import yaml
from indai.language.scripts import SCRIPT_OF
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.voice import bhashini, sarvam
from indai.voice.bhashini import Bhashini
from indai.voice.http import SecretOf, checked_url
from indai.voice.local import LocalSpeech
from indai.voice.sarvam import Sarvam
from indai.voice.speech import Chain, Speech
from indai.voice.telephone import Number
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

MAX_BYTES = 64 * 1024

SecretReference = Annotated[str, StringConstraints(pattern=r"^vault:((sealed|env)/)?[A-Za-z0-9_.-]{1,64}$")]
Id = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")]
E164 = Annotated[str, StringConstraints(pattern=r"^\+[0-9]{6,15}$")]


def _url(value: str) -> str:
    try:
        return checked_url(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from None


def _language(value: str) -> str:
    if value not in SCRIPT_OF:
        raise ValueError(f"no language of ours; one of {' '.join(sorted(SCRIPT_OF))}")
    return value


def _handle(value: str) -> str:
    try:
        return str(Handle.parse(value))
    except InvalidInput as error:
        raise ValueError(str(error)) from None


Url = Annotated[str, StringConstraints(max_length=300), AfterValidator(_url)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SarvamConfig(_Strict):
    """Sarvam: its subscription key."""

    kind: Literal["sarvam"]
    api_key: SecretReference
    base_url: Url = sarvam.BASE_URL
    hearing_model: Id = "saarika:v2.5"
    speaking_model: Id = "bulbul:v2"
    speaker: Id = "anushka"


class BhashiniConfig(_Strict):
    """Bhashini: the user's id and their ULCA API key."""

    kind: Literal["bhashini"]
    user_id: Id
    api_key: SecretReference
    config_url: Url = bhashini.CONFIG_URL
    pipeline: Id = bhashini.PIPELINE


class NumberConfig(_Strict):
    """A number at Twilio: who answers, in which language, and the account's token."""

    handle: Annotated[str, AfterValidator(_handle)]
    auth_token: SecretReference
    language: Annotated[str, AfterValidator(_language)] = "en"


class Config(_Strict):
    """The whole file. Engines are asked in this order, the local one last."""

    version: Literal[1]
    engines: Annotated[
        tuple[Annotated[SarvamConfig | BhashiniConfig, Field(discriminator="kind")], ...], Field(max_length=4)
    ] = ()
    numbers: Annotated[dict[E164, NumberConfig], Field(max_length=100)] = Field(default_factory=dict)


def parse_config(text: str) -> Config:
    """The configuration; of an empty text the usual one. Raises InvalidInput with every problem at once."""
    if len(text.encode()) > MAX_BYTES:
        raise InvalidInput(Reason.TOO_LARGE, "The file about speech is too large.")
    try:
        found = yaml.safe_load(text) if text.strip() else {"version": 1}
        return Config.model_validate(found)
    except yaml.YAMLError:
        raise InvalidInput(Reason.MALFORMED, "The file about speech is no YAML.") from None
    except ValidationError as error:
        # Without the values: a secret may stand where its reference belongs.
        fields = {".".join(map(str, each["loc"])): each["msg"] for each in error.errors()}
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The file about speech is wrong at {', '.join(fields) or 'its beginning'}.",
            hint="docs/voice.md describes it",
            fields=fields,
        ) from None


def engines(config: Config, session: aiohttp.ClientSession, secret_of: SecretOf) -> Chain:
    """The engines that the configuration names, and the local one."""
    made: list[Speech] = []
    for each in config.engines:
        if isinstance(each, SarvamConfig):
            made.append(
                Sarvam(
                    session,
                    secret_of,
                    each.api_key,
                    base_url=each.base_url,
                    hearing_model=each.hearing_model,
                    speaking_model=each.speaking_model,
                    speaker=each.speaker,
                )
            )
        else:
            made.append(
                Bhashini(
                    session,
                    secret_of,
                    each.user_id,
                    each.api_key,
                    config_url=each.config_url,
                    pipeline=each.pipeline,
                )
            )
    return Chain([*made, LocalSpeech()])


def numbers(config: Config) -> dict[str, Number]:
    """The telephone numbers."""
    return {
        number: Number(each.handle, each.auth_token, each.language) for number, each in config.numbers.items()
    }

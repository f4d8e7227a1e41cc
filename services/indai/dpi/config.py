"""Where the public services are, and as whom this node speaks to them. YAML, and strict: an unknown field
or a secret that is written out is named with its path.

docs/services/dpi.md describes each field.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

import yaml
from indai.protocol.errors import InvalidInput, Reason
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

MAX_BYTES = 64 * 1024

SecretReference = Annotated[str, StringConstraints(pattern=r"^vault:((sealed|env)/)?[A-Za-z0-9_.-]{1,64}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$", max_length=300)]
Id = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")]
Pem = Annotated[
    str, StringConstraints(pattern=r"^\s*-----BEGIN (PUBLIC KEY|CERTIFICATE)-----", max_length=8192)
]
_LOOPBACK = re.compile(r"^http://(localhost|127(\.\d+){3}|\[::1\])([:/]|$)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _over_tls(self) -> Self:
        for name, value in self:
            if name.endswith("url") and value.startswith("http:") and not _LOOPBACK.match(value):
                raise ValueError(f"{name}: secrets would travel in the clear: write https")
        return self


class DigiLockerConfig(_Strict):
    """This node as a partner of DigiLocker (API Setu). The redirect address to register there is the node's
    public address and `/dpi/digilocker/callback`."""

    base_url: Url = "https://api.digitallocker.gov.in"
    client_id: Id
    client_secret: SecretReference


class AggregatorConfig(_Strict):
    """This node as a financial information user (FIU) of one Account Aggregator. `keys` are the aggregator's
    public keys by `kid`, of the central registry; `signing_key` is ours, an RSA key in PEM."""

    base_url: Url
    id: Id
    fiu: Id
    api_key: SecretReference
    signing_key: SecretReference
    signing_kid: Id
    keys: Annotated[dict[Id, Pem], Field(min_length=1, max_length=10)]


class AbdmConfig(_Strict):
    """This node as an integrator of the health mission; `cm` is `sbx` in the sandbox and `abdm` else."""

    gateway_url: Url = "https://live.abdm.gov.in"
    abha_url: Url = "https://abha.abdm.gov.in"
    client_id: Id
    client_secret: SecretReference
    cm: Id = "abdm"


class DocumentsConfig(_Strict):
    """How long a link to a pulled document holds, and the document itself."""

    link_minutes: Annotated[int, Field(ge=1, le=1440)] = 15
    keep_days: Annotated[int, Field(ge=1, le=365)] = 30


class Config(_Strict):
    """The whole file. What is not there can't be connected."""

    version: Literal[1]
    digilocker: DigiLockerConfig | None = None
    account_aggregator: AggregatorConfig | None = None
    abdm: AbdmConfig | None = None
    documents: DocumentsConfig = DocumentsConfig()


class _Loader(yaml.SafeLoader):
    """Refuses a key that is written twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key} is written twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


def parse_config(text: str) -> Config:
    """The configuration, checked; of an empty text, one without any service. Raises InvalidInput naming every
    field that is wrong, without its value, which might be a secret."""
    if not text.strip():
        return Config(version=1)
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise InvalidInput(Reason.TOO_LARGE, f"The configuration is larger than {MAX_BYTES // 1024} KiB.")
    try:
        return Config.model_validate(yaml.load(text, _Loader))  # noqa: S506 - a SafeLoader
    except ValidationError as error:
        listed = error.errors(include_input=False, include_url=False, include_context=False)
        fields = {".".join(map(str, each["loc"])) or "file": each["msg"] for each in listed}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        fields = {"yaml": f"line {mark.line + 1}" if mark else "not YAML"}
    where, what = next(iter(fields.items()))
    raise InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"The configuration of public services is wrong at {where}: {what.removeprefix('Value error, ')}.",
        hint="docs/services/dpi.md describes each field",
        fields=fields,
    )

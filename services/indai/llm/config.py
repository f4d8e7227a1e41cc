"""The gateway's configuration: providers, models with prices, routes. YAML, and strict: an unknown field, a
price that is no number or a route to nowhere is named with its path, all problems at once.

Model names are configuration, never code. Without a file the built-in provider `local` answers everything.
docs/services/llm.md describes each field.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Literal, Self

import yaml
from indai.llm.pricing import Price
from indai.llm.values import ModelClass
from indai.protocol.errors import InvalidInput, Reason
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

MAX_BYTES = 256 * 1024
_MILLION = 1_000_000

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Country = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
KeyReference = Annotated[str, StringConstraints(pattern=r"^vault:((sealed|env)/)?[A-Za-z0-9_.-]{1,64}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
Amount = Annotated[Decimal, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Kind = Literal["anthropic", "gemini", "sarvam", "openai", "local"]

BASE_URLS: dict[str, str] = {
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "sarvam": "https://api.sarvam.ai/v1",
    "openai": "",
    "local": "",
}
_LOOPBACK = re.compile(r"^http://(localhost|127(\.\d+){3}|\[::1\])([:/]|$)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProviderConfig(_Strict):
    """One provider. `country` is where it computes; unknown counts as abroad."""

    kind: Kind
    base_url: Url | None = None
    key: KeyReference | None = None
    country: Country | None = None
    currency: Currency | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "openai" and self.base_url is None:
            raise ValueError("an openai-compatible provider needs its base_url")
        if self.kind in ("anthropic", "gemini", "sarvam") and self.key is None:
            raise ValueError(f"{self.kind} needs a key, such as vault:{self.kind}")
        if self.base_url and self.key and self.base_url.startswith("http:") and not self.on_loopback:
            raise ValueError("a key would travel in the clear: write https")
        return self

    @property
    def on_loopback(self) -> bool:
        """True for a server on this machine."""
        return self.kind == "local" or bool(self.base_url and _LOOPBACK.match(self.base_url))

    @property
    def address(self) -> str:
        """Where it is, without a slash at the end."""
        return (self.base_url or BASE_URLS[self.kind]).rstrip("/")


class ModelConfig(_Strict):
    """One model. Prices are in the provider's currency for a million tokens; a cache price that is not given
    is the input's."""

    provider: Name
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    input: Amount = Decimal(0)
    output: Amount = Decimal(0)
    cache_read: Amount | None = None
    cache_write: Amount | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    embeds: bool = False


class Limits(_Strict):
    """Times in ms."""

    first_token_ms: Annotated[int, Field(ge=50, le=120_000)] = 8_000
    stall_ms: Annotated[int, Field(ge=50, le=120_000)] = 15_000
    deadline_ms: Annotated[int, Field(ge=100, le=600_000)] = 20_000
    jitter_ms: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(le=10_000)]] = (300, 800)
    hedge_ms: Annotated[int, Field(ge=10, le=60_000)] = 700
    max_retry_after_ms: Annotated[int, Field(ge=0, le=60_000)] = 2_000


class Config(_Strict):
    """The whole file."""

    version: Literal[1]
    currency: Currency = "USD"
    residence: Country = "IN"
    exchange: dict[Currency, Amount] = Field(default_factory=dict)
    providers: dict[Name, ProviderConfig]
    models: dict[Name, ModelConfig]
    routes: dict[ModelClass, list[Name]] = Field(default_factory=dict)
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = [*self._model_problems(), *self._route_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _model_problems(self) -> list[str]:
        found = []
        for name, model in self.models.items():
            provider = self.providers.get(model.provider)
            if provider is None:
                found.append(f"models.{name}.provider: there is no provider {model.provider}")
            elif (currency := provider.currency or self.currency) not in {self.currency, *self.exchange}:
                found.append(
                    f"exchange: no rate from {currency} to {self.currency}, which {name} is priced in"
                )
        return found

    def _route_problems(self) -> list[str]:
        found = []
        for each, names in self.routes.items():
            if not names:
                found.append(f"routes.{each}: empty")
            found += [f"routes.{each}: there is no model {name}" for name in names if name not in self.models]
            found += [f"routes.{each}: {name} only embeds" for name in names if self._only_embeds(name)]
        if ModelClass.DEFAULT not in self.routes:
            found.append("routes.default: missing; it also serves the classes without a route")
        return found

    def _only_embeds(self, name: str) -> bool:
        return name in self.models and self.models[name].embeds

    def route(self, wanted: ModelClass) -> list[str]:
        """The models of a class, best first."""
        return self.routes.get(wanted) or self.routes[ModelClass.DEFAULT]

    def price(self, name: str) -> Price:
        """What a model costs, in millionths of the configuration's currency for a million tokens."""
        model = self.models[name]
        currency = self.providers[model.provider].currency or self.currency
        rate = Decimal(1) if currency == self.currency else self.exchange[currency]

        def millionths(amount: Decimal) -> int:
            return int((amount * rate * _MILLION).to_integral_value(ROUND_CEILING))

        return Price(
            millionths(model.input),
            millionths(model.output),
            millionths(model.input if model.cache_read is None else model.cache_read),
            millionths(model.input if model.cache_write is None else model.cache_write),
        )

    def leaves_country(self, provider: str) -> bool:
        """True when what this provider is told leaves the country of residence, or may."""
        found = self.providers[provider]
        return not found.on_loopback and found.country != self.residence


BUILT_IN = """\
version: 1
providers:
  local: {kind: local}
models:
  local: {provider: local, model: local}
  e5: {provider: local, model: multilingual-e5-small, embeds: true}
routes:
  default: [local]
"""


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
    """The configuration, checked. Raises InvalidInput naming every field that is wrong."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise InvalidInput(Reason.TOO_LARGE, f"The configuration is larger than {MAX_BYTES // 1024} KiB.")
    try:
        tree = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _invalid({"yaml": _where(error)}) from None
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        # Only the path and the words: the input itself might be a key written by mistake.
        raise _invalid(
            {
                ".".join(map(str, each["loc"])) or "file": each["msg"].removeprefix("Value error, ")
                for each in error.errors(include_input=False, include_url=False, include_context=False)
            }
        ) from None


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    words = getattr(error, "problem", None) or "not YAML"
    return f"line {mark.line + 1}: {words}" if mark else words


def _invalid(fields: dict[str, str]) -> InvalidInput:
    first = next(iter(fields.items()))
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"The configuration of the language models is wrong at {first[0]}: {first[1]}.",
        hint="docs/services/llm.md describes each field; check a file with: indai llm check FILE",
        fields=fields,
    )

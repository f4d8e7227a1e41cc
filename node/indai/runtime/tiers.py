"""The tiers an agent is composed of, as an operator writes them, and what one tier may say over another.

A flat prompt mixes who speaks, what job they do and how the model runs; a change to one regresses the others.
So there are three tiers, each a versioned row of its own, composed by a binding:

    HUMAN  who speaks: identity, voice, languages, what this persona never does
    TEAM   the job: role, procedures in order, escalation, hand-offs, the team's guardrails
    AGENT  how it runs: model class, tools, memory, technical guardrails, caps

A file with a key that isn't known is refused with the key's place: a guardrail that is misspelt must not be
missing silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from importlib import resources
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import available_timezones

import yaml
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.quoting import quoted
from indai.runtime.templates import MOMENT, PERSON, checked
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
Line = Annotated[str, Field(min_length=1, max_length=500)]
Prose = Annotated[str, Field(min_length=1, max_length=4_000)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z]{2,8})*$")]
ByLanguage = dict[Language, Prose]

MAX_FILE = 256 * 1024


class Kind(Enum):
    """What can be configured, in the order in which it is applied."""

    TENANT = "tenant"
    HUMAN = "human"
    TEAM = "team"
    AGENT = "agent"
    BINDING = "binding"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Guardrail(_Strict):
    """A rule on what goes out: said in the prompt, and checked again by code.

    `check` names a check of `indai.runtime.checks`, or `pattern` for a regular expression of one's own.
    """

    id: Slug
    check: Literal[
        "pattern",
        "price_needs_sku",
        "price_cooldown",
        "no_discount",
        "no_model",
        "no_prompt",
        "no_internals",
        "no_diagnosis",
        "no_legal_advice",
        "no_income_segmentation",
        "not_only_hindi",
        "never_human",
        "no_scarcity",
        "persona_lock",
        "no_impersonation",
        "blocked_topic",
    ]
    severity: Literal["block", "rewrite", "log"] = "block"
    words: Line
    pattern: Annotated[str, Field(max_length=300)] = ""
    turns: Annotated[int, Field(ge=1, le=20)] = 4
    names: tuple[Line, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Guardrail:
        if (self.check == "pattern") != bool(self.pattern):
            raise ValueError("`pattern` belongs to the check `pattern`, and to no other")
        if self.check in ("persona_lock", "no_impersonation", "blocked_topic") and not self.names:
            raise ValueError(f"the check `{self.check}` needs `names`")
        return self


class Voice(_Strict):
    """How a persona sounds."""

    tone: Line
    phrases: tuple[Line, ...] = ()
    avoid: tuple[Line, ...] = ()
    emoji: bool = False


class Human(_Strict):
    """Who speaks. The first language is the default."""

    name: Line
    identity: Prose
    voice: Voice
    languages: Annotated[tuple[Language, ...], Field(min_length=1, max_length=30)]
    mixes: tuple[Language, ...] = ()
    formality: Literal["formal", "respectful", "friendly", "casual"] = "friendly"
    never: tuple[Line, ...] = ()
    greetings: ByLanguage = {}
    deflection: ByLanguage = {}
    guardrails: tuple[Guardrail, ...] = ()


class Procedure(_Strict):
    """One way of working, step by step."""

    name: Line
    when: Line
    steps: Annotated[tuple[Line, ...], Field(min_length=1, max_length=20)]


class Escalation(_Strict):
    """When a person must take over, and who."""

    when: tuple[Line, ...]
    to: Line
    words: ByLanguage = {}


class Team(_Strict):
    """The job."""

    name: Line
    department: Line
    role: Prose
    formality: Literal["formal", "casual", "technical"] = "casual"
    procedures: tuple[Procedure, ...] = ()
    escalation: Escalation | None = None
    handoffs: tuple[Slug, ...] = ()
    tools: tuple[Slug, ...] | None = None
    memory_depth: Annotated[int, Field(ge=0, le=50)] | None = None
    guardrails: tuple[Guardrail, ...] = ()


class Budgets(_Strict):
    """Tokens each part of a prompt may have."""

    human: Annotated[int, Field(ge=100, le=20_000)] = 800
    team: Annotated[int, Field(ge=100, le=20_000)] = 1_200
    agent: Annotated[int, Field(ge=100, le=20_000)] = 1_500
    dynamic: Annotated[int, Field(ge=200, le=100_000)] = 4_000
    envelope: Annotated[int, Field(ge=50, le=2_000)] = 200


class Caps(_Strict):
    """What one day may bring; nothing said is no cap."""

    messages_per_day: Annotated[int, Field(ge=1)] | None = None
    cost_micros_per_day: Annotated[int, Field(ge=1)] | None = None


class ToolUse(_Strict):
    """How an agent uses a tool: which of its arguments it gives (all of them, if none is named), and when."""

    arguments: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)], ...], Field(max_length=30)
    ] = ()
    when: Annotated[str, Field(min_length=1, max_length=1_000)]


class Agent(_Strict):
    """How it runs. `uses`: what a tool is for, beside what the tool itself says; `person` and `moment`:
    templates of what a prompt says of the person and of the moment (`indai.runtime.templates`)."""

    name: Line
    extends: Slug | None = None
    model_class: Literal["default", "cheap", "multilingual", "voice"] = "default"
    strategy: Literal["rule", "classifier", "hybrid"] = "rule"
    tools: tuple[Slug, ...] = ()
    approval_tools: tuple[Slug, ...] = ()
    uses: dict[Slug, ToolUse] = {}
    person: Annotated[Prose, AfterValidator(lambda text: checked(text, PERSON))] | None = None
    moment: Annotated[Prose, AfterValidator(lambda text: checked(text, MOMENT))] | None = None
    memory: Literal["session", "light", "deep", "team"] = "deep"
    recall_limit: Annotated[int, Field(ge=0, le=50)] = 5
    max_tool_iterations: Annotated[int, Field(ge=0, le=10)] = 4
    autonomy: Literal["supervised", "autonomous", "draft"] = "autonomous"
    blocked_topics: tuple[Line, ...] = ()
    budgets: Budgets = Budgets()
    caps: Caps = Caps()
    guardrails: tuple[Guardrail, ...] = ()

    @model_validator(mode="after")
    def _own_tools(self) -> Agent:
        if unused := set(self.uses) - set(self.tools):
            raise ValueError(f"uses are of tools that the agent lacks: {', '.join(sorted(unused))}")
        missing = set(self.approval_tools) - set(self.tools)
        if missing:
            raise ValueError(
                f"approval is asked for tools that the agent lacks: {', '.join(sorted(missing))}"
            )
        return self


class Binding(_Strict):
    """Who answers where: one human, one team, one agent.

    `weights` splits people over versions of the AGENT tier, in percent, sticky by person; empty: the newest.
    """

    human: Slug
    team: Slug
    agent: Slug
    door: Literal["private", "public", "distribution"]
    channels: Annotated[
        tuple[Literal["web", "whatsapp", "voice", "telegram", "slack"], ...], Field(min_length=1)
    ]
    routing_keys: tuple[Line, ...] = ()
    weights: dict[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=0, le=100)]] = {}
    active: bool = True
    may_leave: tuple[Literal["pan", "phone", "upi", "email"], ...] = ()
    """Personal data of what people say here that a model in another country may be told. All other kinds are
    scrubbed before a call leaves; an Aadhaar number always is."""
    region: Line | None = None
    """Whom it is for, such as a ward or a district: how the desk counts what is asked where."""

    @model_validator(mode="after")
    def _shares(self) -> Binding:
        if self.weights and sum(self.weights.values()) != 100:
            raise ValueError("the weights of an agent's versions add up to 100")
        return self


def _zone(name: str) -> str:
    if name not in available_timezones():
        raise ValueError("there is no such time zone; name one as Asia/Kolkata")
    return name


class Tenant(_Strict):
    """An organisation. None sees another."""

    name: Line
    status: Literal["active", "paused", "archived"] = "active"
    parent: Slug | None = None
    residence: Annotated[str, Field(pattern="^[A-Z]{2}$")] = "IN"
    time_zone: Annotated[str, AfterValidator(_zone)] = "Asia/Kolkata"
    """In which its desk shows times, and its days begin."""
    language: Language | None = None
    """Of its desk's pages, for people who have chosen none themselves."""
    answer_minutes: Annotated[int, Field(ge=1, le=10_080)] = 30
    """Within which a person answers who is asked to: the clock beside each conversation that waits."""


Tier: TypeAlias = Tenant | Human | Team | Agent | Binding
MODELS: Mapping[Kind, type[Tenant] | type[Human] | type[Team] | type[Agent] | type[Binding]] = {
    Kind.TENANT: Tenant,
    Kind.HUMAN: Human,
    Kind.TEAM: Team,
    Kind.AGENT: Agent,
    Kind.BINDING: Binding,
}


def parse(kind: Kind, value: object, where: str) -> Tier:
    """A tier from plain data. Raises InvalidInput that names the first wrong place."""
    try:
        return MODELS[kind].model_validate(value)
    except ValidationError as error:
        raise _wrong(error, where) from None


def dump(tier: Tier) -> dict[str, Any]:
    """Plain data that `parse` takes again; what was not said is not there."""
    return tier.model_dump(mode="json", exclude_defaults=True)


def read_files(text: str, where: str) -> list[tuple[Kind, str, Tier]]:
    """The tiers of a YAML file: documents of `kind`, `slug` and the kind's own keys, sorted by kind."""
    if len(text) > MAX_FILE:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{where} is longer than {MAX_FILE // 1024} KiB.")
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: the thirtieth of February
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{where}{line} is no YAML.") from None
    found = [_document(each, f"{where}, document {at}") for at, each in enumerate(documents, 1) if each]
    order = list(Kind)
    return sorted(found, key=lambda each: order.index(each[0]))


def catalogue() -> str:
    """The configurations that come with the program, as one YAML file."""
    files = sorted(resources.files(__package__).joinpath("catalogue").iterdir(), key=lambda each: each.name)
    return "---\n".join(each.read_text("utf-8") for each in files if each.name.endswith(".yaml"))


def _document(value: object, where: str) -> tuple[Kind, str, Tier]:
    if not isinstance(value, dict):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{where} is no mapping.", hint="begin with: kind: human")
    rest = dict(value)
    kind, slug = rest.pop("kind", None), rest.pop("slug", None)
    kinds = {each.value: each for each in Kind}
    if kind not in kinds:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{where} has the kind {quoted(str(kind))}.",
            hint=f"the kinds are {', '.join(kinds)}",
        )
    if not isinstance(slug, str):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{where} has no slug.", hint="a name such as sahayak")
    return kinds[kind], slug, parse(kinds[kind], rest, f"{where} ({kind} {slug})")


def _wrong(error: ValidationError, where: str) -> InvalidInput:
    # A misspelt key is often why another one is missing: it is named first.
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return InvalidInput(
            Reason.INVALID_ARGUMENT, f"{where} has an unknown key {quoted(place)}.", hint="see docs/tiers.md"
        )
    what = first["msg"].removeprefix("Value error, ")
    at = f" at {place}" if place else ""
    return InvalidInput(Reason.INVALID_ARGUMENT, f"{where} is wrong{at}: {what}.", hint="see docs/tiers.md")

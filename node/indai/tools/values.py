"""What a tool is, who calls it, and what comes back. Pure values: the seam between the turn, the toolbox and
each tool.

A tool is a name, words for a model, a JSON schema of its arguments and one of its result, and what it
touches. A `Toolbox` runs it: it scopes by layer, door and channel, asks for approval, caches, disables.
A model's call is a wish; only the toolbox acts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from indai.tools.files import Attached


class Effect(Enum):
    """What a call changes."""

    READ = "read"  # nothing; the same arguments may be answered from a cache for a minute
    ACT = "act"  # something outside this conversation, under the owner's policy
    IRREVERSIBLE = "irreversible"  # something that can't be taken back: confirmed first


class Touch(Enum):
    """The three that must not meet in one call without the owner."""

    UNTRUSTED = "untrusted"  # its result holds words of outsiders
    PRIVATE = "private"  # it reads what is the owner's alone
    OUTSIDE = "outside"  # it acts on, or tells something to, somebody else


class Status(Enum):
    """How a call ended."""

    DONE = "done"
    FAILED = "failed"
    NEEDS_APPROVAL = "needs_approval"  # nothing has happened; `approval` says what is waited for
    RUNNING = "running"  # a job works on it; the person is told when it ends


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom a tool runs. Made by code from what is verified, never from what a model says.

    `owner` is the handle whose agent acts, empty at a door of an organisation's own; `person` the one who
    talks (the owner at the private door); `door` is private, public or distribution. `turn` makes what is
    done once: the same turn and arguments again are the same act. `autonomy` and `approvals` are the AGENT
    tier's; `session_tools` narrows this session, None does not. `context`: what the model that wishes the
    call has read: `UNTRUSTED` words of outsiders, `PRIVATE` facts of the owner. `team` and `human` are slugs.
    `called`: what the one who talks calls themselves, as their channel tells it; it proves nothing.
    """

    tenant: str
    binding: str
    owner: str
    session: str
    person: str
    door: str
    channel: str
    verified: bool = False
    language: str = "en"
    time_zone: str = "Asia/Kolkata"
    now_ms: int = 0
    turn: str = ""
    autonomy: str = "autonomous"
    approvals: frozenset[str] = frozenset()
    session_tools: frozenset[str] | None = None
    context: frozenset[Touch] = frozenset()
    team: str = ""
    human: str = ""
    called: str = ""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a tool is. Schemas are JSON schemas of objects (draft 2020-12). A property of the result may carry
    `x-label` (for people), `x-format` (money_minor, local_time, date, code) and `x-importance` (1 to 3)."""

    name: str
    description: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    effect: Effect = Effect.READ
    touches: frozenset[Touch] = frozenset()
    doors: frozenset[str] = frozenset({"private"})
    channels: frozenset[str] = frozenset()  # empty: all
    needs: str = ""  # the integration that must be connected first, e.g. digilocker; empty: none
    long_running: bool = False
    timeout_s: float = 10.0
    files: bool = False  # its result may hand over files (`indai.tools.files`)


@dataclass(frozen=True, slots=True)
class Approval:
    """What the owner is asked. Code renders `terms` from the arguments whose hash is `action_hash`."""

    code: str
    action_hash: str
    terms: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a result, as a person reads it; of a list, one for each thing, and `row_of` names the
    list. `untrusted`: an outsider's words, to be quoted as data. `unkept`: for this turn alone."""

    label: str
    text: str
    importance: int = 2
    untrusted: bool = False
    row_of: str = ""
    unkept: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call. `words` is a sentence for the person; `fields` is what a model may see of the
    result; `kept` is the result as rows may have it, None where they may have all of it; `code` is
    machine-readable when it failed, `faulty` that the tool itself does not work, which no answer about the
    request says; `files` go to the person with the answer; `about` names what a later word answers, so that
    it is told once, whoever tells it."""

    status: Status
    words: str = ""
    fields: tuple[Field, ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    retryable: bool = False
    approval: Approval | None = None
    job: str = ""
    thread: str = ""
    kept: Mapping[str, Any] | None = None
    files: tuple[Attached, ...] = ()
    faulty: bool = False
    about: str = ""


Progress = Callable[[str], Awaitable[None]]
"""Tells a sentence of progress while a tool runs."""


async def unheard(_: str) -> None:
    """Progress that nobody listens to."""


Push = Callable[[Caller, "Outcome"], Awaitable[None]]
"""Tells the session of a call what became of it later: durable, and at least once. `Outcome.job` or
`Outcome.approval` names what it answers."""


class Tool(Protocol):
    """One tool. It raises `IndaiError` for what goes wrong; the toolbox makes it an `Outcome`."""

    @property
    def spec(self) -> Spec:
        """What it is."""

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """Do it. Arguments fit the schema, or are what `prepare` made of them; the result must fit the other.
        Idempotent for the same `caller.turn` and arguments. In a result, `thread_id` names the negotiation
        that it began, `running: true` says that it goes on, and `approval` (code, action_hash, terms,
        expires_ms) that it waits for the owner's word on that."""


@dataclass(frozen=True, slots=True)
class Act:
    """A call made concrete before anybody is asked about it: names have become handles, words of time have
    become moments. `terms` is what the owner reads, rendered by code from exactly these arguments."""

    arguments: Mapping[str, Any]
    terms: str


@runtime_checkable
class Prepares(Protocol):
    """A tool whose arguments leave something open. What is approved, hashed and run is what it makes of
    them."""

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """Make them concrete. Raises `IndaiError` for what can't be; a `code` in its metadata tells a program
        more than the reason, e.g. AMBIGUOUS_PERSON."""


class Toolbox(Protocol):
    """All tools of a node, behind the rules of who may use which."""

    def offered(self, names: Sequence[str], door: str, channel: str) -> tuple[Spec, ...]:
        """The tools of a binding at a door, always in the same order: a change defeats prompt caches."""

    async def call(
        self,
        caller: Caller,
        names: Sequence[str],
        name: str,
        arguments: Mapping[str, Any],
        progress: Progress,
    ) -> Outcome:
        """Run `name` if it is in `names` and every layer allows it. Never raises for what a tool does."""

    async def answer(self, caller: Caller, code: str, *, approve: bool) -> Outcome:
        """The owner's word on an approval, single use: runs what was approved, exactly as it was shown."""

"""Who may see and write which scope: the doors of an agent, as one pure table.

A scope is one kind of six under a tenant. What a door shows is a set of scopes that are named, and kinds of
which it shows every one. The database enforces the same set for the whole transaction (row-level security).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid5

from indai.memory.interfaces import Trust
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.protocol.quoting import quoted

_NAMESPACE = UUID("8d6f1a52-5d0b-5b1e-9c56-6b1c3a0e7d21")  # any constant: ids only have to differ from others


class ScopeKind(StrEnum):
    """The six kinds."""

    PRIVATE = "private"
    PUBLIC = "public"
    RELATIONSHIP = "relationship"
    USER_BINDING = "user_binding"
    TEAM = "team"
    HUMAN = "human"


SINGLE = frozenset({ScopeKind.PRIVATE, ScopeKind.PUBLIC})
"""Kinds of which a tenant has one."""


class Door(StrEnum):
    """Which door of the agent a call comes through."""

    PRIVATE = "private"
    WORK = "work"
    PUBLIC = "public"
    DISTRIBUTION = "distribution"
    AGENT = "agent"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope by name."""

    tenant: str
    kind: ScopeKind
    key: str = ""

    @property
    def id(self) -> UUID:
        """The same everywhere (UUIDv5, RFC 9562). Names hold no line feed, so no two names are one text."""
        return uuid5(_NAMESPACE, f"{self.tenant}\n{self.kind}\n{self.key}")


def user_binding(person: str, binding: str) -> str:
    """The id of one end user of one binding."""
    return str(uuid5(_NAMESPACE, f"{person}\n{binding}"))


@dataclass(frozen=True, slots=True)
class Access:
    """What a call says of itself: the tenant, the door, and whom that door is about."""

    tenant: str
    door: Door
    peer: str = ""
    person: str = ""
    binding: str = ""
    team: str = ""
    human: str = ""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a door shows: scopes by name, and every scope of some kinds. The same for what may be written;
    `home` is where a call writes that names no scope. `trust` of what is said there, `origin` for its rows,
    `person` whom it is about."""

    access: Access
    seen: frozenset[Scope]
    seen_kinds: frozenset[ScopeKind]
    written: frozenset[Scope]
    written_kinds: frozenset[ScopeKind]
    home: Scope | None
    trust: Trust
    origin: str
    person: str = ""

    @property
    def tenant(self) -> str:
        """The tenant."""
        return self.access.tenant

    def read(self, scope: Scope) -> Scope:
        """The scope, if it may be seen. Raises NotFound: what may not be seen looks like what is not
        there."""
        if scope in self.seen or scope.kind in self.seen_kinds:
            return scope
        raise no_scope(scope)

    def write(self, scope: Scope | None) -> Scope:
        """Where to write: `scope`, or the door's own. Raises NotFound, or Refused for one that may be
        read."""
        if scope is None:
            if self.home is None:
                raise _homeless(self.access.door)
            return self.home
        if scope in self.written or scope.kind in self.written_kinds:
            return scope
        self.read(scope)
        raise Refused(
            Reason.PERMISSION_DENIED,
            f"The door {self.access.door} may read the scope {scope.kind}, and not write it.",
            hint="use the private door, or the administrator's",
        )

    def may(self, *doors: Door) -> None:
        """Raises Refused at any other door."""
        if self.access.door not in doors:
            raise Refused(
                Reason.PERMISSION_DENIED,
                f"This cannot be done through the door {self.access.door}.",
                hint=f"it takes the door {' or '.join(doors)}",
            )


def no_scope(scope: Scope) -> NotFound:
    """One sentence for a scope that is not there and for one that may not be seen."""
    name = f"{scope.kind}:{scope.key}" if scope.key else str(scope.kind)
    return NotFound(
        Reason.NOT_FOUND,
        f"There is no memory scope {quoted(name)} here.",
        hint="see ListScopes, or: indai memory scopes",
    )


def sight(access: Access) -> Sight:
    """What the door of this access shows. Raises InvalidInput when it needs a name that is missing."""
    tenant = access.tenant
    private, public = Scope(tenant, ScopeKind.PRIVATE), Scope(tenant, ScopeKind.PUBLIC)
    knowledge = {
        Scope(tenant, kind, key)
        for kind, key in ((ScopeKind.TEAM, access.team), (ScopeKind.HUMAN, access.human))
        if key
    }
    both = frozenset({private, public})
    each = frozenset({ScopeKind.RELATIONSHIP})
    match access.door:
        case Door.PRIVATE:
            return Sight(access, both, each, both, each, private, Trust.OWNER, "private")
        case Door.WORK:
            return Sight(access, both | knowledge, each, both, each, private, Trust.OWNER, "work")
        case Door.ADMIN:
            kinds = frozenset({ScopeKind.TEAM, ScopeKind.HUMAN, ScopeKind.PUBLIC})
            home = next(iter(sorted(knowledge, key=lambda scope: scope.kind)), None) if knowledge else None
            return Sight(access, frozenset(), kinds, frozenset(), kinds, home, Trust.OWNER, "admin")
        case Door.PUBLIC:
            own = _relationship(access) if access.peer else None
            return _visitor(access, own, frozenset({public}), access.peer)
        case Door.AGENT:
            _needs(access, "peer")
            return _visitor(access, _relationship(access), frozenset({public}), access.peer)
        case Door.DISTRIBUTION:
            _needs(access, "person", "binding")
            own = Scope(tenant, ScopeKind.USER_BINDING, user_binding(access.person, access.binding))
            return _visitor(access, own, frozenset({public, *knowledge}), access.person)


def _relationship(access: Access) -> Scope:
    return Scope(access.tenant, ScopeKind.RELATIONSHIP, access.peer)


def _visitor(access: Access, own: Scope | None, seen: frozenset[Scope], person: str) -> Sight:
    """One who sees what is for everybody, and the one scope that is theirs."""
    mine = frozenset({own}) if own else frozenset()
    trust = Trust.VERIFIED if own else Trust.OUTSIDE
    return Sight(access, seen | mine, frozenset(), mine, frozenset(), own, trust, access.door.value, person)


def _needs(access: Access, *names: str) -> None:
    missing = {f"access.{name}": "is required" for name in names if not getattr(access, name)}
    if missing:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The door {access.door} needs {' and '.join(names)}.",
            fields=missing,
        )


def _homeless(door: Door) -> Refused:
    if door is Door.ADMIN:
        return Refused(
            Reason.PERMISSION_DENIED,
            "An administrator's memory belongs to a team, to a persona or to the public.",
            hint="name the scope",
        )
    return Refused(
        Reason.PERMISSION_DENIED,
        "An anonymous visitor leaves no memory.",
        hint="name the peer whose handle was proved",
    )

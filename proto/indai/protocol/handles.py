"""Handles: `ind.ai/alice`, `ind.ai/alice/work`, or a branded domain such as `ranveer.ai`.

Authorities and branded handles are domain names (RFC 1123 labels; R-LDH labels such as `xn--` are refused,
RFC 5890 section 2.3.1, because what they display is not what they say). Names and subs are ASCII: no
confusables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering

from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.protocol.quoting import quoted

MIN_NAME, MAX_NAME = 3, 30
MAX_DOMAIN = 253  # RFC 1035 section 2.3.4, without the root's dot
MAX_HANDLE = MAX_DOMAIN + 2 * (MAX_NAME + 1)

# Names that would pass for the network itself, its roles (RFC 2142) or a path we serve. `registry` and
# `ledger` are also parts of log origins (`ind.ai/registry`, `<node>/ledger/2026`): a handle must never read
# as an origin.
_RESERVED = """
    a2a abuse account accounts add-checkpoint admin administrator agent agents all anonymous api app apps
    archive assets audit auth authority backup billing bot bots calendar call cdn channel channels
    checkpoint connect consent contact daemon dashboard desk desks dns docs dpi download embed everyone
    favicon ftp health help hooks hostmaster http https imap ind ind-ai indai info intent intents internal
    invoice ledger legal localhost log login logout logs mail mailer-daemon marketing mcp memory metrics
    moderator no-reply nobody noc node nodes none noreply null oauth official owner page pages password pay
    payment payments policy pop3 postmaster privacy proxy public registry root sales security self settings
    signup smtp ssl staff static status superuser support sysadmin system team tile tls token trust
    undefined unknown usenet user users uucp verified verify voice webhook webhooks webmaster well-known
    widget witness wpad www
"""
RESERVED_NAMES: frozenset[str] = frozenset(_RESERVED.split())

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@total_ordering
@dataclass(frozen=True, slots=True)
class Handle:
    """A valid handle in canonical form; a branded domain has the domain as `authority` and "" as `name`."""

    authority: str
    name: str = ""
    sub: str | None = None

    def __post_init__(self) -> None:
        whole = str(self)
        _check_domain(self.authority, whole)
        if self.name:
            _check_name(self.name, whole)
        if self.sub is not None:
            if not self.name:
                raise _invalid(whole, "a branded domain has no sub-handle", "HND-01")
            _check_name(self.sub, whole)

    def __str__(self) -> str:
        return "/".join(part for part in (self.authority, self.name, self.sub) if part)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return (self.authority, self.name, self.sub or "") < (other.authority, other.name, other.sub or "")

    @property
    def branded(self) -> bool:
        """True for a domain that is a handle by itself."""
        return not self.name

    @property
    def parent(self) -> Handle | None:
        """The handle a sub-handle belongs to; None for a handle that is nobody's sub."""
        return Handle(self.authority, self.name) if self.sub is not None else None

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Read a handle as a person writes it, in any case; raises InvalidInput(INVALID_HANDLE)."""
        return _parse(text)


# The same few handles are read again for every message; a refusal is never kept.
@lru_cache(maxsize=8_192)
def _parse(text: str) -> Handle:
    if len(text) > MAX_HANDLE:
        raise _invalid(text, f"a handle has at most {MAX_HANDLE} characters", "HND-01")
    # Before lower-casing: the Kelvin sign, for one, would become an ASCII "k".
    if not text.isascii():
        raise _invalid(text, "only ASCII letters, digits and hyphens are allowed", "HND-03")
    parts = text.lower().split("/")
    if len(parts) > 3:
        raise _invalid(text, "there are more than three parts", "HND-01")
    if any(not part for part in parts):
        raise _invalid(text, "a part is empty", "HND-01")
    return Handle(parts[0], parts[1] if len(parts) > 1 else "", parts[2] if len(parts) > 2 else None)


def check_claimable(handle: Handle) -> None:
    """Refuse to claim what is reserved for the network; raises Refused(INVALID_HANDLE)."""
    for part in (handle.name, handle.sub):
        if part in RESERVED_NAMES:
            raise Refused(
                Reason.INVALID_HANDLE,
                f"The name {quoted(part)} in {quoted(str(handle))} is reserved.",
                hint="choose another name",
                metadata={"rule": "HND-04"},
            )


def _check_name(name: str, whole: str) -> None:
    if not MIN_NAME <= len(name) <= MAX_NAME:
        raise _invalid(whole, f"{quoted(name)} must have {MIN_NAME} to {MAX_NAME} characters", "HND-02")
    if not _NAME.fullmatch(name):
        why = f"{quoted(name)} may hold only a-z, 0-9 and single hyphens between them"
        raise _invalid(whole, why, "HND-02")


def _check_domain(domain: str, whole: str) -> None:
    labels = domain.split(".")
    if len(domain) > MAX_DOMAIN or len(labels) < 2:
        raise _invalid(whole, f"{quoted(domain)} is not a domain name such as ind.ai", "HND-01")
    for label in labels:
        if not _LABEL.fullmatch(label) or label[2:4] == "--":
            raise _invalid(whole, f"{quoted(label)} cannot be a part of a domain name", "HND-01")
    if labels[-1].isdigit():
        raise _invalid(whole, "an IP address is not a domain name", "HND-01")


def _invalid(text: str, why: str, rule: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_HANDLE,
        f"{quoted(text)} is not a handle: {why}.",
        hint="write it as ind.ai/alice, ind.ai/alice/work or a domain of your own",
        fields={"handle": why},
        metadata={"rule": rule},
    )

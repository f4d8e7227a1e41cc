"""Who is meant by a name: a handle, somebody dealt with before, or a name under the owner's own authority.

A stranger who once wrote to the owner is nobody's "bob": only those whom the owner asked, or agreed with,
count as known. Two who fit are asked about, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.protocol.handles import Handle
from indai.tools.desk import Desk
from indai.tools.values import Caller
from indai.v1 import owner_pb2

_KNOWN_PAGE: Final = 500
_MOST: Final = 6
_TITLES: Final = re.compile(r"^(?:mr|mrs|ms|dr|shri|smt|sri|kumari)\.?\s+|(?:\s+|-)?(?:ji|जी|sir|madam)$")
_BETWEEN: Final = re.compile(r"\s*(?:,|;|&|\band\b|\bor\b|\baur\b|और)\s*")

Resolve = Callable[[str], Awaitable[object]]
"""Verifies that a handle is there; raises NotFound where it is not."""

Latin = Callable[[str], str]
"""A name of another script as it is written in Latin letters."""


class People:
    """Finds handles for names."""

    def __init__(self, resolve: Resolve, latin: Latin = str) -> None:
        self._resolve = resolve
        self._latin = latin

    async def all(self, caller: Caller, desk: Desk, text: str) -> tuple[str, ...]:
        """Everybody named in "bob, carol and dev", each once."""
        names = [each for each in _BETWEEN.split(text.strip()) if each]
        if not names:
            raise _unknown(text)
        found = [await self.one(caller, desk, name) for name in names]
        return tuple(dict.fromkeys(found))

    async def one(self, caller: Caller, desk: Desk, text: str) -> str:
        """The handle meant. Raises InvalidInput with a question for the person: AMBIGUOUS_PERSON,
        UNKNOWN_PERSON."""
        said = text.strip().removeprefix("@")
        if "/" in said or _is_domain(said):
            handle = str(Handle.parse(said))
            await self._there(handle, said)
            return _not_self(handle, caller)
        name = _plain(said if said.isascii() else self._latin(said))
        known = await self.known(desk)
        fits = {each for each in known if _name_of(each) == name}
        own = f"{caller.owner.partition('/')[0]}/{name}"
        if own not in fits and await self._exists(own):
            fits.add(own)
        if not fits:
            near = sorted(each for each in known if name and _name_of(each).startswith(f"{name}-"))
            if near:
                raise _which(said, near)
            raise _unknown(said)
        if len(fits) > 1:
            raise _which(said, sorted(fits))
        return _not_self(fits.pop(), caller)

    async def known(self, desk: Desk) -> set[str]:
        """Those whom the owner asked or agreed with, of the newest threads."""
        request = owner_pb2.ListThreadsRequest(page_size=_KNOWN_PAGE)
        threads = (await desk.owner.ListThreads(request)).threads
        agreed = owner_pb2.THREAD_STATE_COMMITTED
        return {each.peer for each in threads if each.outgoing or each.state == agreed}

    async def _exists(self, handle: str) -> bool:
        try:
            await self._resolve(str(Handle.parse(handle)))
        except (InvalidInput, NotFound):
            return False
        except IndaiError as error:
            if error.reason in (Reason.NOT_FOUND, Reason.INVALID_HANDLE, Reason.PERMISSION_DENIED):
                return False
            raise
        return True

    async def _there(self, handle: str, said: str) -> None:
        if not await self._exists(handle):
            raise _unknown(said)


def _is_domain(text: str) -> bool:
    return "." in text and " " not in text and not text.endswith(".")


def _plain(text: str) -> str:
    """`Bob Kumar ji` as a handle would have it: `bob-kumar`."""
    name, before = text.lower(), ""
    while name != before:
        name, before = _TITLES.sub("", name).strip(), name
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def _name_of(handle: str) -> str:
    parts = Handle.parse(handle)
    return parts.sub or parts.name or parts.authority.partition(".")[0]


def _not_self(handle: str, caller: Caller) -> str:
    if handle == caller.owner:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "That is you.", metadata={"code": "UNKNOWN_PERSON"})
    return handle


def _which(said: str, fits: list[str]) -> InvalidInput:
    names = ", ".join(fits[:_MOST])
    one = f"Do you mean {names}?" if len(fits) == 1 else f"Which {said[:40]} do you mean: {names}?"
    return InvalidInput(Reason.INVALID_ARGUMENT, one, metadata={"code": "AMBIGUOUS_PERSON", "choices": names})


def _unknown(said: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"I don't know who {said[:40] or 'that'} is. What is their handle, such as ind.ai/bob?",
        hint="name the whole handle",
        metadata={"code": "UNKNOWN_PERSON"},
    )

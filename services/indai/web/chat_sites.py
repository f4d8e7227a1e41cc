"""Which sites may show the chat of a handle in a frame: its owner's word, kept with their account."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from indai.protocol.errors import InvalidInput, Reason
from indai.web.accounts import OWNER, Accounts

MOST_SITES: Final = 20
_SITE: Final = re.compile(
    r"https://[a-z0-9.-]{1,253}(:[0-9]{1,5})?|http://(localhost|127\.0\.0\.1)(:[0-9]{1,5})?"
)
_SETTING: Final = "sites"


class ChatSites:
    """Read by whoever serves the frame, changed by the owner on their page or by command."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def of(self, handle: str) -> list[str]:
        """Like `https://shop.example`; nobody has named any for a handle without an account."""
        accounts = await self._accounts.listed(handle)
        found = next((each.settings.get(_SETTING, "") for each in accounts if each.role == OWNER), "")
        return found.split()

    async def choose(self, handle: str, texts: Iterable[str]) -> list[str]:
        """These and no others. Raises InvalidInput for what is no site: an address with a path, a pattern, a
        word that would mean something to a browser."""
        sites = list(dict.fromkeys(text.lower() for text in texts))
        wrong = [each for each in sites if not _SITE.fullmatch(each)]
        if wrong or len(sites) > MOST_SITES:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{wrong[0][:80]!r} is no site." if wrong else f"{MOST_SITES} sites are enough.",
                hint="write one in a line, as https://shop.example without a path",
            )
        await self._accounts.choose(await self._accounts.of_owner(handle), **{_SETTING: " ".join(sites)})
        return sites

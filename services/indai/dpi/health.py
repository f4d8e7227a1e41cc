"""Looking up who somebody is at the health mission: with that person's consent, once, and nothing kept.

    ask      an address and a purpose: the person is sent a code; a row says what for, and holds no id
    look_up  the code, which the person gave: who they are, to this one operation; the row is used up

The person's code is their consent: the row is PENDING until it comes, and then USED. The transaction's id is
sealed in the row's handle, and cleared with it. Address, ABHA number and profile are never stored.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Final

from indai.dpi.abha import HealthIds, Holder, check_address, check_otp
from indai.dpi.consents import Consent, Consents, check_purpose
from indai.dpi.documents import Seal
from indai.protocol.errors import Reason, Refused

VALID_MS: Final = 10 * 60_000
TRIES: Final = 3
PENDING: Final = "PENDING"

Client = Callable[[], Awaitable[HealthIds]]


class HealthDesk:
    """Look-ups for every owner of this node."""

    def __init__(
        self, client: Client, consents: Consents, seal: Seal, unseal: Seal, clock: Callable[[], int]
    ) -> None:
        self._client, self._consents, self._clock = client, consents, clock
        self._seal, self._unseal = seal, unseal

    async def ask(self, owner: str, person: str, address: str, purpose: str, turn: str = "") -> Consent:
        """Have a code sent to whoever holds the address; once for the same turn."""
        checked, what_for = check_address(address), check_purpose(purpose)
        consent_id = self._consents.id_for(owner, person, turn, f"{checked} {what_for}")
        if (known := await self._consents.find(owner, person, consent_id)) is not None:
            return known
        transaction = await (await self._client()).send_code(checked)
        context = _context(owner, person)
        sealed = base64.b64encode(self._seal(transaction.encode(), context)).decode()
        return await self._consents.add(
            owner, person, "abdm", what_for, self._clock() + VALID_MS, handle=sealed, consent_id=consent_id
        )

    async def look_up(self, owner: str, person: str, consent_id: str, code: str) -> Holder:
        """Who gave the code. Three wrong ones end it."""
        otp = check_otp(code)
        consent = await self._consents.get(owner, person, consent_id, "abdm")
        consent.check_active(self._clock(), PENDING)
        transaction = self._unseal(base64.b64decode(consent.handle), _context(owner, person)).decode()
        # Counted before it is tried: several at once can't guess more often.
        await self._consents.use(consent, "look up", most=TRIES, wanted=PENDING)
        try:
            found = await (await self._client()).holder(transaction, otp)
        except Refused as error:
            if error.reason is Reason.PERMISSION_DENIED and consent.uses + 1 >= TRIES:
                await self._consents.close(consent, "FAILED")
            raise
        await self._consents.close(consent, "USED")
        return found


def _context(owner: str, person: str) -> str:
    return f"dpi abdm {owner} {person}"

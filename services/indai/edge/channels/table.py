"""The channels there are."""

from __future__ import annotations

from typing import Final

from indai.edge.channels.base import Adapter
from indai.edge.channels.gupshup import Gupshup
from indai.edge.channels.slack import Slack
from indai.edge.channels.telegram import Telegram
from indai.edge.channels.whatsapp_cloud import WhatsAppCloud
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.quoting import quoted

_ALL: Final[tuple[Adapter, ...]] = (WhatsAppCloud(), Gupshup(), Telegram(), Slack())
ADAPTERS: Final[dict[str, Adapter]] = {adapter.name: adapter for adapter in _ALL}


def adapter_of(provider: str) -> Adapter:
    """Raises InvalidInput for an unknown one."""
    found = ADAPTERS.get(provider)
    if found is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"There is no channel of the kind {quoted(provider)}.",
            hint="one of " + ", ".join(ADAPTERS),
        )
    return found

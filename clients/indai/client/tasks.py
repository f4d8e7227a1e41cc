"""How a task of ours ends."""

from __future__ import annotations

import asyncio
from typing import Any


async def end_tasks(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks, and wait until all have ended, however they do. None is a task that was never begun.

    They are not awaited one by one: whoever cancels the caller meanwhile must be heard.
    """
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)

"""Asks a provider all that `indai channel test` wants to know; `channels.examining` says what it means."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from indai.edge.accounts import Served
from indai.edge.channels.base import Fate, Request
from indai.edge.channels.examining import CHECK, SET, Answered, findings, questions, refused_here
from indai.edge.channels.troubles import Finding, explained
from indai.edge.http import Http
from indai.edge.receiving import Refusals
from indai.protocol.errors import IndaiError

_NOBODY: Final = Refusals()


@dataclass(frozen=True, slots=True)
class Examined:
    """Whether the credentials are good, or why not (machine-readable); whether Telegram knows our
    address; all that was found."""

    accepted: bool
    reason: str = ""
    webhook_set: bool = False
    findings: tuple[Finding, ...] = ()


class Examiner:
    """`refusals`: of each channel's webhook."""

    def __init__(self, http: Http, refusals: Mapping[str, Refusals]) -> None:
        self._http, self._refusals = http, refusals

    def refused(self, channel: str) -> Refusals:
        """What came to a channel's webhook and was believed to come from nobody."""
        return self._refusals.get(channel, _NOBODY)

    async def examine(self, served: Served, url: str) -> Examined:
        """Nothing is changed but that Telegram is told where our webhook is (`url`)."""
        adapter, account = served.adapter, served.account
        try:
            said = await self._asked(adapter.check(account))
        except IndaiError as error:
            reason = error.reason.name.lower().replace("_", "-")
            return Examined(False, reason, findings=(explained(reason),))
        verdict = adapter.judge(said.status, said.headers, said.body)
        # Not every question is answered as a message is: what is no refusal is good.
        if not (200 <= said.status < 300 and verdict.fate in (Fate.SENT, Fate.DEAD)):
            return Examined(False, verdict.reason, findings=(explained(verdict.reason),))
        answers, found = {CHECK: said}, []
        try:
            if (setting := adapter.webhook(account, url)) is not None:
                answers |= await self._all({SET: setting})
            answers |= await self._all(questions(adapter.name, account))
        except IndaiError as error:  # a secret is missing
            found.append(Finding("no-secret", error.message, error.hint))
        told = answers.get(SET)
        taken = told is not None and 200 <= told.status < 300
        found += findings(adapter.name, account, url, answers)
        if (refused := self.refused(account.name)).count:
            at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(refused.last_ms / 1000))
            found.append(refused_here(adapter.name, refused.count, at))
        reason = "webhook-refused" if told is not None and not taken else ""
        return Examined(True, reason, taken, tuple(found))

    async def _asked(self, request: Request) -> Answered:
        said = await self._http.send(request)
        return Answered(said.status, said.headers, said.body)

    async def _all(self, asked: Mapping[str, Request]) -> dict[str, Answered]:
        """Those that were answered."""
        came = await asyncio.gather(*map(self._asked, asked.values()), return_exceptions=True)
        for each in came:
            if isinstance(each, BaseException) and not isinstance(each, IndaiError):
                raise each
        return {name: each for name, each in zip(asked, came, strict=True) if isinstance(each, Answered)}

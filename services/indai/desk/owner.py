"""The owner's desk: all its rooms."""

from __future__ import annotations

from aiohttp import web
from indai.desk.access import Access
from indai.desk.agreements import Agreements
from indai.desk.calls import Calls
from indai.desk.counter import Counter
from indai.desk.frame import Frame
from indai.desk.goals import GoalsRoom
from indai.desk.inbox import Inbox
from indai.desk.memory import MemoryRoom
from indai.desk.pause import Pause
from indai.desk.people import People
from indai.desk.rules import RulesRoom
from indai.desk.settings import Settings
from indai.desk.spending import Spending
from indai.desk.start import Start
from indai.desk.threads import Threads
from indai.web.accounts import OWNER, Accounts
from indai.web.live import Live
from indai.web.passkeys import Passkeys
from indai.web.site import HOME, Site


class OwnerDesk:
    """Pages and acts for the owner of a handle that lives on this node."""

    def __init__(self, site: Site, calls: Calls, live: Live, passkeys: Passkeys, accounts: Accounts) -> None:
        site.homes[OWNER] = HOME
        frame = Frame(site, calls)
        self._rooms = (
            Inbox(frame, live),
            Counter(frame),
            Threads(frame),
            Agreements(frame),
            RulesRoom(frame),
            People(frame),
            GoalsRoom(frame),
            MemoryRoom(frame),
            Spending(frame),
            Access(frame, passkeys),
            Settings(frame, accounts),
            Pause(frame),
            Start(frame),
        )

    def routes(self) -> tuple[web.RouteDef, ...]:
        """What the site serves of it."""
        return tuple(route for room in self._rooms for route in room.routes())

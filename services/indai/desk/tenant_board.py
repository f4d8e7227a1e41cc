"""The board: what was filed with the organisation's offices, in columns from new to resolved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from indai.desk.tenant_frame import ROLES, TENANT, WORKERS, TenantFrame
from indai.v1 import tenant_pb2 as pb
from indai.web.visit import Visit

OVER: Final = ("FULFILLED", "CANCELLED", "EXPIRED", "SUPERSEDED")
COLUMNS: Final = (("new", "New"), ("working", "In work"), ("over", "Resolved"))


class TenantBoard:
    """Pages and acts of the board."""

    def __init__(self, frame: TenantFrame) -> None:
        self._frame, self._desk = frame, frame.calls.tenant

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, room, board = self._frame.site, self._frame.room, f"/tenant/{TENANT}/board"
        return (
            site.member(board, ROLES, room(self.board)),
            site.act(f"{board}/{{thread:[0-9a-f]{{32}}}}/move", WORKERS, self.move),
        )

    async def board(self, visit: Visit) -> web.StreamResponse:
        """By due time in each column."""
        request = pb.ListBoardRequest(
            tenant=self._frame.tenant(visit),
            office=visit.request.query.get("office", ""),
            all=True,
            page_token=visit.request.query.get("page", ""),
        )
        found = await self._desk.ListBoard(request, metadata=visit.metadata)
        cards: dict[str, list[pb.BoardCard]] = {name: [] for name, _ in COLUMNS}
        for card in found.cards:
            cards[_column(card)].append(card)
        return await self._frame.page(
            visit,
            "tenant_board.html",
            "/board",
            columns=[(name, title, cards[name]) for name, title in COLUMNS],
            offices=found.offices,
            office=request.office,
            more=found.next_page_token,
        )

    async def move(self, visit: Visit) -> web.StreamResponse:
        """To a stage in words, or to its end."""
        over = visit.said("to") == "over"
        words = visit.said("words", most=300)
        request = pb.MoveRequestRequest(
            tenant=self._frame.tenant(visit),
            office=visit.said("office"),
            thread_id=visit.named("thread"),
            stage="" if over else words,
            outcome=words if over else "",
        )
        await self._desk.MoveRequest(request, metadata=visit.metadata)
        return visit.go(self._frame.at(visit, "/board"), "moved")


def _column(card: pb.BoardCard) -> str:
    if card.request.state in OVER:
        return "over"
    return "working" if card.request.stage else "new"

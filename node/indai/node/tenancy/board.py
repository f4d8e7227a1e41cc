"""The board of requests: those of the offices that are lent to a tenant, worked on by its people.

What is done there is the office's own act, signed by its agent as if its owner had done it: who filed a
request gets the outcome in its thread, and sees the stage when they ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from indai.node.tenancy.access import Post
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.quoting import quoted
from indai.v1 import asking_pb2
from indai.v1 import tenant_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.asking_pb2_grpc import AskingServiceAsyncStub

PAGE: Final = 200
_OVER: Final = ("FULFILLED", "CANCELLED", "EXPIRED", "SUPERSEDED")

CallsOf = Callable[[str], "AskingServiceAsyncStub"]
"""The asking service as an owner calls it."""


class Board:
    """See the module."""

    def __init__(self, calls_of: CallsOf, clock: Callable[[], int]) -> None:
        self._calls_of, self._clock = calls_of, clock

    async def listed(self, post: Post, request: pb.ListBoardRequest) -> pb.ListBoardResponse:
        """By due time, over all offices or of one."""
        offices = [self._office(post, request.office)] if request.office else list(post.offices)
        cards: list[pb.BoardCard] = []
        more = ""
        for office in offices:
            asked = asking_pb2.ListRequestsRequest(
                all=request.all,
                page_size=PAGE,
                page_token=request.page_token if request.office else "",
            )
            found = await self._calls_of(office).ListRequests(asked)
            cards += [self._card(office, one) for one in found.requests if one.incoming]
            more = found.next_page_token if request.office else ""
        cards.sort(key=lambda card: (card.request.due_time.seconds, card.request.thread_id))
        return pb.ListBoardResponse(cards=cards[:PAGE], next_page_token=more, offices=post.offices)

    async def move(self, post: Post, request: pb.MoveRequestRequest) -> pb.BoardCard:
        """To a stage, or to its end. Raises NotFound for an office that is not lent to the tenant."""
        office = self._office(post, request.office)
        if bool(request.stage) == bool(request.outcome):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "A request is moved to a stage, or resolved with an outcome."
            )
        calls = self._calls_of(office)
        if request.outcome:
            resolved = await calls.ResolveRequest(
                asking_pb2.ResolveRequestRequest(request=request.thread_id, outcome=request.outcome)
            )
            return self._card(office, resolved.request)
        moved = await calls.SetRequestStage(
            asking_pb2.SetRequestStageRequest(request=request.thread_id, stage=request.stage)
        )
        return self._card(office, moved.request)

    def _office(self, post: Post, handle: str) -> str:
        if handle not in post.offices:
            raise NotFound(
                Reason.NOT_FOUND,
                f"{quoted(handle)} is not lent to {post.tenant}.",
                hint="its owner lends it: indai desk lend",
            )
        return handle

    def _card(self, office: str, filed: asking_pb2.FiledRequest) -> pb.BoardCard:
        overdue = filed.due_time.seconds * 1000 < self._clock() and filed.state not in _OVER
        return pb.BoardCard(office=office, request=filed, overdue=overdue)

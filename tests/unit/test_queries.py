"""QUERY and ANSWER: each one thing, within its limits, beside all threads."""

from __future__ import annotations

import pytest
from indai.protocol.ballots import CallQuery
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.forms import DAY_MS
from indai.protocol.kinds.base import Window
from indai.protocol.messages import MeetWish, Move, RejectBody, compose, describe
from indai.protocol.queries import (
    MAX_PART,
    AnswerBody,
    CapabilitiesAnswer,
    CapabilitiesQuery,
    ContentAnswer,
    ContentQuery,
    PriceAnswer,
    PriceQuery,
    QueryBody,
    StatusAnswer,
    StatusQuery,
    WindowsAnswer,
    WindowsQuery,
    answers,
)
from indai.v1 import negotiation_pb2

from tests.unit.kinds import GOODS
from tests.unit.test_negotiation_messages import MID, header
from tests.unit.transcripts import NOW, Script, proposed

DAY = Window(NOW, NOW + DAY_MS)
PAIRS = (
    (CapabilitiesQuery(), CapabilitiesAnswer(("meet", "pay"))),
    (WindowsQuery(30, DAY), WindowsAnswer((Window(NOW, NOW + 60_000),))),
    (PriceQuery(GOODS), PriceAnswer(True, 900, "INR")),
    (StatusQuery(MID), StatusAnswer(MID, "OVERDUE", 2, NOW, "The parts are here.")),
    (ContentQuery(MID, 7), ContentAnswer(MID, 7, 9, b"ab")),
)


@pytest.mark.rule("QRY-01")
@pytest.mark.rule("QRY-03")
def test_what_is_asked_and_told_is_read_again_and_belongs_together() -> None:
    for about, told in PAIRS:
        query, answer = QueryBody(about), AnswerBody(told)
        asked = describe(compose(Move.QUERY, query, header()), mid=MID, signatures=1)
        assert (asked.move, asked.body) == (Move.QUERY, query)
        said = describe(compose(Move.ANSWER, answer, header(in_reply_to=MID)), mid=b"n" * 32, signatures=1)
        assert (said.move, said.body) == (Move.ANSWER, answer)
        assert [answers(query, AnswerBody(other)) for _, other in PAIRS] == [
            other is told for _, other in PAIRS
        ]
        assert answers(query, AnswerBody(RejectBody("POLICY_DENIED")))
    assert not answers(QueryBody(StatusQuery(b"o" * 32)), AnswerBody(PAIRS[3][1]))
    assert not answers(QueryBody(ContentQuery(MID, 8)), AnswerBody(PAIRS[4][1]))
    outside = WindowsAnswer((Window(NOW - 1, NOW + 60_000),))
    assert not answers(QueryBody(PAIRS[1][0]), AnswerBody(outside))


@pytest.mark.rule("QRY-03")
def test_a_time_that_was_asked_for_in_pieces_may_be_cut_elsewhere_by_who_answers() -> None:
    """A window has a longest length, so a day is asked for in several that touch."""
    hour = 3_600_000

    def windows(*hours: tuple[float, float]) -> tuple[Window, ...]:
        return tuple(Window(NOW + round(start * hour), NOW + round(end * hour)) for start, end in hours)

    call = QueryBody(CallQuery(MeetWish("Plans", 30, windows((0, 2), (2, 4), (5, 6))), ()))
    for fits in (windows((0, 2), (2, 4)), windows((1, 3), (3, 4)), windows((0.5, 1), (5, 6)), ()):
        assert answers(call, AnswerBody(WindowsAnswer(fits))), fits
    for not_asked in (windows((3.5, 5.5)), windows((-1, 1)), windows((5, 6.5)), windows((1, 1.25))):
        assert not answers(call, AnswerBody(WindowsAnswer(not_asked))), not_asked


@pytest.mark.rule("QRY-01")
@pytest.mark.parametrize(
    "body",
    [
        QueryBody(WindowsQuery(0, DAY)),
        QueryBody(WindowsQuery(30, Window(NOW, NOW + 400 * DAY_MS))),
        QueryBody(StatusQuery(b"short")),
        QueryBody(ContentQuery(MID, 1 << 30)),
        AnswerBody(CapabilitiesAnswer(("meet",) * 33)),
        AnswerBody(CapabilitiesAnswer(("Meet",))),
        AnswerBody(WindowsAnswer((Window(NOW, NOW),))),
        AnswerBody(PriceAnswer(True, 900, "")),
        AnswerBody(StatusAnswer(MID, "overdue", 1)),
        AnswerBody(ContentAnswer(MID, 0, 1, b"")),
        AnswerBody(ContentAnswer(MID, 0, 1, b"ab")),
        AnswerBody(ContentAnswer(MID, 0, 1 << 20, b"x" * (MAX_PART + 1))),
    ],
)
def test_what_is_out_of_range_is_refused(body: QueryBody | AnswerBody) -> None:
    is_query = isinstance(body, QueryBody)
    move, head = (Move.QUERY, header()) if is_query else (Move.ANSWER, header(in_reply_to=MID))
    with pytest.raises(ProtocolError) as caught:
        describe(compose(move, body, head), mid=MID, signatures=1)
    assert caught.value.rule == "QRY-01"


@pytest.mark.rule("QRY-01")
def test_an_empty_query_or_answer_is_refused() -> None:
    for move in (
        negotiation_pb2.Move(header=header(), query=negotiation_pb2.Query()),
        negotiation_pb2.Move(header=header(in_reply_to=MID), answer=negotiation_pb2.Answer()),
    ):
        with pytest.raises(ProtocolError) as caught:
            describe(move, mid=MID, signatures=1)
        assert caught.value.rule == "QRY-01"


@pytest.mark.rule("QRY-02")
def test_a_query_is_no_move_of_a_thread() -> None:
    query = QueryBody(CapabilitiesQuery())
    for move, body, head in (
        (Move.QUERY, query, header(in_reply_to=MID)),
        (Move.ANSWER, AnswerBody(CapabilitiesAnswer(())), header()),
    ):
        with pytest.raises(ProtocolError) as caught:
            describe(compose(move, body, head), mid=MID, signatures=1)
        assert caught.value.rule == "QRY-02"
    with pytest.raises(ProtocolError) as caught:
        proposed().say("B", Move.QUERY, query)
    assert (caught.value.reason, caught.value.rule) == (Reason.ILLEGAL_MOVE, "QRY-02")
    with pytest.raises(ProtocolError):
        Script().say("A", Move.QUERY, query)

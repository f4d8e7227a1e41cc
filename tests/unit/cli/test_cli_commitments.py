"""`indai commitments` and what threads show of a commitment's life."""

from __future__ import annotations

import io
from zoneinfo import ZoneInfo

from indai.cli.commitments import _show, _show_list
from indai.cli.output import Page
from indai.cli.words import life, stamp, thread_json
from indai.v1 import owner_pb2

START = 1_795_089_600_000  # 2026-11-19T12:00:00Z
ZONE = ZoneInfo("Asia/Kolkata")


def agreed(state: int = owner_pb2.COMMITMENT_STATE_COMMITTED, **more: object) -> owner_pb2.Thread:
    fields: dict[str, object] = {
        "thread_id": "0193f2ab4c77" * 2,
        "peer": "ind.ai/bob",
        "title": "Lunch",
        **more,
    }
    return owner_pb2.Thread(
        state=owner_pb2.THREAD_STATE_COMMITTED,
        start_time=stamp(START),
        end_time=stamp(START + 1_800_000),
        due_time=stamp(START + 1_800_000),
        commitment_state=state,  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


def test_the_list_shows_due_dates_in_the_owners_time_and_what_became_of_each() -> None:
    out = io.StringIO()
    cancelled = agreed(owner_pb2.COMMITMENT_STATE_CANCELLED, title="Tea", disputed=True)
    _show_list(Page(out), [agreed(), cancelled], ZONE)
    text = out.getvalue()
    assert "Thu 19 Nov 18:00" in text
    assert "stands" in text
    assert "cancelled, disputed" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_an_empty_list_says_what_to_do() -> None:
    out = io.StringIO()
    _show_list(Page(out), [], ZONE)
    assert "indai commitments --all" in out.getvalue()


def test_one_commitment_shows_what_the_node_said() -> None:
    out = io.StringIO()
    _show(Page(out), agreed(words="The other side is asked to cancel the meeting."), ZONE)
    assert "Lunch: stands" in out.getvalue()
    assert "The other side is asked to cancel the meeting." in out.getvalue()


def test_a_program_reads_state_due_date_and_objection() -> None:
    value = thread_json(agreed(owner_pb2.COMMITMENT_STATE_OVERDUE, disputed=True))
    assert (value["commitment_state"], value["disputed"]) == ("OVERDUE", True)
    assert value["due"] == "2026-11-19T12:30:00.000Z"
    before = owner_pb2.Thread(state=owner_pb2.THREAD_STATE_NEGOTIATING)
    assert (thread_json(before)["commitment_state"], life(before)) == ("", "")

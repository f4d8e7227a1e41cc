"""What must not leave: secrets into rows, logs and errors; personal data out of the country."""

from __future__ import annotations

import logging
import threading

import asyncpg
import pytest
from indai.llm.pii import Scrubber
from indai.v1 import llm_pb2 as pb

from tests.service.llm.conftest import (
    CONTEXT,
    KEY,
    MEET,
    SCOPE,
    MakeGateway,
    MakeUpstream,
    configuration,
    said,
)
from tests.service.llm.upstream import Reply

KINDS = ["anthropic", "gemini", "sarvam", "openai"]
PRIVATE = (
    "Call me on +91 98765 43210 or asha@example.com, UPI asha@okicici,"
    " PAN ABCPK1234L, aadhaar २९९९ 2849 6545."
)
NOWHERE = ("98765", "asha@example.com", "asha@okicici", "ABCPK1234L", "6545", "२९९९")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_is_in_no_row_no_log_and_no_error(
    kind: str,
    gateway: MakeGateway,
    upstream: MakeUpstream,
    pool: asyncpg.Pool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    replies = [
        Reply(status=401),
        Reply(status=400),
        Reply(status=500),
        Reply(error_event="api_error"),
        Reply(raw_event=True),
        Reply(),
    ]
    server = await upstream(kind, *replies)
    asking = await gateway(configuration(server))
    shown = [repr(await asking.answer()) for _ in range(len(replies))]
    shown.append(repr(await asking.service.ListModels(pb.ListModelsRequest(), CONTEXT)))
    shown += [repr(row) for row in await asking.rows()]
    listed = await asking.service.ListNotices(pb.ListNoticesRequest(scope=SCOPE), CONTEXT)
    shown.append(repr(listed))
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT llm.act_for('acme')")
        for table in ("calls", "notices"):
            rows = await connection.fetch(f"SELECT to_jsonb(t)::text FROM llm.{table} t")  # noqa: S608
            assert rows
            shown += [str(row[0]) for row in rows]
    output = capfd.readouterr()
    everything = "\n".join((*shown, caplog.text, output.out, output.err, repr(vars(asking.service))))
    assert "refused the key" in everything  # the search below looks at something
    assert KEY not in everything
    assert "SECRET-IN-ERROR" not in everything


@pytest.mark.parametrize("kind", KINDS)
async def test_personal_data_does_not_leave_the_country_and_comes_back_in_the_answer(
    kind: str, gateway: MakeGateway, upstream: MakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ("I call [PHO", "NE_1] and mail [EMAIL_1]", ", not [AADHAAR_1] [PHONE_7] [x")
    server = await upstream(kind, Reply(text=answer, call=("propose_meet", '{"with": "[UPI_1] [PAN_1]"}')))
    asking = await gateway(configuration(server))
    # The server is on this machine, and stands for one in another country.
    monkeypatch.setattr("indai.llm.config.Config.leaves_country", lambda *_: True)
    history = [
        said(PRIVATE),
        pb.ChatMessage(role=pb.MESSAGE_ROLE_ASSISTANT, text="Asha's number is +91 98765 43210."),
        said("Thanks."),
    ]
    system = [pb.SystemBlock(text="Help asha@example.com.", cache_boundary=True)]
    events = await asking.events(messages=history, system=system, tools=[MEET])
    wire = server.seen[0].raw.decode()
    assert [each for each in NOWHERE if each in wire] == []
    assert "[PHONE_1]" in wire
    assert wire.count("[EMAIL_1]") == 2
    assert wire.count("[PHONE_1]") == 2
    text = "".join(event.text for event in events)
    assert text == "I call +91 98765 43210 and mail asha@example.com, not [AADHAAR_1] [PHONE_7] [x"
    (call,) = [event.tool_call for event in events if event.HasField("tool_call")]
    assert call.arguments_json == '{"with": "asha@okicici [PAN_1]"}'


async def test_a_large_prompt_is_searched_where_nobody_else_waits(
    gateway: MakeGateway, upstream: MakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await upstream("openai")
    asking = await gateway(configuration(server))
    monkeypatch.setattr("indai.llm.config.Config.leaves_country", lambda *_: True)
    threads: list[int] = []
    search = Scrubber.scrub

    def noted(scrubber: Scrubber, text: str) -> str:
        threads.append(threading.get_ident())
        return search(scrubber, text)

    monkeypatch.setattr(Scrubber, "scrub", noted)
    await asking.answer("Call me. " * 20_000 + PRIVATE)
    assert threads
    assert threading.get_ident() not in threads
    wire = server.seen[0].raw.decode()
    assert [each for each in NOWHERE if each in wire] == []
    threads.clear()
    await asking.answer("Call me on +91 98765 43210.")
    assert set(threads) == {threading.get_ident()}


async def test_the_binding_may_allow_kinds_and_a_provider_in_the_country_gets_all(
    gateway: MakeGateway, upstream: MakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await upstream("openai")
    asking = await gateway(configuration(server))
    await asking.answer(PRIVATE)
    assert PRIVATE in server.seen[0].body["messages"][-1]["content"]
    monkeypatch.setattr("indai.llm.config.Config.leaves_country", lambda *_: True)
    await asking.answer(PRIVATE, allowed_pii=[pb.PII_KIND_PHONE, pb.PII_KIND_PAN])
    sent = server.seen[1].body["messages"][-1]["content"]
    assert (
        sent == "Call me on +91 98765 43210 or [EMAIL_1], UPI [UPI_1], PAN ABCPK1234L, aadhaar [AADHAAR_1]."
    )

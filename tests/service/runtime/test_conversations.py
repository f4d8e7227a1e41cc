"""Who talks to whose agent: doors, sessions over channels, one message once, codes that join channels."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.runtime.conversations.limits import PERSON
from indai.storage.pool import transaction
from indai.v1 import conversation_pb2 as pb

from tests.conftest import Database
from tests.service.runtime.cell import ALICE, BOB, Heard, cell, owner, phone

PHONE = "+919812345678"


async def _read_to_the_end(stream: AsyncIterator[pb.SendMessageResponse]) -> None:
    async for _ in stream:
        pass


def shown(heard: Heard) -> tuple[str, str]:
    return heard.accepted.door, heard.accepted.handle


async def test_who_writes_decides_the_door(database: Database) -> None:
    async with cell(database.pool) as here:
        assert shown(await here.say(owner(ALICE, "hello"))) == ("private", ALICE)
        assert shown(await here.say(owner(ALICE, "hello", handle=BOB))) == ("public", BOB)
        assert shown(await here.say(phone(PHONE, "hello", handle=ALICE))) == ("public", ALICE)
        with pytest.raises(NotFound):
            await here.say(phone(PHONE, "hello"))
        claimed = owner(ALICE, "hello", handle=ALICE)
        claimed.sender.verified = False  # anybody can say that they are alice
        assert shown(await here.say(claimed)) == ("public", ALICE)


async def test_the_events_count_without_a_gap_and_end_with_the_stored_answer(database: Database) -> None:
    async with cell(database.pool) as here:
        heard = await here.say(owner(ALICE, "what is the capital of France?"))
        assert [each.seq for each in heard.events] == list(range(1, len(heard.events) + 1))
        assert heard.stages == ["perceive", "classify", "recall", "plan", "respond", "update"]
        assert heard.text == " ".join(heard.sentences) != ""
        request = pb.ListSessionMessagesRequest(session_id=heard.accepted.session_id)
        listed = (await here.stub.ListSessionMessages(request)).messages
        assert [(each.outgoing, each.text) for each in listed] == [
            (False, "what is the capital of France?"),
            (True, heard.text),
        ]


async def test_a_turn_can_be_looked_into_afterwards(database: Database) -> None:
    async with cell(database.pool) as here:
        heard = await here.say(owner(ALICE, "what is the capital of France?"))
        found = await here.stub.GetTurn(pb.GetTurnRequest(turn_id=heard.turn_id))
        assert (found.ending, found.attempts) == ("answered", 1)
        assert {"perceive", "recall", "prompt_assemble", "llm_total", "total"} <= set(found.stage_ms)
        assert '"route": "knowledge"' in found.trace_json
        assert "France" not in found.trace_json


async def test_a_message_that_comes_twice_is_answered_once(database: Database) -> None:
    async with cell(database.pool) as here:
        first = await here.say(phone(PHONE, "hello", handle=ALICE, provider_message_id="wamid.1"))
        again = await here.say(phone(PHONE, "hello", handle=ALICE, provider_message_id="wamid.1"))
        assert again.accepted.repeated
        assert not first.accepted.repeated
        assert (again.turn_id, again.text) == (first.turn_id, first.text)
        with pytest.raises(IndaiError) as caught:  # another's message under the same id learns nothing
            await here.say(phone("+919800000000", "hi", handle=ALICE, provider_message_id="wamid.1"))
        assert caught.value.reason is Reason.ID_REUSE


async def test_one_turn_at_a_time_runs_for_a_session_in_the_order_of_arrival(database: Database) -> None:
    async with cell(database.pool) as here:
        texts = [f"what is {number} plus {number}?" for number in range(5)]
        session = (await here.say(owner(ALICE, "hello"))).accepted.session_id
        streams = []
        for text in texts:
            stream = aiter(here.stub.SendMessage(pb.SendMessageRequest(message=owner(ALICE, text))))
            assert (await anext(stream)).event.accepted.session_id == session  # it is stored
            streams.append(stream)
        await asyncio.gather(*(_read_to_the_end(stream) for stream in streams))
        request = pb.ListSessionMessagesRequest(session_id=session)
        listed = (await here.stub.ListSessionMessages(request)).messages
        assert [each.text for each in listed if not each.outgoing] == ["hello", *texts]
        answered = [each.turn_id for each in listed if each.outgoing]
        assert answered == [each.turn_id for each in listed if not each.outgoing]


async def test_a_code_makes_two_channels_one_conversation(database: Database) -> None:
    async with cell(database.pool) as here:
        mine = await here.say(owner(ALICE, "what is up?"))
        made = await here.stub.CreateLinkCode(pb.CreateLinkCodeRequest(identity=owner(ALICE, "").sender))
        linked = await here.say(phone(PHONE, f"link {made.code.lower()}"))
        assert shown(linked) == ("private", ALICE)
        assert linked.accepted.session_id == mine.accepted.session_id
        assert "whatsapp" in linked.text
        assert shown(await here.say(phone(PHONE, "what is up?"))) == ("private", ALICE)
        with pytest.raises(NotFound):  # used once
            await here.say(phone("+919800000001", f"link {made.code}"))
        await here.say(phone(PHONE, "unlink"))
        with pytest.raises(NotFound):
            await here.say(phone(PHONE, "what is up?"))


async def test_no_code_makes_an_owner_somebody_elses(database: Database) -> None:
    """Alice is talked into saying a stranger's code: her agent stays hers."""
    async with cell(database.pool) as here:
        await here.say(owner(ALICE, "hello"))
        code = await here.stub.CreateLinkCode(pb.CreateLinkCodeRequest(identity=owner(ALICE, "").sender))
        await here.say(phone(PHONE, f"link {code.code}"))
        theirs = await here.stub.CreateLinkCode(
            pb.CreateLinkCodeRequest(identity=phone("+919800000002", "").sender)
        )
        heard = await here.say(phone(PHONE, f"link {theirs.code}"))
        assert ALICE in heard.text
        assert shown(await here.say(phone(PHONE, "hello"))) == ("private", ALICE)
        with pytest.raises(NotFound):
            await here.say(phone("+919800000002", "hello"))
        unproved = phone("+919800000003", "", verified=False).sender
        with pytest.raises(Refused):
            await here.stub.CreateLinkCode(pb.CreateLinkCodeRequest(identity=unproved))


async def test_a_turn_is_told_again_from_any_event_to_its_own_people_only(database: Database) -> None:
    async with cell(database.pool) as here:
        heard = await here.say(owner(ALICE, "what is up?"))
        await here.say(phone(PHONE, "hello", handle=ALICE))
        request = pb.WatchTurnRequest(turn_id=heard.turn_id, after_seq=2, sender=owner(ALICE, "").sender)
        events = [each.event async for each in here.stub.WatchTurn(request)]
        assert events == heard.events[2:]
        request.sender.CopyFrom(phone(PHONE, "").sender)
        with pytest.raises(NotFound):
            [each async for each in here.stub.WatchTurn(request)]
        with pytest.raises(NotFound):
            await here.stub.StopTurn(
                pb.StopTurnRequest(turn_id=heard.turn_id, sender=phone(PHONE, "").sender)
            )


async def test_a_person_sees_their_own_sessions_alone(database: Database) -> None:
    async with cell(database.pool) as here:
        mine = await here.say(phone(PHONE, "hello", handle=ALICE))
        other = await here.say(phone("+919800000000", "hi there", handle=ALICE))
        listed = await here.stub.ListSessions(pb.ListSessionsRequest(person=phone(PHONE, "").sender))
        assert [each.session_id for each in listed.sessions] == [mine.accepted.session_id]
        request = pb.ListSessionMessagesRequest(
            session_id=other.accepted.session_id, person=phone(PHONE, "").sender
        )
        with pytest.raises(NotFound):
            await here.stub.ListSessionMessages(request)
        whole = await here.stub.ListSessions(pb.ListSessionsRequest(handle=ALICE, page_size=1))
        rest = await here.stub.ListSessions(
            pb.ListSessionsRequest(handle=ALICE, page_size=1, page_token=whole.next_page_token)
        )
        found = [each.session_id for each in (*whole.sessions, *rest.sessions)]
        assert found == [other.accepted.session_id, mine.accepted.session_id]


async def test_rows_are_seen_by_their_owner_and_people_by_who_met_them(database: Database) -> None:
    async with cell(database.pool) as here:
        await here.say(phone(PHONE, "hello", handle=ALICE))
        tables = ("sessions", "messages", "turns", "turn_events", "users", "identities", "deliveries")
        for owners, sees in ((ALICE,), True), ((BOB,), False), ((), False):
            async with transaction(database.pool, owners) as connection:
                for table in tables[:6]:
                    count = await connection.fetchval(f"SELECT count(*) FROM runtime.{table}")  # noqa: S608
                    assert bool(count) is sees, (owners, table)


async def test_a_human_takes_a_session_over_and_gives_it_back(database: Database) -> None:
    async with cell(database.pool) as here:
        heard = await here.say(phone(PHONE, "hello", handle=ALICE))
        session = heard.accepted.session_id
        with pytest.raises(IndaiError) as caught:
            await here.stub.SendAsHuman(
                pb.SendAsHumanRequest(session_id=session, by="meera", text="Hi", request_id="1")
            )
        assert caught.value.reason is Reason.ILLEGAL_MOVE
        taken = pb.TakeOverSessionRequest(session_id=session, by="meera")
        for _ in range(2):
            assert (await here.stub.TakeOverSession(taken)).session.status == "handed_off"
        silent = await here.say(phone(PHONE, "what is up?", handle=ALICE))
        assert (silent.text, silent.finished.reason) == ("", "HANDED_OFF")
        request = pb.SendAsHumanRequest(
            session_id=session, by="meera", text="Meera here", request_id=str(uuid.uuid4())
        )
        sent = [(await here.stub.SendAsHuman(request)).message for _ in range(2)]
        assert sent[0] == sent[1]
        await here.stub.HandBackSession(pb.HandBackSessionRequest(session_id=session, by="meera"))
        stream = here.stub.WatchOutbound(pb.WatchOutboundRequest(channels=["whatsapp"]))
        told = []
        async for response in stream:
            told.append(response.message)
            if len(told) == 3:
                break
        assert told[1].reply.text == "Meera here"
        assert {each.recipient.value for each in told} == {PHONE}
        for each in told:
            await here.stub.AcknowledgeOutbound(
                pb.AcknowledgeOutboundRequest(outbound_id=each.outbound_id, provider_message_id="w")
            )
        assert (await here.say(phone(PHONE, "what is up?", handle=ALICE))).text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": "x" * 100_001}, Reason.TOO_LARGE),
        ({"text": "a\0b"}, Reason.INVALID_ARGUMENT),
        ({"media": [pb.Media()] * 11}, Reason.INVALID_ARGUMENT),
    ],
)
async def test_a_message_beyond_the_limits_is_refused(
    database: Database, change: dict[str, object], reason: Reason
) -> None:
    async with cell(database.pool) as here:
        with pytest.raises(InvalidInput) as caught:
            await here.say(owner(ALICE, **{"text": "hello", **change}))  # type: ignore[arg-type]
        assert caught.value.reason is reason


async def test_one_person_s_flood_is_refused_before_it_is_stored(database: Database) -> None:
    async with cell(database.pool) as here:
        for number in range(PERSON[0].most):
            await here.say(phone(PHONE, "hello", handle=ALICE, provider_message_id=f"m{number}"))
        with pytest.raises(IndaiError, match="Too many messages for you"):
            await here.say(phone(PHONE, "hello", handle=ALICE, provider_message_id="one too many"))
        again = await here.say(phone(PHONE, "hello", handle=ALICE, provider_message_id="m0"))
        assert again.events[0].accepted.repeated  # what came before is answered as before
        assert (await here.say(phone("+919800000001", "hello", handle=ALICE))).text
        assert (await here.say(owner(ALICE, "hello"))).text


async def test_a_stranger_hears_what_to_say_first_and_that_an_agent_is_paused(database: Database) -> None:
    async with cell(database.pool) as here:
        request = pb.GetPublicProfileRequest(handle=ALICE, languages=["hi"])
        profile = await here.stub.GetPublicProfile(request)
        assert [each.title for each in profile.suggestions][-1] == "आप क्या कर सकते हैं?"
        assert all(len(each.title) <= 24 for each in profile.suggestions)
        assert not profile.paused
        await here.apply("personal", "kind: tenant\nslug: personal\nname: Personal\nstatus: paused\n")
        assert (await here.stub.GetPublicProfile(request)).paused

"""Five agents on three nodes meet: one commitment with five signatures, five calendars, three ledgers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from indai.client.audit import Verdict, audit
from indai.client.channels import plain_channel
from indai.node import calendar_changes, outbox
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import calendar_pb2, group_pb2, negotiation_pb2, owner_pb2
from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.group_pb2_grpc import GroupServiceStub

from tests.databases import Databases
from tests.service.node.byhand import stamp, without
from tests.service.node.lives import events, is_cancelled, until
from tests.service.node.test_meeting import messages
from tests.service.node.test_owner import inbox
from tests.service.node.world import Node, Owner, World, now_ms, world

if TYPE_CHECKING:
    from indai.v1.group_pb2_grpc import GroupServiceAsyncStub

HOUR, DAY = 3_600_000, 86_400_000
OPEN = "version: 1\ntimezone: Asia/Kolkata\nrules:\n  - allow: meet\n    with: anyone\n"
ASKS = "version: 1\ntimezone: Asia/Kolkata\nrules:\n  - ask: meet\n    with: anyone\n"
NEVER = "version: 1\ntimezone: Asia/Kolkata\nrules:\n  - allow: meet\n    with: ind.ai/nobody\n"
ALL = owner_pb2.ListThreadsRequest()
NAMES = ("anu", "bala", "chitra", "dev", "esha")


@dataclass
class Five:
    """anu and bala on node-a, chitra and dev on node-b, esha (and those of single tests) on node-c."""

    world: World
    nodes: dict[str, Node]
    owners: dict[str, Owner]

    async def more(self, name: str, policy: str) -> Owner:
        if name not in self.owners:
            self.nodes[name] = self.nodes["esha"]
            self.owners[name] = await self.nodes["esha"].agent(f"ind.ai/{name}", policy)
        return self.owners[name]

    def groups(self, name: str) -> GroupServiceAsyncStub:
        address = self.nodes[name].info.addresses["owner"]
        return GroupServiceStub(plain_channel(address, token=self.owners[name].token))

    async def meet(
        self, *others: str, title: str = "Plan", algorithm: str = "", ahead: int = 1
    ) -> owner_pb2.Thread:
        """anu asks the others for a time so many days ahead or later, and waits until it rests."""
        request = group_pb2.StartGroupRequest(
            request_id=str(uuid.uuid4()),
            peers=[f"ind.ai/{name}" for name in others],
            title=title,
            duration_minutes=30,
            algorithm=algorithm,
        )
        request.start_time.FromMilliseconds(now_ms() + ahead * DAY)
        request.end_time.FromMilliseconds(now_ms() + (ahead + 11) * DAY)
        started = await self.groups("anu").StartGroup(request)
        return await self.owners["anu"].rest(started.thread.thread_id)

    async def group(self, thread: owner_pb2.Thread) -> group_pb2.GetGroupResponse:
        request = group_pb2.GetGroupRequest(thread_id=thread.thread_id)
        return await self.groups("anu").GetGroup(request)

    async def threads(self, *names: str) -> dict[str, owner_pb2.Thread]:
        """Each one's newest thread, when it rests."""
        found = {}
        for name in names:
            owner = self.owners[name]
            listed = (await owner.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads
            found[name] = await owner.rest(listed[0].thread_id)
        return found


@pytest.fixture(scope="module", autouse=True)
def _eager() -> Iterator[None]:
    """Nodes look at calendars all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calendar_changes, "POLL_S", 0.2)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def five(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> AsyncIterator[Five]:
    base: Path = tmp_path_factory.mktemp("five")
    async with (
        world(base, databases) as registry,
        registry.node("node-a") as a,
        registry.node("node-b") as b,
        registry.node("node-c") as c,
    ):
        nodes = dict(zip(NAMES, (a, a, b, b, c), strict=True))
        owners = {name: await nodes[name].agent(f"ind.ai/{name}", OPEN) for name in NAMES}
        yield Five(registry, nodes, owners)


def is_superseded(thread: owner_pb2.Thread) -> bool:
    return thread.commitment_state == owner_pb2.COMMITMENT_STATE_SUPERSEDED


def has_ended(thread: owner_pb2.Thread) -> bool:
    return thread.state not in (
        owner_pb2.THREAD_STATE_ON_HOLD,
        owner_pb2.THREAD_STATE_NEGOTIATING,
        owner_pb2.THREAD_STATE_AWAITING_RECEIPT,
    )


async def test_five_sign_one_commitment_and_every_calendar_names_all(five: Five) -> None:
    thread = await five.meet(*NAMES[1:])
    assert thread.state == owner_pb2.THREAD_STATE_COMMITTED, thread
    seen = await five.threads(*NAMES)
    assert {each.commitment_mid for each in seen.values()} == {thread.commitment_mid}
    assert {each.state for each in seen.values()} == {owner_pb2.THREAD_STATE_COMMITTED}
    assert len({each.start_time.seconds for each in seen.values()}) == 1
    received = [m for m in await messages(five.owners["esha"], thread.thread_id) if m.move == "RECEIPT"]
    receipt = negotiation_pb2.Receipt.FromString(parse_envelope(received[0].envelope).payload)
    assert len(parse_envelope(receipt.commitment).signatures) == 5
    for name in NAMES:
        calendars = five.nodes[name].data / "calendars"
        text = "".join(path.read_text() for path in calendars.rglob("*.ics") if name in path.name)
        unfolded = text.replace("\r\n ", "")
        assert all(f"ind.ai/{other}" in unfolded for other in NAMES), (name, unfolded)


@pytest.mark.rule("GRP-06")
async def test_the_account_says_what_was_disclosed_to_whom_within_twelve_exchanges(five: Five) -> None:
    thread = await five.meet(*NAMES[1:], title="Account")
    account = await five.group(thread)
    assert [member.handle for member in account.members] == [f"ind.ai/{name}" for name in NAMES[1:]]
    assert sum(member.exchanges for member in account.members) == 12
    assert account.rounds == 2
    assert all(member.signed and member.told_slots and member.heard_windows for member in account.members)
    lines = (await five.owners["dev"].stub.ListJournal(owner_pb2.ListJournalRequest())).entries
    told = [line.words for line in lines if line.event == "disclosed"]
    assert told[0].startswith("ind.ai/anu was told how")
    assert told[0].endswith("for a meeting of 5.")


async def test_whose_policy_forbids_it_is_named_and_nobody_is_held_up(five: Five) -> None:
    await five.more("never", NEVER)
    thread = await five.meet("bala", "chitra", "never", title="Refused")
    assert thread.state == owner_pb2.THREAD_STATE_REJECTED
    assert "ind.ai/never" in thread.words
    account = await five.group(thread)
    assert [member.handle for member in account.members if member.prevented] == ["ind.ai/never"]


async def test_a_member_asks_its_owner_and_then_all_are_agreed(five: Five) -> None:
    asks = await five.more("asks", ASKS)
    thread = await five.meet("chitra", "asks", title="Asked")
    assert thread.state == owner_pb2.THREAD_STATE_ON_HOLD
    assert [m.handle for m in (await five.group(thread)).members if m.asking_owner] == ["ind.ai/asks"]
    (question,) = (await asks.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    await asks.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code, approve=True))
    done = await until(five.owners["anu"], thread.thread_id, has_ended)
    assert done.state == owner_pb2.THREAD_STATE_COMMITTED


async def test_a_member_whose_owner_says_no_releases_all(five: Five) -> None:
    asks = await five.more("asks", ASKS)
    thread = await five.meet("chitra", "asks", title="Declined")
    (question,) = (await asks.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    chitra = five.owners["chitra"].stub  # whom the offer reaches by itself, maybe later
    async with asyncio.timeout(60):
        while thread.thread_id not in [
            each.thread_id for each in (await chitra.ListThreads(owner_pb2.ListThreadsRequest())).threads
        ]:
            await asyncio.sleep(0.05)
    await asks.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code, approve=False))
    done = await until(five.owners["anu"], thread.thread_id, has_ended)
    assert (done.state, done.reason) == (owner_pb2.THREAD_STATE_REJECTED, "DECLINED")
    assert "ind.ai/asks" in done.words
    released = await until(five.owners["chitra"], thread.thread_id, has_ended)
    assert released.state == owner_pb2.THREAD_STATE_WITHDRAWN


@pytest.mark.parametrize("who", ["anu", "dev"])
async def test_whoever_cancels_in_time_cancels_it_for_all(five: Five, who: str) -> None:
    thread = await five.meet("chitra", "dev", "esha", title=f"Cancelled by {who}")
    await five.threads("anu", "chitra", "dev", "esha")
    await five.owners[who].stub.CancelCommitment(
        owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id, sentence="I am ill")
    )
    for name in ("anu", "chitra", "dev", "esha"):
        await until(five.owners[name], thread.thread_id, is_cancelled)


@pytest.mark.rule("LIF-16")
@pytest.mark.parametrize(("who", "minutes"), [("anu", 15), ("dev", 90 * 24 * 60)])
async def test_whoever_agreed_it_moves_it_for_all_once_all_have_signed(
    five: Five, who: str, minutes: int
) -> None:
    old = await five.meet("chitra", "dev", "esha", title=f"Moved by {who}", ahead=30)
    all_four = ("anu", "chitra", "dev", "esha")
    await five.threads(*all_four)
    request = owner_pb2.RescheduleCommitmentRequest(request_id=str(uuid.uuid4()), thread_id=old.thread_id)
    start_ms = old.start_time.ToMilliseconds() + minutes * 60_000
    request.start_time.FromMilliseconds(start_ms)
    request.end_time.FromMilliseconds(start_ms + 30 * 60_000)  # for anu the two times overlap
    asked = (await five.owners[who].stub.RescheduleCommitment(request)).thread
    again = (await five.owners[who].stub.RescheduleCommitment(request)).thread
    assert again.thread_id == asked.thread_id
    for name in all_four:
        await until(five.owners[name], old.thread_id, is_superseded)
        new = (await five.threads(name))[name]
        assert (new.thread_id, new.title) == (asked.thread_id, old.title)
        assert new.start_time.ToMilliseconds() == start_ms
    (event,) = await events(five.owners["chitra"], old)
    assert event.superseded_by.hex() == new.commitment_mid


async def test_what_not_all_sign_leaves_the_meeting_of_several_as_it_was(five: Five) -> None:
    asks = await five.more("asks", ASKS)
    old = await five.meet("chitra", "asks", title="Not moved", ahead=60)
    (question,) = (await asks.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    await asks.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code, approve=True))
    for owner in (five.owners["anu"], asks, five.owners["chitra"]):  # the receipt reaches each by itself
        await until(owner, old.thread_id, has_ended)
    request = owner_pb2.RescheduleCommitmentRequest(request_id=str(uuid.uuid4()), thread_id=old.thread_id)
    start_ms = old.start_time.ToMilliseconds() + 15 * 60_000
    request.start_time.FromMilliseconds(start_ms)
    request.end_time.FromMilliseconds(start_ms + 30 * 60_000)
    asked = (await five.owners["anu"].stub.RescheduleCommitment(request)).thread
    await five.owners["anu"].rest(asked.thread_id)
    (question,) = (await asks.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    await asks.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code, approve=False))
    done = await until(five.owners["anu"], asked.thread_id, has_ended)
    assert (done.state, done.reason) == (owner_pb2.THREAD_STATE_REJECTED, "DECLINED")
    for owner in (five.owners["anu"], asks, five.owners["chitra"]):
        stands = await until(owner, old.thread_id, has_ended)
        assert stands.commitment_state == owner_pb2.COMMITMENT_STATE_COMMITTED


@pytest.mark.rule("LIF-26")
@pytest.mark.rule("LIF-27")
async def test_three_who_move_it_at_once_come_to_one_time_and_the_others_hear_why(five: Five) -> None:
    old = await five.meet("chitra", "esha", title="Wanted elsewhere by all", ahead=200)
    three = ("anu", "chitra", "esha")  # each on a node of its own
    await five.threads(*three)
    requests = []
    for days in (210, 220, 230):
        requests.append(
            owner_pb2.RescheduleCommitmentRequest(request_id=str(uuid.uuid4()), thread_id=old.thread_id)
        )
        requests[-1].start_time.FromMilliseconds(now_ms() + days * DAY)
        requests[-1].end_time.FromMilliseconds(now_ms() + (days + 2) * DAY)
    said = await asyncio.gather(
        *(
            five.owners[who].stub.RescheduleCommitment(each)
            for who, each in zip(three, requests, strict=True)
        ),
        return_exceptions=True,
    )
    begun = {
        who: each.thread.thread_id
        for who, each in zip(three, said, strict=True)
        if isinstance(each, owner_pb2.RescheduleCommitmentResponse)
    }
    ends = {who: await until(five.owners[who], thread, has_ended) for who, thread in begun.items()}
    (agreed,) = [end for end in ends.values() if end.state == owner_pb2.THREAD_STATE_COMMITTED]
    lost = [end for end in ends.values() if end is not agreed]
    assert all(end.reason == "OVERTAKEN" for end in lost), lost
    assert all("came first" in end.words for end in lost), lost
    for who in three:
        await until(five.owners[who], old.thread_id, is_superseded)
        stands = await until(five.owners[who], agreed.thread_id, has_ended)
        assert stands.commitment_mid == agreed.commitment_mid


async def question(owner: Owner, thread_id: str) -> owner_pb2.Approval:
    """What the owner is asked about in this thread, once they are."""
    async with asyncio.timeout(60):
        while (found := await inbox(owner, thread_id)) is None:
            await asyncio.sleep(0.05)
    return found


@pytest.mark.rule("LIF-27")
async def test_a_yes_to_a_second_move_waits_for_the_first_and_stands_when_that_has_failed(
    five: Five, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LAST_RETRY_S", 0.2)
    asks, mira, nila = [await five.more(name, ASKS) for name in ("asks", "mira", "nila")]
    old = await five.meet("asks", "mira", "nila", title="Wanted twice", ahead=300)

    async def says(owner: Owner, thread_id: str, yes: bool = True) -> None:
        code = (await question(owner, thread_id)).code
        await owner.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=code, approve=yes))

    async def moves(owner: Owner, days: int) -> str:
        request = owner_pb2.RescheduleCommitmentRequest(request_id=str(uuid.uuid4()), thread_id=old.thread_id)
        request.start_time.FromMilliseconds(now_ms() + days * DAY)
        request.end_time.FromMilliseconds(now_ms() + (days + 2) * DAY)
        return (await owner.stub.RescheduleCommitment(request)).thread.thread_id

    for owner in (asks, mira, nila):
        await says(owner, old.thread_id)
    for owner in (asks, mira, nila):
        await until(owner, old.thread_id, lambda t: t.state == owner_pb2.THREAD_STATE_COMMITTED)
    first = await moves(asks, 310)
    for owner in (mira, nila):
        await question(owner, first)
    anu = five.owners["anu"]  # her agent signs it by itself, and then neither may sign another
    async with asyncio.timeout(60):
        while first not in {t.thread_id for t in (await anu.stub.ListThreads(ALL)).threads}:
            await asyncio.sleep(0.05)
    second = await moves(mira, 320)
    await question(nila, second)
    await says(nila, first)
    with pytest.raises(IndaiError) as waits:
        await says(nila, second)
    assert waits.value.reason is Reason.THREAD_OPEN
    await says(mira, first, yes=False)
    await until(nila, first, has_ended)
    await says(nila, second)  # the question has stayed
    await says(asks, second)
    for owner in (mira, nila, asks, anu):
        await until(owner, old.thread_id, is_superseded)
        agreed = await until(owner, second, has_ended)
        assert agreed.state == owner_pb2.THREAD_STATE_COMMITTED


async def told(five: Five, name: str, thread: owner_pb2.Thread) -> None:
    """Once the node has noticed what its owner did to the meeting in their calendar, they say: tell them."""
    address = five.nodes[name].info.addresses["owner"]
    calendar = CalendarServiceStub(plain_channel(address, token=five.owners[name].token))
    waiting = calendar_pb2.ListCalendarChangesRequest()
    async with asyncio.timeout(60):
        while thread.thread_id not in {
            each.thread_id for each in (await calendar.ListCalendarChanges(waiting)).changes
        }:
            await asyncio.sleep(0.05)
    request = calendar_pb2.AnswerCalendarChangeRequest(thread_id=thread.thread_id, tell=True)
    await calendar.AnswerCalendarChange(request)


async def test_a_member_moves_and_another_deletes_it_in_their_calendars(five: Five) -> None:
    for name in ("ira", "joy"):
        await five.more(name, OPEN)
    all_three = ("anu", "ira", "joy")
    old = await five.meet("ira", "joy", title="By hand", ahead=150)
    for name in all_three:
        await until(five.owners[name], old.thread_id, lambda thread: thread.in_calendar)
    files = {name: five.nodes[name].data / "calendars" / f"ind.ai_{name}.ics" for name in all_three}
    text, start_ms = files["joy"].read_text(), old.start_time.ToMilliseconds()
    for at_ms in (start_ms, old.end_time.ToMilliseconds()):
        assert f":{stamp(at_ms)}" in text
        text = text.replace(f":{stamp(at_ms)}", f":{stamp(at_ms + DAY)}")
    files["joy"].write_text(text)
    await told(five, "joy", old)
    for name in all_three:
        await until(five.owners[name], old.thread_id, is_superseded)
        new = (await five.threads(name))[name]
        assert new.start_time.ToMilliseconds() == start_ms + DAY
        await until(five.owners[name], new.thread_id, lambda thread: thread.in_calendar)
    # Nothing else is to be written there while its owner does.
    is_written = "STATUS:CANCELLED"
    await until(five.owners["ira"], old.thread_id, lambda _: is_written in files["ira"].read_text())
    without(files["ira"], new.thread_id)
    await told(five, "ira", new)
    for name in all_three:
        await until(five.owners[name], new.thread_id, is_cancelled)


@pytest.mark.parametrize("algorithm", ["narrowing", "slots"])
async def test_other_algorithms_agree_too(five: Five, algorithm: str) -> None:
    thread = await five.meet("bala", "esha", title=algorithm, algorithm=algorithm)
    assert thread.state == owner_pb2.THREAD_STATE_COMMITTED


async def test_nobody_is_asked_twice_or_asks_themselves(five: Five) -> None:
    for others in (("bala",), ("bala", "bala"), ("anu", "bala")):
        with pytest.raises(IndaiError) as caught:
            await five.meet(*others)
        assert caught.value.reason is Reason.INVALID_ARGUMENT


async def test_the_audit_of_all_three_nodes_follows_every_question_vote_and_decision(
    five: Five, tmp_path: Path
) -> None:
    agreed = await five.meet(*NAMES[1:], title="Audited")
    await five.threads(*NAMES)
    paths = []
    for name in ("anu", "chitra", "esha"):
        paths.append(tmp_path / f"{name}.jsonl")
        with paths[-1].open("wb") as file:
            async for part in five.nodes[name].operator().ExportNode(owner_pb2.ExportNodeRequest()):
                file.write(part.lines)
    registry = await five.world.mirror(tmp_path / "registry.jsonl")
    report = audit(paths, registry, five.world.policy.policy)
    assert not report.findings  # nor in the threads of this module that came to nothing
    verdicts = {one.mid: one.verdict for one in report.commitments}
    assert verdicts[agreed.commitment_mid] is Verdict.VALID
    assert {*verdicts.values()} == {Verdict.VALID}
    assert report.counts.decisions >= 5

"""An owner's own programs: the examples of the SDK against real nodes, as their readers run them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from indai.client.agent import Agent
from indai.client.because import acting_on
from indai.client.outcomes import Outcome, Question, State
from indai.protocol.errors import InvalidInput, NotFound
from indai.protocol.kinds.book import BookWish
from indai.v1 import asking_pb2, intents_pb2, sharing_pb2, tools_pb2
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub
from indai.v1.tools_pb2_grpc import ToolServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.test_loops import hops
from tests.service.node.trade import BUYERS
from tests.service.node.world import Node, Owner, now_ms

EXAMPLES = Path(__file__).parents[3] / "clients" / "examples"
WEEK = timedelta(days=9)
ASKS = "version: 1\ntimezone: UTC\nrules:\n  - ask: [meet, book]\n    with: anyone\n"


def home(base: Path, node: Node, *owners: Owner) -> Path:
    """What `indai up` and `indai handle claim` leave in a data directory."""
    (base / "tokens").mkdir(parents=True)
    (base / "run.json").write_text(json.dumps({"roles": {"owner": node.info.addresses["owner"]}}))
    for owner in owners:
        (base / "tokens" / f"{owner.handle.replace('/', '_')}.token").write_text(owner.token)
    return base


@contextlib.asynccontextmanager
async def example(name: str, data: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = os.environ | {"INDAI_DATA": str(data), "PYTHONPATH": os.pathsep.join(sys.path)}
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / name),
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.terminate()
        await running.communicate()


async def test_a_stranger_meets_somebody_in_thirty_lines(pair: Pair, tmp_path: Path) -> None:
    lines = (EXAMPLES / "meet.py").read_text().splitlines()
    assert len(lines) <= 30
    data = home(tmp_path / "a", pair.a, pair.alice)
    async with example("meet.py", data, "ind.ai/alice", "ind.ai/bob") as running:
        said, _ = await running.communicate()
    assert said.startswith(b"Agreed with ind.ai/bob: "), said


async def test_a_bot_approves_what_the_policy_leaves_to_its_owner(pair: Pair, tmp_path: Path) -> None:
    data = home(tmp_path / "b", pair.b, pair.bob)
    async with (
        example("approve.py", data, "ind.ai/bob") as bot,
        Agent.connect(pair.a.info.addresses["owner"], pair.alice.token) as alice,
    ):
        outcome = await alice.meet("ind.ai/bob", minutes=45, within=WEEK, about="Plans")
        assert outcome.agreed, outcome
        assert outcome.start is not None
        assert outcome.end == outcome.start + timedelta(minutes=45)
        assert bot.stdout is not None
        assert await bot.stdout.readline() == b"Meet ind.ai/alice for 45 min\n"


async def test_a_whole_agent_asks_and_is_asked_in_thirty_lines(pair: Pair, tmp_path: Path) -> None:
    assert len((EXAMPLES / "stranger.py").read_text().splitlines()) <= 30
    zoe = await pair.a.agent("ind.ai/zoe-asks", ASKS)
    open_to_all = await pair.b.agent("ind.ai/open-to-all", ASKS.replace("ask:", "allow:"))
    data = home(tmp_path / "w", pair.a, zoe)
    async with (
        example("stranger.py", data, zoe.handle, open_to_all.handle) as running,
        Agent.connect(pair.b.info.addresses["owner"], open_to_all.token) as bob,
    ):
        assert running.stdout is not None
        said = await running.stdout.readline()
        assert said.startswith(b"COMMITTED "), said
        assert (await bob.meet(zoe.handle, minutes=30, within=WEEK, about="And you?")).agreed
        too_long = await bob.meet(zoe.handle, minutes=90, within=WEEK, about="All day")
        assert too_long.state is State.REJECTED


async def test_a_shop_sells_by_its_own_word(pair: Pair, tmp_path: Path) -> None:
    shop = await pair.b.agent("ind.ai/lampshop", ASKS)
    buyer = await pair.a.agent("ind.ai/lampbuyer", BUYERS)
    async with (
        example("shop.py", home(tmp_path / "s", pair.b, shop), shop.handle) as running,
        Agent.connect(pair.a.info.addresses["owner"], buyer.token) as me,
    ):
        async with Agent.connect(pair.b.info.addresses["owner"], shop.token) as watching:
            outcomes: list[Outcome] = []
            while len(outcomes) < 3:
                wish = BookWish("lamp", "A reading lamp", 1)
                outcome = await me.propose(shop.handle, wish)
                if outcome.reason != "NOT_AVAILABLE":  # the shop has opened
                    outcomes.append(outcome)
            assert [each.state for each in outcomes] == [State.COMMITTED, State.COMMITTED, State.REJECTED]
            assert sum(each.agreed for each in await watching.threads()) == 2
        assert running.returncode is None


async def test_what_is_left_to_the_owner_waits_for_the_owner(pair: Pair) -> None:
    lister = await pair.a.agent("ind.ai/lister", ASKS)
    asker = await pair.b.agent("ind.ai/asker", ASKS.replace("ask:", "allow:"))
    async with (
        Agent.connect(pair.a.info.addresses["owner"], lister.token) as me,
        Agent.connect(pair.b.info.addresses["owner"], asker.token) as them,
    ):
        left: list[Question] = []
        shown = asyncio.Event()

        @me.on("*")
        def leave(question: Question) -> None:
            left.append(question)
            shown.set()

        asked = asyncio.create_task(them.meet(lister.handle, minutes=30, within=WEEK))
        serving = asyncio.create_task(me.serve())
        async with asyncio.timeout(60):
            await shown.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        (question,) = await me.questions()
        assert (question.peer, question.kind, question.duration_minutes) == (asker.handle, "meet", 30)
        assert (await me.answer(question, approve=False)).state is State.REJECTED
        assert (await asked).state is State.REJECTED
        assert len(left) == 1


async def test_what_is_wrong_says_what_to_do(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="indai up"):
        async with Agent.local("ind.ai/alice", tmp_path):
            pass
    with pytest.raises(NotFound, match="indai handle claim"):
        async with Agent.local("ind.ai/zoe", home(tmp_path / "z", pair.a)):
            pass
    async with Agent.connect(pair.a.info.addresses["owner"], pair.alice.token) as alice:
        naive = datetime(2027, 1, 1)  # noqa: DTZ001 -- that is the point
        with pytest.raises(InvalidInput, match="zone"):
            await alice.meet("ind.ai/bob", minutes=30, within=(naive, naive))
        with pytest.raises(InvalidInput, match="no kind"):
            alice.on("dance")


@pytest.mark.rule("HDR-07")
async def test_whatever_a_handler_begins_is_passed_on_from_what_it_decides(pair: Pair) -> None:
    starts = "  - {allow: [ask, share], with: anyone, started_by: me}\n"
    middle = await pair.a.agent("ind.ai/middle", ASKS + starts)
    first = await pair.b.agent("ind.ai/first", ASKS.replace("ask:", "allow:"))
    last = await pair.b.agent("ind.ai/last", ASKS.replace("ask:", "allow:"))
    async with (
        Agent.connect(pair.a.info.addresses["owner"], middle.token) as me,
        Agent.connect(pair.b.info.addresses["owner"], first.token) as them,
    ):
        begun: list[Outcome] = []
        asked: list[str] = []

        @me.on("meet")
        async def pass_on(question: Question) -> bool:
            if not begun:  # what is agreed here takes the slot that was asked about: it is asked about anew
                begun.append(await me.meet(last.handle, minutes=30, within=WEEK))
                asked.extend(await begun_by_other_services(me, last.handle))
            return begun[0].agreed

        serving = asyncio.create_task(me.serve())
        assert (await them.meet(middle.handle, minutes=30, within=WEEK)).agreed
        serving.cancel()
        (outcome,) = begun
        for thread in (outcome.thread, *asked):
            assert await hops(middle, thread) == 1
        with acting_on("ab"), pytest.raises(InvalidInput, match="digits"):
            await me.meet(last.handle, minutes=30, within=WEEK)


async def begun_by_other_services(me: Agent, peer: str) -> list[str]:
    """A question, a share and a tool's meeting, begun by the node's other services; their threads."""
    ask = asking_pb2.AskQuestionRequest(request_id=str(uuid.uuid4()), peer=peer, question="Open?")
    asked = (await AskingServiceStub(me.channel).AskQuestion(ask)).thread
    consent = intents_pb2.Consent(
        purpose_code="101",
        purpose_text="To write",
        mode=intents_pb2.CONSENT_MODE_STORE,
        fetch=intents_pb2.FETCH_TYPE_ONETIME,
        data_life_unit=intents_pb2.SPAN_UNIT_DAY,
        data_life_value=1,
        from_ms=now_ms(),
        to_ms=now_ms() + 86_400_000,
    )
    share = sharing_pb2.AskForShareRequest(
        request_id=str(uuid.uuid4()), peer=peer, field="email", consent=consent
    )
    shared = (await SharingServiceStub(me.channel).AskForShare(share)).thread
    wish = json.dumps({"with": peer, "duration_minutes": 30, "when": "within 7 days"})
    call = tools_pb2.CallToolRequest(request_id=str(uuid.uuid4()), tool="meet", arguments_json=wish)
    met = await ToolServiceStub(me.channel).CallTool(call, timeout=60)
    return [asked.thread_id, shared.thread_id, met.thread_id]

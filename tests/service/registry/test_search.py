"""Search by capability and language: only who asked to be found is, and what is found must be resolved."""

from __future__ import annotations

from typing import Any

import pytest
from indai.client.handlekeys import advertise, retire, set_intents
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.handlestate import Advertisement, HandleState, state_from_proto
from indai.protocol.operations import replay
from indai.v1 import registry_pb2

from .conftest import key

OPEN = Advertisement((1,), ("en", "hi"), ("a2a",), listed=True)


class Chains(dict[str, list[Any]]):
    """What was submitted of each handle."""

    def __init__(self, rig: Any) -> None:
        self.rig = rig

    async def submit(self, handle: str, operation: Any) -> None:
        self.rig.clock.now += 1_000
        self.setdefault(handle, []).append(operation)
        await self.rig.submit(operation)

    async def show(self, handle: str, advertisement: Advertisement | None = OPEN, *intents: str) -> None:
        if handle not in self:
            await self.submit(handle, self.rig.claim(handle))
        chain = replay(self[handle])
        if intents:
            await self.submit(
                handle, set_intents(chain, key("root"), intents, now_ms=self.rig.clock() + 1_000)
            )
        chain = replay(self[handle])
        made = advertise(chain, key("root"), advertisement, now_ms=self.rig.clock() + 1_000)
        await self.submit(handle, made)

    async def found(self, **asked: Any) -> list[str]:
        names: list[str] = []
        while True:
            page = await self.rig.stub.SearchHandles(registry_pb2.SearchHandlesRequest(**asked))
            names += [listing.handle for listing in page.listings]
            if not page.next_page_token:
                return names
            asked["page_token"] = page.next_page_token


@pytest.fixture
def chains(rig: Any) -> Chains:
    return Chains(rig)


async def test_who_asked_to_be_found_is_found_by_capability_and_language(chains: Chains) -> None:
    await chains.show("ind.ai/alice", OPEN, "meet", "ask")
    await chains.show("ind.ai/bob", Advertisement((1,), ("hi",), listed=True), "meet")
    await chains.show("ind.ai/carol", Advertisement((1,), ("en",)), "meet")  # advertises, and is not listed
    await chains.submit("ind.ai/dave", chains.rig.claim("ind.ai/dave", intents=["meet"]))
    assert await chains.found(intent="meet") == ["ind.ai/alice", "ind.ai/bob"]
    assert await chains.found(intent="meet", page_size=1) == ["ind.ai/alice", "ind.ai/bob"]
    assert await chains.found(intent="meet", language="en") == ["ind.ai/alice"]
    assert await chains.found(intent="pay") == []
    known = await chains.rig.resolver().resolve("ind.ai/alice")
    assert known.state.advertisement == OPEN


async def test_who_takes_it_back_or_retires_is_found_no_more(chains: Chains) -> None:
    for handle in ("ind.ai/alice", "ind.ai/bob"):
        await chains.show(handle, OPEN, "meet")
    await chains.show("ind.ai/alice", None)
    ended = retire(replay(chains["ind.ai/bob"]), key("root"), now_ms=chains.rig.clock() + 1_000)
    await chains.submit("ind.ai/bob", ended)
    assert await chains.found() == []


@pytest.mark.rule("REG-42")
@pytest.mark.parametrize(
    ("handle", "advertisement"),
    [
        ("ind.ai/alice/work", OPEN),
        ("ind.ai/alice", Advertisement(())),
        ("ind.ai/alice", Advertisement((2, 1))),
        ("ind.ai/alice", Advertisement((1, 1))),
        ("ind.ai/alice", Advertisement((0,))),
    ],
)
def test_a_sub_agent_advertises_nothing_and_an_advertisement_has_one_form(
    handle: str, advertisement: Advertisement
) -> None:
    state = HandleState((key("root").public_key,), node="ind.ai/home", advertisement=advertisement)
    with pytest.raises(ProtocolError) as refused:
        state_from_proto(state.to_proto(), handle)
    assert (refused.value.reason, refused.value.rule) == (Reason.INVALID_OPERATION, "REG-42")

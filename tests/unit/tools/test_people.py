"""Who is meant by a name: nobody is guessed, and a stranger's handle is nobody's name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from indai.node.tools_role import _latin
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.tools.people import People
from indai.tools.values import Caller
from indai.v1 import owner_pb2

ME = Caller("personal", "b", "ind.ai/alice", "s", "ind.ai/alice", "private", "web")
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED


def desk(*threads: tuple[str, bool, Any]) -> Any:
    """An owner whose threads are these: peer, begun by the owner, state."""
    found = [owner_pb2.Thread(peer=peer, outgoing=own, state=state) for peer, own, state in threads]

    async def listed(_: Any) -> Any:
        return owner_pb2.ListThreadsResponse(threads=found)

    return SimpleNamespace(owner=SimpleNamespace(ListThreads=listed))


def people(*there: str) -> People:
    async def resolve(handle: str) -> object:
        if handle not in there:
            raise NotFound(Reason.NOT_FOUND, "no")
        return handle

    return People(resolve, _latin)


@pytest.mark.parametrize(
    ("said", "handle"),
    [
        ("bob", "ind.ai/bob"),
        ("Bob ji", "ind.ai/bob"),
        ("@bob", "ind.ai/bob"),
        ("ind.ai/bob", "ind.ai/bob"),
        ("राहुल", "ind.ai/rahul"),
        ("राहुल जी", "ind.ai/rahul"),
        ("Asha Rao", "acme.com/asha-rao"),
    ],
)
async def test_a_name_is_found(said: str, handle: str) -> None:
    known = desk(("acme.com/asha-rao", True, 1))
    assert await people("ind.ai/bob", "ind.ai/rahul").one(ME, known, said) == handle


@pytest.mark.parametrize(
    ("said", "threads", "code"),
    [
        ("zed", [], "UNKNOWN_PERSON"),
        ("ind.ai/zed", [], "UNKNOWN_PERSON"),
        ("alice", [], "UNKNOWN_PERSON"),
        ("!!!", [], "UNKNOWN_PERSON"),
        ("bob", [("acme.com/bob", True, 1)], "AMBIGUOUS_PERSON"),
        ("asha", [("ind.ai/asha-rao", True, 1)], "AMBIGUOUS_PERSON"),
        # A stranger who wrote to the owner, and with whom nothing was agreed.
        ("carol", [("evil.com/carol", False, 1)], "UNKNOWN_PERSON"),
    ],
)
async def test_nobody_is_guessed(said: str, threads: list[tuple[str, bool, int]], code: str) -> None:
    with pytest.raises(InvalidInput) as asked:
        await people("ind.ai/bob", "ind.ai/alice").one(ME, desk(*threads), said)
    assert asked.value.metadata["code"] == code


async def test_somebody_with_whom_something_was_agreed_is_known() -> None:
    known = desk(("acme.com/carol", False, COMMITTED))
    assert await people().one(ME, known, "carol") == "acme.com/carol"


async def test_several_are_named_at_once() -> None:
    who = people("ind.ai/bob", "ind.ai/dev")
    assert await who.all(ME, desk(), "bob, dev and bob") == ("ind.ai/bob", "ind.ai/dev")
    assert await who.all(ME, desk(), "bob aur dev") == ("ind.ai/bob", "ind.ai/dev")

"""The tools over the desk: their schemas hold for what they take and give, and each is for whom it is."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from indai.dpi.razorpay import read
from indai.dpi.tools import tools_of
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.tools.schemas import check_spec, misfit, validator, without_secrets
from indai.tools.values import Caller, Effect, Prepares, Touch, unheard

from tests.service.dpi.aggregatorserver import API_KEY, OUR_PEM, AggregatorServer, aggregator_config
from tests.service.dpi.conftest import NOW, OWNER, MakeRoom, Room, digilocker_config, serving
from tests.service.dpi.healthserver import ADDRESS, HealthServer, health_config
from tests.service.dpi.healthserver import SECRET as ABDM_SECRET
from tests.service.dpi.lockerserver import MARKS, SECRET, LockerServer
from tests.service.dpi.test_digilocker import shown
from tests.service.node.provider import KEY, Provider, running_provider

ASHA = Caller("personal", "b", OWNER, "s1", OWNER, "private", "web", verified=True, now_ms=NOW, turn="t1")
RAVI = replace(ASHA, person="wa:ravi", door="distribution")


@dataclass
class Box:
    """Runs tools as the toolbox does, checking both schemas."""

    room: Room
    locker: LockerServer
    bank: AggregatorServer
    mission: HealthServer
    provider: Provider

    def __post_init__(self) -> None:
        self.tools = {
            tool.spec.name: tool for tool in tools_of(self.room.desk, price, lambda minor, _: str(minor))
        }

    async def __call__(self, name: str, caller: Caller = ASHA, **arguments: Any) -> dict[str, Any]:
        tool = self.tools[name]
        assert misfit(validator(tool.spec.arguments), arguments) == ""
        result = dict(await tool.run(caller, arguments, unheard))
        assert misfit(validator(tool.spec.result), result) == ""
        return result


def price(owner: str, item: str, quantity: int) -> tuple[int, str, str]:
    if (owner, item) != (OWNER, "lamp"):
        raise NotFound(Reason.NOT_FOUND, "That is not in stock.")
    return 99_900 * quantity, "INR", "Brass lamp"


@pytest.fixture
async def box(make_room: MakeRoom, locker: LockerServer) -> AsyncIterator[Box]:
    bank, mission = AggregatorServer(), HealthServer()
    async with contextlib.AsyncExitStack() as stack:
        bank.url = await stack.enter_async_context(serving(bank.routes()))
        mission.url = await stack.enter_async_context(serving(mission.routes()))
        provider = await stack.enter_async_context(running_provider())
        parts = (digilocker_config(locker.url), aggregator_config(bank.url), health_config(mission.url))
        config = "version: 1\n" + "".join(part.removeprefix("version: 1\n") for part in parts)
        secret = {"locker": SECRET, "aa-key": API_KEY, "aa-sign": OUR_PEM, "abdm": ABDM_SECRET}
        made = make_room(config, **secret, razorpay=f"{provider.url} {KEY}")
        yield Box(await stack.enter_async_context(made), locker, bank, mission, provider)


async def refused(work: Any) -> Reason:
    with pytest.raises(IndaiError) as raised:
        await work
    return raised.value.reason


async def test_a_stranger_s_locker_is_connected_listed_and_pulled_in_a_conversation(box: Box) -> None:
    begun = await box("digilocker-connect", RAVI, purpose="To prepare a notice")
    _, page = await box.room.get(box.locker.consent(begun["url"]))
    assert (await box("digilocker-connect", RAVI, code=shown(page)))["account"] == "Asha"
    listed = await box("digilocker-list", RAVI)
    assert [each["only_reference"] for each in listed["documents"]] == [False, True]
    pulled = await box("digilocker-pull", RAVI, reference=MARKS)
    assert (await box.room.get(pulled["link"]))[0] == 200
    # The owner whom they talk to has no part in it.
    assert await refused(box("digilocker-list")) is Reason.UNAUTHENTICATED
    kept = without_secrets(box.tools["digilocker-pull"].spec.result, pulled)
    assert pulled["link"] not in str(kept)


async def test_accounts_are_read_in_a_conversation(box: Box) -> None:
    asked = await box(
        "aa-consent", customer="asha@testaa", purpose_code="105", purpose="To check a loan", months=2
    )
    again = await box(
        "aa-consent", customer="asha@testaa", purpose_code="105", purpose="To check a loan", months=2
    )
    assert again["consent"] == asked["consent"]
    (handle,) = box.bank.consents  # repeated in the same turn, it was asked for once
    box.bank.approve(handle)
    stands = await box("aa-consent", consent=asked["consent"])
    assert (stands["status"], stands["purpose"]) == ("ACTIVE", "To check a loan")
    found = await box("aa-fetch", consent=asked["consent"], from_day="2026-09-01")
    (account,) = found["accounts"]
    assert (account["balance"], account["transactions"][0]["amount"]) == (1_234_567, 49_950)
    assert "1234567" not in str(without_secrets(box.tools["aa-fetch"].spec.result, found))
    assert await refused(box("aa-fetch", consent=asked["consent"])) is Reason.PERMISSION_DENIED


async def test_a_patient_is_looked_up_in_a_conversation(box: Box) -> None:
    asked = await box("abdm-lookup", address=ADDRESS, purpose="To register a visit")
    sent = box.mission.code
    again = await box("abdm-lookup", address=ADDRESS, purpose="To register a visit")
    assert (again["consent"], box.mission.code) == (asked["consent"], sent)
    found = await box("abdm-lookup", consent=asked["consent"], code=box.mission.code)
    assert found["patient"]["name"] == "Asha K"
    spec = box.tools["abdm-lookup"].spec
    assert "Asha" not in str(without_secrets(spec.result, found))
    given = {"address": ADDRESS, "code": "123456"}
    assert ADDRESS not in str(without_secrets(spec.arguments, given))
    assert "123456" not in str(without_secrets(spec.arguments, given))
    patient = spec.result["properties"]["patient"]["properties"]
    assert all(about["x-health"] for about in patient.values())


async def test_a_stranger_pays_the_price_of_the_stock_whatever_the_model_says(box: Box) -> None:
    public = replace(RAVI, door="public", verified=False, person="")
    link = await box("create-payment-link", public, item="lamp", quantity=2, amount=1)
    assert (link["amount"], link["purpose"]) == (199_800, "2 x Brass lamp")
    with pytest.raises(InvalidInput):
        await box("create-payment-link", public, amount=1, currency="INR", purpose="A lamp")
    with pytest.raises(NotFound):
        await box("payment-link", RAVI, item="moon")
    own = await box("payment-link", amount=500, purpose="A fee")
    assert (own["amount"], own["status"]) == (500, "open")
    assert (await box("payment-status", public, reference=own["reference"]))["status"] == "open"


async def test_the_owner_reads_the_exact_parts_before_a_split(box: Box) -> None:
    link = await box("payment-link", amount=1_001, purpose="A fee")
    (page,) = box.provider.links.values()
    said = read(box.provider.word(page["id"], "payment_link.paid", id="pay_B2"))
    assert said is not None
    await box.room.desk.links.take(OWNER, said)
    tool = box.tools["split-payment"]
    assert isinstance(tool, Prepares)
    wanted = {
        "reference": link["reference"],
        "shares": [{"account": "acc_Weaver001", "weight": 1}],
        "keep": 1,
    }
    act = await tool.prepare(ASHA, wanted)
    assert act.terms == "Split 1001, paid for 'A fee':\n  acc_Weaver001: 501\n  you: 500"
    done = await box("split-payment", **wanted)
    assert (done["parts"], done["kept"]) == ([{"account": "acc_Weaver001", "amount": 501}], 500)


async def test_each_tool_is_for_whom_it_should_be(box: Box) -> None:
    stranger = replace(RAVI, door="public", verified=False)
    for name, tool in box.tools.items():
        check_spec(tool.spec)
        if "public" not in tool.spec.doors:
            arguments: dict[str, Any] = {}
            for caller in (stranger, replace(RAVI, verified=False), replace(ASHA, owner="")):
                assert await refused(tool.run(caller, arguments, unheard)) is Reason.PERMISSION_DENIED, name
    assert box.tools["split-payment"].spec.effect is Effect.IRREVERSIBLE
    assert box.tools["split-payment"].spec.doors == {"private"}
    private = {name for name, tool in box.tools.items() if Touch.PRIVATE in tool.spec.touches}
    assert private == {
        "digilocker-connect",
        "digilocker-list",
        "digilocker-pull",
        "aa-consent",
        "aa-fetch",
        "abdm-lookup",
    }


async def test_no_tool_takes_an_aadhaar_number(box: Box) -> None:
    for name in ("digilocker-connect", "abdm-lookup", "payment-link", "aa-consent"):
        work = box.tools[name].run(ASHA, {"purpose": "My aadhaar is 2999 2849 6545"}, unheard)
        assert await refused(work) is Reason.POLICY_DENIED

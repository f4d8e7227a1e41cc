"""An agent's card is drawn from its own record, and compared with the one that the registry shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from indai.client.handlekeys import claim, new_agent_key, set_intents
from indai.protocol.envelope import Envelope
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.handlestate import Advertisement, HandleState
from indai.protocol.hello import LAG_MS, Card, agree, card_of, check_record, record_digest
from indai.protocol.keys import SigningKey
from indai.protocol.operations import Chain, replay

NOW = 1_790_000_000_000
ROOT, AGENT = SigningKey.from_seed(bytes(32)), SigningKey.from_seed(b"a" * 32)
PROGRAM = Card((1, 2), ("meet", "pay"), ("receipts",), ("receipts",))


def state(**changes: object) -> HandleState:
    return replace(HandleState((ROOT.public_key,), node="ind.ai/node", intents=("meet",)), **changes)  # type: ignore[arg-type]


def chain(*intents: str, apart_ms: int = 1000) -> Chain:
    """A chain that starts with no intents, and then has each of these."""
    operations: list[Envelope] = [
        claim(
            "ind.ai/alice",
            "ind.ai/registry",
            [ROOT],
            now_ms=NOW,
            agent_keys=[new_agent_key(AGENT.public_key, NOW)],
            node="ind.ai/node",
        )
    ]
    times = [NOW]
    for intent in intents:
        operations.append(set_intents(replay(operations, times), ROOT, [intent], now_ms=times[-1] + 1))
        times.append(times[-1] + apart_ms)
    return replay(operations, times)


def reason(card: Card, current: Chain, now_ms: int) -> Reason:
    with pytest.raises(IndaiError) as caught:
        check_record(card, current, now_ms)
    return caught.value.reason


@pytest.mark.rule("HEL-05")
def test_a_card_offers_what_the_record_advertises_as_far_as_the_program_has_it() -> None:
    said = Advertisement((2, 3), ("hi", "en"), ("a2a",), 4096, True)
    card = card_of(state(advertisement=said, intents=("book", "pay")), PROGRAM)
    assert (card.versions, card.intents, card.languages, card.envelope_bytes) == (
        (2,),
        ("pay",),
        ("en", "hi"),
        4096,
    )
    # What the program requires stays required, whatever the record says.
    assert (card.features, card.required) == (PROGRAM.features, PROGRAM.required)
    with pytest.raises(IndaiError, match="receipts"):
        agree(card, Card((2,), ("pay",)))
    with pytest.raises(IndaiError, match="version"):
        card_of(state(advertisement=Advertisement((9,))), PROGRAM)


@pytest.mark.rule("HEL-05")
@pytest.mark.parametrize(
    "said",
    [
        Advertisement((1, 2), ("en",), (), 0, False),
        Advertisement((1,), ("en", "hi"), (), 0, False),
        Advertisement((1,), ("en",), ("a2a",), 0, False),
        Advertisement((1,), ("en",), (), 1000, False),
        Advertisement((1,), ("en",), (), 0, True),
        None,
    ],
)
def test_whatever_the_record_says_of_its_agent_is_in_the_digest(said: Advertisement | None) -> None:
    first = state(advertisement=Advertisement((1,), ("en",), (), 0, False))
    other = replace(first, advertisement=said)
    assert record_digest(first) != record_digest(other)
    assert card_of(first, PROGRAM).digest != card_of(other, PROGRAM).digest
    assert record_digest(first) != record_digest(replace(first, intents=("pay",)))
    assert record_digest(first) == record_digest(replace(first, node="ind.ai/other"))


@pytest.mark.rule("HEL-05")
def test_the_card_of_an_older_record_is_a_rollback_once_its_agent_can_have_heard() -> None:
    known = chain("meet", "pay")
    newest, older = card_of(known.state, PROGRAM), card_of(chain("meet").state, PROGRAM)
    published = known.history[-1].time_ms
    check_record(newest, known, published)
    assert reason(older, known, published + LAG_MS) is Reason.STALE_HEAD
    assert reason(older, known, published + LAG_MS + 1) is Reason.ROLLBACK_DETECTED
    # The card of the record before that one had its time before.
    oldest = card_of(chain().state, PROGRAM)
    assert reason(oldest, known, known.history[1].time_ms + LAG_MS + 1) is Reason.ROLLBACK_DETECTED


@pytest.mark.rule("HEL-05")
def test_a_card_that_no_record_has_is_a_rollback_at_once() -> None:
    known = chain("meet")
    invented = replace(card_of(known.state, PROGRAM), record=bytes(32))
    assert reason(invented, known, known.history[-1].time_ms) is Reason.ROLLBACK_DETECTED

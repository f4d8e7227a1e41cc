"""What must hold of two simulated hosts after every commit, and when the network has come to rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indai.protocol.lifecycle import History
from indai.protocol.messages import Move
from indai.protocol.negotiation import OfferState, Status, apply, open_thread, transcript
from indai.protocol.party_state import Phase, Side

from tests.simulate import moves
from tests.simulate.store import Violation

if TYPE_CHECKING:
    from tests.simulate.host import Host
    from tests.simulate.world import World


def check_always(world: World, host: Host) -> None:
    """After every commit. Of a liar's own books nothing is expected, and nothing taken from them."""
    if world.malice and host.subject == "B":
        return
    moves.check_slots(host.store)
    moves.check_successors(host.store)
    if len(set(host.store.ledger)) != len(host.store.ledger):
        raise Violation("a commitment stands twice in one ledger")
    for thread, side in host.store.sides.items():
        _check_side(world, host, thread, side)


def _check_side(world: World, host: Host, thread: bytes, side: Side) -> None:
    if side.life is not None and thread in host.store.freed and not _is_over(side.life):
        raise Violation("what stands is free")
    if side.life is not None and thread not in host.store.freed:
        left_out = {at_ms for of, at_ms in host.store.omitted if of == thread}
        if left_out != side.life.omitted or set(side.life.deed.times_ms) <= left_out != set():
            raise Violation("what is held is not what the life of the meeting says")
    told = any(words.endswith("is confirmed.") for told, words in host.store.told if told == thread)
    receipt = side.thread is not None and side.thread.status is Status.COMMITTED
    if not (told == receipt == (side.phase is Phase.COMMITTED) == (thread in host.store.booked)):
        raise Violation("confirmed without a RECEIPT, or the reverse")
    if side.phase is Phase.COMMITTED and side.offer is None and not world.malice:
        offerer = world.hosts[host.peer].store.sides.get(thread)
        if offerer is None or offerer.offer is not OfferState.COMMITTED:
            raise Violation("the acceptor holds a commitment that its offerer does not know")


def _is_over(life: History) -> bool:
    """Its slot is free: also where the first party has not said yet that something has taken its place."""
    return life.state.ended or bool(life.successors)


def check_end(world: World) -> None:
    """When everything has been delivered that will be."""
    if world.malice:
        _check_honest(world)
        return
    for message in tuple(world.signed.values()):
        if message.move is Move.RECEIPT and any(
            other.move is Move.REJECT and other.in_reply_to == message.in_reply_to
            for other in world.signed.values()
            if other.sender == message.sender
        ):
            raise Violation("one offerer signed both RECEIPT and REJECT for one commitment")
    ours, theirs = world.hosts["A"], world.hosts["B"]
    if ours.store.reserved or theirs.store.reserved:
        raise Violation("a reservation outlives its thread")
    if ours.store.booked != theirs.store.booked or set(ours.store.ledger) != set(theirs.store.ledger):
        raise Violation("the two sides hold different commitments")
    if ours.store.freed != theirs.store.freed:
        raise Violation("a meeting is cancelled on one side only")
    if ours.store.omitted != theirs.store.omitted:
        raise Violation("one time of a meeting is called off on one side only")
    for host in world.hosts.values():
        if any(not side.phase.ended for side in host.store.sides.values()):
            raise Violation("a thread never ends")
        moves.check_end(host.store)
        for thread, side in host.store.sides.items():
            _check_transcript(world, host, thread, side)
            _check_life(world, host, thread, side)


def _check_honest(world: World) -> None:
    """What the side that keeps the rules is left with: nothing but an end, or a doubt that its owner sees."""
    store = world.hosts["A"].store
    for thread, side in store.sides.items():
        if not side.phase.ended and side.phase is not Phase.IN_DOUBT:
            raise Violation(f"the honest side's thread is {side.phase.value} for ever")
        if (side.phase is Phase.IN_DOUBT) != (thread in store.reserved):
            raise Violation("a reservation outlives its thread, or a doubt does not keep its own")
        doubted = any(
            words.startswith("The other side has not confirmed") for t, words in store.told if t == thread
        )
        if side.phase is Phase.IN_DOUBT and not doubted:
            raise Violation("an owner was not told that a thread is in doubt")


def _check_life(world: World, host: Host, thread: bytes, side: Side) -> None:
    peer = world.hosts[host.peer].store.sides.get(thread)
    if side.life is None or peer is None or peer.life is None:
        return
    ours, theirs = side.life, peer.life
    if (ours.chain, ours.state, ours.disputed) != (theirs.chain, theirs.state, theirs.disputed):
        raise Violation("the two sides tell two lives of one commitment")


def _check_transcript(world: World, host: Host, thread: bytes, side: Side) -> None:
    if side.thread is None:
        return
    peer = world.hosts[host.peer].store.sides.get(thread)
    known = {m.identity for m in peer.thread.messages} if peer and peer.thread else set()
    missing = [m for m in side.thread.messages if m.identity not in known]
    if any(m.mid not in host.dead for m in missing) or (missing and side.phase is Phase.COMMITTED):
        raise Violation("a message is in one transcript only")
    ordered = transcript(side.thread)
    same = peer is not None and known == {m.identity for m in ordered}
    if same and peer and peer.thread and ordered != transcript(peer.thread):
        raise Violation("one set of messages, two transcripts")
    replayed = open_thread(ordered[0])
    for message in ordered[1:]:
        replayed = apply(replayed, message, message.issued_at_ms)
    if (replayed.status is Status.COMMITTED) != (side.phase is Phase.COMMITTED):
        raise Violation("the transcript replays to another outcome")

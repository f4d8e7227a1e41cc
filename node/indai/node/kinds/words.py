"""Wishes and terms in words, for owners: rendered from what is signed, a peer's own text quoted."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from indai.node.kinds.money import spoken
from indai.protocol import queries
from indai.protocol.ballots import BallotAnswer, BallotQuery, CallQuery
from indai.protocol.bodies import RejectBody
from indai.protocol.kinds.ask import AskTerms, AskWish, RequestTerms, RequestWish
from indai.protocol.kinds.base import Terms, Wish
from indai.protocol.kinds.book import BookTerms, BookWish
from indai.protocol.kinds.meet import MeetTerms, MeetWish
from indai.protocol.kinds.pay import Direction, PayTerms, PayWish
from indai.protocol.kinds.share import Consent, ShareTerms, ShareWish
from indai.protocol.quoting import quoted


def when(start_ms: int, end_ms: int, zone: ZoneInfo) -> str:
    """`Tue 24 Nov 2026, 10:00 to 10:30 (Asia/Kolkata)`; the second day is named when it differs."""
    start, end = (datetime.fromtimestamp(ms / 1000, zone) for ms in (start_ms, end_ms))
    until = f"{end:%H:%M}" if start.date() == end.date() else f"{end:%a %-d %b, %H:%M}"
    return f"{start:%a %-d %b %Y, %H:%M} to {until} ({zone.key})"


def moment(at_ms: int, zone: ZoneInfo) -> str:
    """`Tue 24 Nov 2026, 10:00`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, zone):%a %-d %b %Y, %H:%M}"


def amount(amount_minor: int, currency: str) -> str:
    """`₹500.00`, exact."""
    return spoken(amount_minor, currency) if amount_minor else "free of charge"


def shown(peer: str, terms: Terms, zone: ZoneInfo, *, gives: bool) -> str:
    """The terms as they are shown to an owner who must decide; `gives`: the owner is the first party."""
    match terms:
        case MeetTerms():
            lines = _meeting(peer, terms, zone)
        case ShareTerms():
            lines = _shared(peer, terms, zone, gives=gives)
        case AskTerms():
            head = f"Answer {peer}" if gives else f"An answer of {peer}"
            lines = [head, f"  asked {quoted(terms.question)}", f"  answer {quoted(terms.answer)}"]
            lines += [f"  from {quoted(source.title)} {quoted(source.uri)}" for source in terms.sources]
            lines.append(f"  confidence {terms.confidence_percent} %")
        case RequestTerms():
            head = f"Do for {peer}" if gives else f"{peer} will do"
            lines = [head, f"  {quoted(terms.subject)}", f"  {quoted(terms.text)}"]
            lines.append(f"  {quoted(terms.category)}, department {quoted(terms.department)}")
            lines.append(f"  number {quoted(terms.reference)}, due {moment(terms.due_ms, zone)}")
        case PayTerms():
            head = f"Pay {peer}" if gives else f"Be paid by {peer}"
            lines = [f"{head} {amount(terms.amount_minor, terms.currency)}"]
            lines.append(f"  to {quoted(terms.payee)}")
            lines.append(f"  for {quoted(terms.purpose)}, due {moment(terms.due_ms, zone)}")
            if terms.mandate:
                lines.append(f"  under the mandate {quoted(terms.mandate)}")
        case BookTerms():
            lines = _booking(peer, terms, zone, gives=gives)
        case _:
            raise TypeError(f"no words for {type(terms).__name__}")
    return "\n".join(lines + _alone(terms, zone))


def line(said: Wish | Terms, zone: ZoneInfo) -> str:
    """One line of a transcript."""
    match said:
        case MeetWish():
            first = said.windows[0]
            count = f"{len(said.windows)} windows, first " if len(said.windows) > 1 else ""
            about = f"{said.duration_minutes} min, {quoted(said.title)}"
            if said.repeats:
                about += f", {said.repeats.count} times, every {said.repeats.every_days} days"
            return f"{about}: {count}{when(first.start_ms, first.end_ms, zone)}"
        case MeetTerms():
            again = f" and {len(said.again_ms)} times more" if said.again_ms else ""
            return f"{when(said.start_ms, said.end_ms, zone)}{again}, {quoted(said.title)}"
        case ShareWish() | ShareTerms():
            return f"{quoted(said.about())} for {quoted(said.consent.purpose_text)}"
        case AskTerms():
            return f"{quoted(said.question)}: {quoted(said.answer)}"
        case RequestTerms():
            return f"{quoted(said.subject)}, number {quoted(said.reference)}, due {moment(said.due_ms, zone)}"
        case PayWish() | PayTerms():
            wants = isinstance(said, PayWish) and said.direction is Direction.REQUEST
            verb = "wants to be paid" if wants else "pays"
            return f"{verb} {amount(said.amount_minor, said.currency)} for {quoted(said.purpose)}"
        case BookTerms():
            slot = f", {when(said.start_ms, said.end_ms, zone)}" if said.end_ms else ""
            price = amount(said.price_minor, said.currency)
            return f"{said.quantity} of {quoted(said.title)}{slot}, {price}"
        case BookWish():
            return f"{said.quantity} of {quoted(said.title)}"
        case AskWish() | RequestWish():
            return quoted(said.about())
        case _:
            return said.kind


def reminder(peer: str, terms: Terms, zone: ZoneInfo, begins_ms: int) -> str:
    """What begins then, or is due."""
    start_ms, end_ms = span(terms)
    if start_ms is not None and end_ms is not None:
        at = when(begins_ms, begins_ms + end_ms - start_ms, zone)
    else:
        at = f"due {moment(terms.life().due_ms, zone)}"
    return f"{terms.about()} with {peer}: {at}"


def span(said: Wish | Terms | None) -> tuple[int | None, int | None]:
    """(start_ms, end_ms) of terms with a time of their own, (None, due_ms) of others; None for no time."""
    if isinstance(said, MeetTerms) or (isinstance(said, BookTerms) and said.end_ms):
        return said.start_ms, said.end_ms
    if isinstance(said, Terms):
        return None, said.life().due_ms or None
    return None, None


def _meeting(peer: str, terms: MeetTerms, zone: ZoneInfo) -> list[str]:
    minutes = (terms.end_ms - terms.start_ms) // 60_000
    lines = [
        f"Meet {peer} for {minutes} min",
        f"  {when(terms.start_ms, terms.end_ms, zone)}",
        f"  about {quoted(terms.title)}",
    ]
    if terms.again_ms:
        last = terms.times[-1]
        lines[2:2] = [
            f"  and {len(terms.again_ms)} times more",
            f"  the last {when(last.start_ms, last.end_ms, zone)}",
        ]
    if terms.place:
        lines.append(f"  at {quoted(terms.place)}")
    return lines


def _shared(peer: str, terms: ShareTerms, zone: ZoneInfo, *, gives: bool) -> list[str]:
    head = f"Share with {peer}" if gives else f"Be given by {peer}"
    what = f"the field {quoted(terms.field)}" if terms.field else f"the document {quoted(terms.document)}"
    consent = terms.consent
    return [
        f"{head} {what}",
        f"  {terms.size_bytes} bytes of {quoted(terms.media_type)}",
        f"  for {quoted(consent.purpose_text)} (code {quoted(consent.purpose_code)})",
        f"  to {consent.mode.value.lower()}, {_reads(consent)}",
        f"  from {moment(consent.from_ms, zone)} until {moment(consent.to_ms, zone)}",
        f"  kept {_kept(consent)} after reading",
    ]


def _reads(consent: Consent) -> str:
    if consent.frequency_unit is None:
        return "once"
    return f"up to {consent.frequency_value} times in a {consent.frequency_unit.value.lower()}"


def _kept(consent: Consent) -> str:
    if not consent.data_life_value:
        return "for ever"
    return f"{consent.data_life_value} {consent.data_life_unit.value.lower()}(s)"


def _booking(peer: str, terms: BookTerms, zone: ZoneInfo, *, gives: bool) -> list[str]:
    head = f"Provide for {peer}" if gives else f"Book at {peer}"
    lines = [f"{head} {terms.quantity} of {quoted(terms.title)} ({quoted(terms.item)})"]
    if terms.end_ms:
        lines.append(f"  {when(terms.start_ms, terms.end_ms, zone)}")
    lines.append(f"  {amount(terms.price_minor, terms.currency)}")
    if terms.fee_minor:
        free = f" after {moment(terms.free_until_ms, zone)}" if terms.free_until_ms else ""
        lines.append(f"  cancelling{free} costs {amount(terms.fee_minor, terms.currency)}")
    return lines


def _alone(terms: Terms, zone: ZoneInfo) -> list[str]:
    """What the terms say of cancelling and of the due time beyond what they say by themselves."""
    lines: list[str] = []
    if isinstance(terms, MeetTerms | PayTerms | BookTerms) and terms.cancel_until_ms:
        until = moment(terms.cancel_until_ms, zone)
        lines.append(f"  cancelled by one side alone only until {until}")
    if isinstance(terms, MeetTerms | BookTerms) and terms.due_ms:
        lines.append(f"  due {moment(terms.due_ms, zone)}")
    return lines


def asked(about: queries.About) -> str:
    """What a query asks, counted: its times stand in the signed bytes."""
    match about:
        case CallQuery(wish, _):
            return f"asks for times within {len(wish.windows)} windows"
        case BallotQuery() as ballot:
            return f"asks how well {len(ballot.slots)} times suit"
        case _:
            return "asks"


def told(said: queries.Told) -> str:
    """What an answer says, counted."""
    match said:
        case queries.WindowsAnswer(windows):
            return f"names {len(windows)} windows"
        case BallotAnswer(ordinals):
            return "says " + ", ".join(word.name.lower() for word in ordinals)
        case RejectBody(reason, sentence):
            return f"{reason}: {quoted(sentence)}" if sentence else reason
        case _:
            return "answers"

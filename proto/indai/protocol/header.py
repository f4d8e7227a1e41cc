"""The header every travelling payload starts with, and its checks.

The order of checks of a received message, cheap ones first (each line assumes those above it):

1. size, strict form and payload type                           envelope.parse_envelope, envelope.kind_of
2. the signer's key, at the receiver's newest verified head     the registry's client
3. the signature                                                envelope.verify_signature
4. the header's form, its network, its audience                 check_form, check_network, check_audience
5. replay: a known message always gets its stored outcome again, however late
6. time                                                         check_time
7. the thread's rules, then policy

Replay comes before time so that a retry after an outage still learns its outcome. There is no maximum age:
retries are byte-identical, so their `issued_at_ms` is that of the first attempt.
"""

from __future__ import annotations

from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.handles import Handle
from indai.protocol.note import Verifier
from indai.protocol.quoting import quoted
from indai.v1.envelope_pb2 import Header

MAX_SKEW_MS = 120_000
"""How far ahead of the receiver's clock a message may be issued."""
GRACE_MS = 120_000
"""How long after its expiry a message first seen still has effect: the other side of the same skew."""
ID_BYTES = 16
NONCE_BYTES = 16
MID_BYTES = 32
MAX_HOPS = 2
"""How many agents may have passed on what led to a thread: nothing runs round a ring of them."""
RANDOM_BYTES = 10
"""What `new_id` needs."""
MAX_TIME_MS = 1 << 48
"""The largest time a UUIDv7 holds; also keeps sums of times within 64 bits."""


def new_id(now_ms: int, random: bytes) -> bytes:
    """A UUIDv7 (RFC 9562 section 5.7) of 16 bytes, from the time in ms and 10 random bytes."""
    if not 0 <= now_ms < MAX_TIME_MS or len(random) != RANDOM_BYTES:
        message = f"An id needs a time since 1970 and {RANDOM_BYTES} random bytes."
        raise InvalidInput(Reason.INVALID_ARGUMENT, message)
    head = bytes((0x70 | random[0] & 0x0F, random[1], 0x80 | random[2] & 0x3F))
    return now_ms.to_bytes(6, "big") + head + random[3:]


def id_time_ms(identifier: bytes) -> int:
    """The time in a UUIDv7, in ms; raises ProtocolError(MALFORMED) for any other 16 bytes."""
    if not _is_uuid7(identifier):
        raise _malformed("an id is not a UUIDv7 of 16 bytes")
    return int.from_bytes(identifier[:6], "big")


def network_id(log: Verifier) -> str:
    """The name of a network: the origin of its registry's log, `+`, and the key hash in hex."""
    return f"{log.name}+{log.key_hash.hex()}"


def check_form(header: Header) -> None:
    """Every field has its length and its canonical form, and what begins a thread was passed on by at most
    `MAX_HOPS` agents; raises ProtocolError: MALFORMED, or TOO_MANY_HOPS."""
    if not _is_uuid7(header.id) or not _is_uuid7(header.thread):
        raise _malformed("id and thread are UUIDv7s of 16 bytes")
    if len(header.nonce) != NONCE_BYTES:
        raise _malformed(f"the nonce has {NONCE_BYTES} bytes")
    if len(header.in_reply_to) not in (0, MID_BYTES):
        raise _malformed(f"in_reply_to is empty or has {MID_BYTES} bytes")
    if len(header.registry_root) != (32 if header.registry_size else 0):
        raise _malformed("registry_root has 32 bytes where registry_size is given, else none")
    if not 0 < header.issued_at_ms < header.expires_at_ms < MAX_TIME_MS:
        raise _malformed("issued_at_ms is after 1970 and before expires_at_ms")
    if not (header.network and header.key_id and header.sender_subject and header.recipient_subject):
        raise _malformed("network, key_id and both subjects are required")
    _check_canonical("sender", header.sender)
    _check_canonical("recipient", header.recipient)
    if header.hops and header.in_reply_to:
        raise _malformed("only the first message of a thread counts hops")
    check_hops(header.hops)


def check_hops(hops: int) -> None:
    """What was passed on so often may be passed on once more; raises ProtocolError(TOO_MANY_HOPS)."""
    if hops > MAX_HOPS:
        message = f"{hops} agents have passed this on; {MAX_HOPS} may."
        hint = "let the owner ask for it"
        raise ProtocolError(Reason.TOO_MANY_HOPS, message, rule="HDR-07", hint=hint)


def check_network(network: str, own: str) -> None:
    """The message is of this network; raises ProtocolError(WRONG_NETWORK)."""
    if network != own:
        message = f"The message is for network {quoted(network)}; this one is {quoted(own)}."
        raise ProtocolError(Reason.WRONG_NETWORK, message, rule="HDR-02")


def check_audience(recipient: str, recipient_subject: str, own_handle: str, own_subject: str) -> None:
    """The message is for this subject under its present handle; raises ProtocolError(WRONG_AUDIENCE)."""
    if recipient != own_handle or recipient_subject != own_subject:
        message = (
            f"The message is for {quoted(recipient)} ({quoted(recipient_subject)}), not for {own_handle}."
        )
        raise ProtocolError(Reason.WRONG_AUDIENCE, message, rule="HDR-03")


def check_time(issued_at_ms: int, expires_at_ms: int, now_ms: int) -> None:
    """The message is neither from the future nor past expiry and grace; raises FROM_FUTURE or EXPIRED."""
    if issued_at_ms > now_ms + MAX_SKEW_MS:
        ahead = (issued_at_ms - now_ms) // 1000
        message = (
            f"The message was issued {ahead} s ahead of this clock; {MAX_SKEW_MS // 1000} s are allowed."
        )
        hint = "check both machines' clocks"
        raise ProtocolError(Reason.FROM_FUTURE, message, rule="HDR-04", hint=hint)
    if now_ms > expires_at_ms + GRACE_MS:
        late = (now_ms - expires_at_ms) // 1000
        message = f"The message expired {late} s ago; {GRACE_MS // 1000} s of grace are allowed."
        raise ProtocolError(Reason.EXPIRED, message, rule="HDR-05", hint="send a new one")


def _is_uuid7(identifier: bytes) -> bool:
    return len(identifier) == ID_BYTES and identifier[6] >> 4 == 7 and identifier[8] >> 6 == 2


def _check_canonical(field: str, text: str) -> None:
    try:
        canonical = str(Handle.parse(text)) == text
    except InvalidInput as error:
        raise _malformed(f"{field}: {error.message.rstrip('.')}") from None
    if not canonical:
        raise _malformed(f"{field} {quoted(text)} is not in lower case")


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, f"The header is malformed: {why}.", rule="HDR-01")

"""The rules of the protocol as data: code raises with an id, and tests cite it (checked both ways)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its id, what it says, and the section of the protocol's design it comes from."""

    id: str
    text: str
    section: str


_ENVELOPE = "The signed envelope"
_HEADER = "The signed envelope: header"
_HANDLES = "Handles and the registry"
_LOGS = "Logs"
_MESSAGE = "Negotiation: messages"
_THREAD = "Negotiation: threads"
_PARTY = "Negotiation: parties"
_HELLO = "Handles and the registry: handshake"
_LIFE = "Events of a commitment"
_GROUP = "Negotiation: meetings of several"
_KINDS = "Negotiation: terms by kind"
_QUERY = "Negotiation: queries"

_RULES = (
    Rule("HND-01", "A handle is authority/name, authority/name/sub, or a domain name of its own.", _HANDLES),
    Rule("HND-02", "A name is 3 to 30 of a-z, 0-9 and single inner hyphens.", _HANDLES),
    Rule(
        "HND-03",
        "A handle is ASCII even before it is lower-cased: no confusables.",
        _HANDLES,
    ),
    Rule("HND-04", "Reserved names cannot be claimed.", _HANDLES),
    Rule(
        "REG-01",
        "An operation is one canonical handle, type, time, nonce, registry and state, in at most 8 KiB.",
        _HANDLES,
    ),
    Rule(
        "REG-02",
        "A chain starts with CREATE; every other operation follows exactly the one before it.",
        _HANDLES,
    ),
    Rule(
        "REG-03",
        "An operation is signed once, by a rotation key of the state before it (CREATE: its own).",
        _HANDLES,
    ),
    Rule(
        "REG-04",
        "A handle has 1 to 5 rotation keys and up to 10 agent keys in use, each listed once under its id.",
        _HANDLES,
    ),
    Rule(
        "REG-05",
        "An agent key never leaves the list or changes, except that it is revoked, once, at that time.",
        _HANDLES,
    ),
    Rule("REG-06", "A REVOKE revokes an agent key, and no other operation but RECOVER does.", _HANDLES),
    Rule(
        "REG-07",
        "A TOMBSTONE or TRANSFER carries no state, and only a RECOVER or a new chain follows.",
        _HANDLES,
    ),
    Rule("REG-08", "A handle is a node with a well-formed record, or has a home node, never both.", _HANDLES),
    Rule(
        "REG-09",
        "An agent key signs while it is listed, valid, unrevoked, and within its scopes and limits.",
        _HANDLES,
    ),
    Rule(
        "REG-10",
        "A map proof is minimal and leads from the handle's value, or from its absence, to the root.",
        _HANDLES,
    ),
    Rule(
        "REG-11",
        "A registry leaf is version 1, kind 2 or 5, time, map root, and an operation or a next log key.",
        _HANDLES,
    ),
    Rule(
        "REG-12",
        "A head is believed only if it extends the one kept; two that contradict each other are evidence.",
        _HANDLES,
    ),
    Rule(
        "REG-13",
        "A head's time is its cosigners': not from the future, and no older than the use allows.",
        _HANDLES,
    ),
    Rule(
        "REG-14",
        "A look-up's chain, last leaf and map agree under one head; entries lead from head to head.",
        _HANDLES,
    ),
    Rule(
        "REG-15",
        "An operation names its registry, a claimable handle of that authority, and no future time.",
        _HANDLES,
    ),
    Rule("REG-16", "A sub-handle is claimed with a rotation key of its parent.", _HANDLES),
    Rule(
        "REG-30",
        "A RECOVER nullifies the operations after the one it follows, by a rotation key of strictly higher"
        " authority than the one that signed the first of them.",
        _HANDLES,
    ),
    Rule(
        "REG-31",
        "A RECOVER's leaf is at most 72 hours later than the leaf of the first operation it nullifies.",
        _HANDLES,
    ),
    Rule(
        "REG-32",
        "A key that nullified operations brought in, or were signed with, is never listed again.",
        _HANDLES,
    ),
    Rule(
        "REG-33",
        "A TRANSFER names its successor's key, whose CREATE names it, once nobody can nullify the end.",
        _HANDLES,
    ),
    Rule("REG-34", "A name that ended is not re-issued to another subject for 12 months.", _HANDLES),
    Rule("REG-35", "A DELEGATE changes the delegations, and no other operation but RECOVER does.", _HANDLES),
    Rule(
        "REG-36",
        "A delegation is to one subject of a sub-handle: kinds, budgets, an end, and at most 2 levels more.",
        _HANDLES,
    ),
    Rule(
        "REG-37",
        "A sub-agent may do what every delegation above it permits, at most 3 of them, and no more.",
        _HANDLES,
    ),
    Rule(
        "REG-38",
        "Leaf times of a handle never go back, and no operation is issued over 120 s after its leaf.",
        _HANDLES,
    ),
    Rule("REG-39", "An owner's rules say nothing of who took over a handle after they were set.", _HANDLES),
    Rule(
        "REG-40",
        "A name is claimed as the registry's policy says: by all, the invited, or the verified.",
        _HANDLES,
    ),
    Rule(
        "REG-41", "A branded handle's domain names its subject, when it is claimed and ever after.", _HANDLES
    ),
    Rule(
        "REG-42",
        "An advertisement names its versions; a node or a sub-agent has none, and is never listed.",
        _HANDLES,
    ),
    Rule(
        "REG-43",
        "A log's next key is announced in a leaf of the log, signed by the key so far and by the next.",
        _HANDLES,
    ),
    Rule(
        "REG-44",
        "An announced key counts when a head of the key so far, under the quorum, covers it: its last head.",
        _HANDLES,
    ),
    Rule("ENV-01", "An envelope or payload over 64 KiB is refused before it is read.", _ENVELOPE),
    Rule("ENV-02", "Bytes a lenient parser could read in two ways are refused.", _ENVELOPE),
    Rule("ENV-03", "The payload type is one this version knows.", _ENVELOPE),
    Rule(
        "ENV-04",
        "A signature is over the PAE and verifies by libsodium's rule.",
        _ENVELOPE,
    ),
    Rule("ENV-05", "The message id is SHA-256 of the PAE: signatures do not change it.", _ENVELOPE),
    Rule(
        "ENV-06",
        "The bytes received are kept; a signed payload is never serialised again.",
        _ENVELOPE,
    ),
    Rule("HDR-01", "Every field of a header has its length and canonical form.", _HEADER),
    Rule("HDR-02", "A message names the network of its receiver.", _HEADER),
    Rule("HDR-03", "A message names its receiver's handle and subject.", _HEADER),
    Rule("HDR-04", "A message issued more than 120 s ahead of the receiver's clock is refused.", _HEADER),
    Rule(
        "HDR-05",
        "A message first seen more than 120 s after its expiry is refused.",
        _HEADER,
    ),
    Rule(
        "HDR-06",
        "A known message gets its stored outcome again and has no second effect; its id with other bytes, and"
        " a repetition by anybody but its sender's node, are refused.",
        _HEADER,
    ),
    Rule(
        "HDR-07", "At most 2 agents have passed on what led to a thread, as its first message says.", _HEADER
    ),
    Rule("LOG-01", "An inclusion proof leads from the leaf to the root of the stated size.", _LOGS),
    Rule("LOG-02", "A consistency proof joins two non-empty sizes; from size 0 there is none.", _LOGS),
    Rule("LOG-03", "A note has one reading, and every signature by a known key on it verifies.", _LOGS),
    Rule("LOG-04", "A checkpoint is signed by its log under the log's origin.", _LOGS),
    Rule("LOG-05", "A receipt holds its index, path and checkpoint, and nothing else.", _LOGS),
    Rule("LOG-06", "A checkpoint is believed only when its cosignatures reach the policy's quorum.", _LOGS),
    Rule("LOG-07", "A ledger leaf has 42 bytes and opens only to the envelope it was made for.", _LOGS),
    Rule("LOG-08", "A tile holds 1 to 256 hashes or entries, all of them.", _LOGS),
    Rule(
        "WIT-01",
        "A submission to a witness is an old size, at most 63 hashes and a checkpoint, in its one form.",
        _LOGS,
    ),
    Rule(
        "WIT-02",
        "A witness cosigns what a log it knows has signed and proved to extend the last head it cosigned.",
        _LOGS,
    ),
    Rule("WIT-03", "A witness keeps a head durably before it answers, and never goes back.", _LOGS),
    Rule(
        "FRD-01",
        "Two histories are proved only by two heads that the log itself signed and that exclude each other.",
        _LOGS,
    ),
    Rule(
        "FRD-02",
        "What a peer says of a head is hearsay: a reason to ask it for the signed note, and no proof.",
        _LOGS,
    ),
    Rule(
        "FRD-03",
        "Two keys prove fraud together only if each announced the next, or the node's records name both.",
        _LOGS,
    ),
    Rule("HEL-01", "A HELLO has a generation from 1 on and a card in its one form, with its digest.", _HELLO),
    Rule(
        "HEL-02",
        "A generation below the one pinned, or another card under it, is a rollback; the pin stays.",
        _HELLO,
    ),
    Rule("HEL-05", "A card is drawn from its agent's newest record, and names it by digest.", _HELLO),
    Rule("HEL-03", "Two agents speak the highest version that both name; with none they don't deal.", _HELLO),
    Rule("HEL-04", "What one side requires and the other lacks ends the matter, and is named.", _HELLO),
    Rule(
        "NEG-01",
        "A message says exactly one thing; a commitment has one signature or all, anything else one.",
        _MESSAGE,
    ),
    Rule(
        "NEG-02",
        "Text is bounded and holds no control characters; a refusal's reason is a name in capitals.",
        _MESSAGE,
    ),
    Rule(
        "NEG-03",
        "A wish has 1 to 1440 minutes and 1 to 32 windows, each long enough for it, and repeats 2 to 52 times"
        " or not at all.",
        _MESSAGE,
    ),
    Rule(
        "NEG-04",
        "Terms have a slot of at most 1440 minutes that ends after it begins, or at most 52 of them, one"
        " after the other; an offer's UID holds its thread's id.",
        _MESSAGE,
    ),
    Rule("NEG-05", "A message expires after it is issued; an offer within 24 hours.", _MESSAGE),
    Rule(
        "NEG-06",
        "A message is between two different subjects; the offerer is the first of a commitment's parties.",
        _MESSAGE,
    ),
    Rule("NEG-07", "A HOLD has a deadline, at most 7 days after it is issued.", _MESSAGE),
    Rule(
        "NEG-08",
        "A meeting's commitment may have 3 to 20 parties; each signs it beside the offerer, or all together.",
        _MESSAGE,
    ),
    Rule("NEG-10", "The first move is the initiator's: a PROPOSE, or an OFFER.", _THREAD),
    Rule("NEG-11", "Every message of a thread is between its two parties.", _THREAD),
    Rule("NEG-12", "Only the last recipient may answer.", _THREAD),
    Rule(
        "NEG-13",
        "An answer names the wish, offer or acceptance that stands; what has not arrived is waited for.",
        _THREAD,
    ),
    Rule(
        "NEG-14",
        "A COUNTER or a new OFFER replaces what it answers in full; an acceptance is not countered.",
        _THREAD,
    ),
    Rule(
        "NEG-15", "An OFFER that answers a wish lies within one of its windows and has its length.", _THREAD
    ),
    Rule(
        "NEG-16",
        "An ACCEPT answers the standing, unexpired OFFER under the same mid and has no terms of its own.",
        _THREAD,
    ),
    Rule("NEG-17", "A RECEIPT is the offerer's answer to an ACCEPT and names its commitment.", _THREAD),
    Rule("NEG-18", "A HOLD keeps the turn; there is one for each turn.", _THREAD),
    Rule("NEG-19", "A REJECT comes from who must answer; after an acceptance its reason is LAPSED.", _THREAD),
    Rule("NEG-20", "A party withdraws once, and only its own newest proposal, offer or acceptance.", _THREAD),
    Rule("NEG-21", "What has ended stays ended.", _THREAD),
    Rule("NEG-22", "A retransmission has no effect.", _THREAD),
    Rule(
        "NEG-23", "A thread has at most 8 moves: up to 7 PROPOSE, COUNTER and OFFER, and the ACCEPT.", _THREAD
    ),
    Rule("NEG-24", "Three moves in a row that bring nothing new end the thread in an impasse.", _THREAD),
    Rule("NEG-25", "What crossed a WITHDRAW is recorded on both sides and has no effect.", _THREAD),
    Rule("NEG-26", "The offerer alone decides, once, by its own clock: COMMITTED or LAPSED.", _THREAD),
    Rule(
        "NEG-27", "Who gives (data, an answer, work, money, stock) makes the OFFER, and no one else.", _THREAD
    ),
    Rule(
        "NEG-28", "All wishes and offers of a thread name the same commitment to supersede, or none.", _THREAD
    ),
    Rule("NEG-29", "A thread is about one kind of intent from its first message on.", _THREAD),
    Rule(
        "NEG-30",
        "A slot is reserved in the step that signs for it and released in the step that ends it.",
        _PARTY,
    ),
    Rule(
        "NEG-31",
        "The acceptor keeps its reservation until RECEIPT, REJECT or the offerer's WITHDRAW.",
        _PARTY,
    ),
    Rule(
        "NEG-32",
        "An owner hears that a meeting is confirmed only when the RECEIPT is signed or held.",
        _PARTY,
    ),
    Rule("NEG-33", "An owner's silence is a no at the deadline.", _PARTY),
    Rule(
        "NEG-34", "What an owner approved is exactly what is signed; anything else is a new question.", _PARTY
    ),
    Rule(
        "NEG-35", "An acceptor without an answer past expiry and grace is in doubt, and may withdraw.", _PARTY
    ),
    Rule(
        "NEG-36",
        "Both sides append a COMMIT leaf: the offerer when it decides, the acceptor at the RECEIPT.",
        _PARTY,
    ),
    Rule(
        "NEG-37",
        "An owner may put something else in the place of what they are asked: it goes out on the same thread,"
        " and what comes within it needs no second asking.",
        _PARTY,
    ),
    Rule("SHR-01", "What is shared is one field or document, for a purpose, a time and a key.", _KINDS),
    Rule("SHR-02", "Shared terms bind type, size and hash of the content, and never hold it.", _KINDS),
    Rule("ASK-01", "An answer is of the question that was asked, with sources and a confidence.", _KINDS),
    Rule("ASK-02", "A request is filed as it was asked, with department, number and due time.", _KINDS),
    Rule("PAY-01", "A payment has an amount in minor units, a currency, an address and a due time.", _KINDS),
    Rule("PAY-02", "The first party pays the second exactly what was asked for.", _KINDS),
    Rule("PAY-03", "The transfer's reference is made of the commitment's id.", _KINDS),
    Rule(
        "BOK-01",
        "A booking is of 1 to 10000 units, for a time or until due; a fee is within the price.",
        _KINDS,
    ),
    Rule(
        "BOK-02", "A booking is of the item and number asked for, in a window, for at most the price.", _KINDS
    ),
    Rule("QRY-01", "A query asks one thing, and an answer says one, each within its limits.", _QUERY),
    Rule("QRY-02", "A query and its answer stand beside all threads and change nothing.", _QUERY),
    Rule("QRY-03", "An answer is to the query that it names.", _QUERY),
    Rule(
        "LIF-01", "An event says one thing in its one form; a request has no number and grants none.", _LIFE
    ),
    Rule("LIF-02", "An event is of a commitment that stands, from one of its parties to another.", _LIFE),
    Rule(
        "LIF-03",
        "The first party numbers the events: each is one more than, and names, the one before it.",
        _LIFE,
    ),
    Rule(
        "LIF-04",
        "Another party sends requests, which change nothing, or a DISPUTE beside the last event it knows.",
        _LIFE,
    ),
    Rule("LIF-05", "What has ended stays ended: only a DISPUTE can follow.", _LIFE),
    Rule("LIF-06", "A FULFIL is one party's word, and not before its time has come.", _LIFE),
    Rule("LIF-07", "A CANCEL is one party's word as long as the terms allow, else that of all.", _LIFE),
    Rule("LIF-08", "A SUPERSEDE names a commitment of the same parties that names this one.", _LIFE),
    Rule(
        "LIF-09",
        "OVERDUE and EXPIRE are the first party's alone, once each, and not before their time.",
        _LIFE,
    ),
    Rule("LIF-10", "A DISPUTE is one party's word, once each, and changes no state.", _LIFE),
    Rule(
        "LIF-11",
        "What is pending is resolved once: POST of at most that amount, VOID, or EXPIRE.",
        _LIFE,
    ),
    Rule(
        "LIF-12",
        "A request is granted once, by an event of its own kind, at most one of each other party.",
        _LIFE,
    ),
    Rule("LIF-13", "An event that comes again has no effect.", _LIFE),
    Rule(
        "LIF-14", "A party has at most 8 requests for one commitment, and one for each of its times.", _LIFE
    ),
    Rule("LIF-15", "A POST is the payee's word: its own event, or one that grants its request.", _LIFE),
    Rule("LIF-17", "An OMIT leaves out one time that stands, as a CANCEL would, and never the last.", _LIFE),
    Rule("LIF-16", "A commitment is superseded by one of its kind, between its own parties.", _LIFE),
    Rule(
        "GRP-01",
        "An offer to several begins a thread of the offerer with each other party, who signs or refuses it.",
        _GROUP,
    ),
    Rule(
        "GRP-02",
        "A meeting of several stands when all have signed, and the coordinator alone decides.",
        _GROUP,
    ),
    Rule("GRP-03", "The RECEIPT of a commitment of several carries it with every signature.", _GROUP),
    Rule(
        "GRP-04", "What keeps one member from signing releases all, and the owner hears who or what.", _GROUP
    ),
    Rule(
        "GRP-05", "Slots are ranked by what members said, and ties broken by a hash nobody chooses.", _GROUP
    ),
    Rule("GRP-06", "What is disclosed to whom in a meeting of several is counted and kept.", _GROUP),
    Rule("LIF-20", "The first party grants at once what the terms let the other do alone.", _LIFE),
    Rule("LIF-21", "A request that the first party leaves unanswered becomes a DISPUTE.", _LIFE),
    Rule("LIF-22", "Each event is a leaf in both ledgers, and a cancelled meeting frees its slot.", _LIFE),
    Rule(
        "LIF-23",
        "Owners are reminded once at each moment that was fixed at the deed; a day past due it is OVERDUE.",
        _LIFE,
    ),
    Rule(
        "LIF-24",
        "What takes another's place is recorded in the transaction that gives the other's slot back.",
        _LIFE,
    ),
    Rule(
        "LIF-25",
        "A commitment, or one time of it, is superseded once: nobody signs for a second while their signature"
        " for one is open, or once one stands.",
        _LIFE,
    ),
    Rule(
        "LIF-26",
        "Where two have offered to supersede the same, a hash that neither chooses says whose offer stays, on"
        " every side alike, and the other is withdrawn.",
        _LIFE,
    ),
    Rule(
        "LIF-27",
        "Of several, whose signature for one is open lets any other wait that is not ahead, until that one is"
        " decided.",
        _LIFE,
    ),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _RULES}

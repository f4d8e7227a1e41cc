"""Passkeys against an authenticator in software: what it signs is taken once, from the right place alone."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from indai.node.code_delivery import CodeDelivery
from indai.protocol.errors import IndaiError, Reason
from indai.runtime.conversations.outbound import Outbound
from indai.web.accounts import Accounts
from indai.web.passkeys import CHALLENGE_LIFE_MS, Passkeys
from indai.web.sessions import Session, Sessions
from indai.web.site import Place

from tests.conftest import Database

HERE, ELSEWHERE = Place("https://node.example", True), Place("https://other.example", True)
USER_PRESENT, USER_VERIFIED, NEW_KEY = 0x01, 0x04, 0x40


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Authenticator:
    """A device with one key."""

    origin: str = HERE.url
    flags: int = USER_PRESENT | USER_VERIFIED
    count: int = 0
    id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def make(self, options: str) -> str:
        """As `navigator.credentials.create` answers, without attestation."""
        point = self.key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        made = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cbor2.dumps(public)
        data = self._data(self.flags | NEW_KEY) + made
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options)
        return self._answer({"attestationObject": _b64(attestation), "clientDataJSON": _b64(client)})

    def sign(self, options: str) -> str:
        """As `navigator.credentials.get` answers."""
        self.count += 1
        data, client = self._data(self.flags), self._client("webauthn.get", options)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        parts = {"authenticatorData": data, "clientDataJSON": client, "signature": signature}
        return self._answer({name: _b64(part) for name, part in parts.items()} | {"userHandle": None})

    def _data(self, flags: int) -> bytes:
        host = self.origin.removeprefix("https://").encode()
        return hashlib.sha256(host).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, kind: str, options: str) -> bytes:
        challenge = json.loads(options)["challenge"]
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _answer(self, response: dict[str, Any]) -> str:
        return json.dumps(
            {"id": _b64(self.id), "rawId": _b64(self.id), "type": "public-key", "response": response}
        )


@dataclass
class Room:
    passkeys: Passkeys
    accounts: Accounts
    session: Session
    device: Authenticator
    now: list[int]

    async def refused(self, visitor: str, place: Place, answer: str) -> None:
        with pytest.raises(IndaiError) as caught:
            await self.passkeys.account_of(visitor, place, answer)
        assert caught.value.reason is Reason.UNAUTHENTICATED


@pytest.fixture
async def room(database: Database) -> Room:
    """bob, signed in, with one passkey."""
    now = [1_790_000_000_000]
    accounts = Accounts(database.pool, lambda: now[0])
    sessions = Sessions(database.pool, lambda: now[0])
    token = await sessions.begin(await accounts.of_owner("ind.ai/bob"), "code", "a test")
    session = await sessions.find_token(token)
    assert session is not None
    passkeys = Passkeys(database.pool, accounts, bytes(32), lambda: now[0])
    device = Authenticator()
    await passkeys.add(session, HERE, device.make(await passkeys.offer(session, HERE)), "Phone")
    return Room(passkeys, accounts, session, device, now)


async def test_a_passkey_signs_its_owner_in_once_for_each_challenge(room: Room) -> None:
    answer = room.device.sign(room.passkeys.ask("visitor", HERE))
    assert (await room.passkeys.account_of("visitor", HERE, answer)).name == "ind.ai/bob"
    await room.refused("visitor", HERE, answer)
    again = room.device.sign(room.passkeys.ask("visitor", HERE))
    assert (await room.passkeys.account_of("visitor", HERE, again)).name == "ind.ai/bob"


async def test_what_was_signed_for_another_visitor_place_or_time_signs_nobody_in(room: Room) -> None:
    await room.refused("visitor", HERE, room.device.sign(room.passkeys.ask("another", HERE)))
    await room.refused("visitor", ELSEWHERE, room.device.sign(room.passkeys.ask("visitor", ELSEWHERE)))
    late = room.device.sign(room.passkeys.ask("visitor", HERE))
    room.now[0] += CHALLENGE_LIFE_MS + 1
    await room.refused("visitor", HERE, late)
    offered = await room.passkeys.offer(
        room.session, HERE
    )  # a challenge for adding one is none for signing in
    await room.refused("visitor", HERE, room.device.sign(offered))


async def test_a_copy_an_unlocked_device_and_another_key_sign_nobody_in(room: Room) -> None:
    copy = Authenticator(id=room.device.id, key=room.device.key)
    first = room.device.sign(room.passkeys.ask("visitor", HERE))
    await room.passkeys.account_of("visitor", HERE, first)
    await room.refused("visitor", HERE, copy.sign(room.passkeys.ask("visitor", HERE)))
    room.device.flags = USER_PRESENT
    await room.refused("visitor", HERE, room.device.sign(room.passkeys.ask("visitor", HERE)))
    forged = Authenticator(id=room.device.id, count=9)
    await room.refused("visitor", HERE, forged.sign(room.passkeys.ask("visitor", HERE)))
    for rubbish in ("", "[]", "{}", '{"rawId": 1}', '{"rawId": "%%"}', "[" * 10_000):
        await room.refused("visitor", HERE, rubbish)


async def test_a_passkey_is_added_by_the_session_that_asked_and_once(room: Room) -> None:
    offer = await room.passkeys.offer(room.session, HERE)
    made = Authenticator().make(offer)
    stranger = Session(**{name: getattr(room.session, name) for name in room.session.__slots__} | {"id": "x"})
    for session, answer in ((stranger, made), (room.session, room.device.make(offer))):
        with pytest.raises(IndaiError):
            await room.passkeys.add(session, HERE, answer, "x")
    assert len(await room.passkeys.listed("ind.ai/bob", room.session.account)) == 1


async def test_a_passkey_that_was_removed_or_whose_account_was_revoked_signs_nobody_in(room: Room) -> None:
    (kept,) = await room.passkeys.listed("ind.ai/bob", room.session.account)
    with pytest.raises(IndaiError):
        await room.passkeys.remove("ind.ai/alice", room.session.account, kept.digest)
    await room.passkeys.remove("ind.ai/bob", room.session.account, kept.digest)
    await room.refused("visitor", HERE, room.device.sign(room.passkeys.ask("visitor", HERE)))


async def test_a_code_goes_to_the_owners_own_messenger_and_nowhere_else(database: Database) -> None:
    delivery = CodeDelivery(database.pool, Outbound(database.pool, lambda: 1_790_000_000_000))
    assert not await delivery.reaches("ind.ai/bob")
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', 'ind.ai/bob', true)")
        made = "(gen_random_uuid(), 'ind.ai/bob', 'personal', $1, 'ind.ai/bob', $2, $3, $3, $4, $3)"
        person = await connection.fetchval("SELECT gen_random_uuid()")
        await connection.execute("SELECT set_config('indai.people', $1, true)", str(person))
        await connection.execute("INSERT INTO runtime.users (id) VALUES ($1)", person)
        columns = "id, owner, tenant, binding, handle, door, person, scope_person, channel, segment"
        for binding, door, channel in (("a", "public", "whatsapp"), ("b", "private", "web")):
            await connection.execute(
                f"INSERT INTO runtime.sessions ({columns}) VALUES {made}",  # noqa: S608 - ours
                *(binding, door, person, channel),
            )
        await connection.execute("SET CONSTRAINTS ALL DEFERRED")
    assert not await delivery.reaches("ind.ai/bob")  # a visitor's session and a browser are no messenger
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', 'ind.ai/bob', true)")
        await connection.execute("UPDATE runtime.sessions SET channel = 'telegram' WHERE door = 'private'")
    assert await delivery.reaches("ind.ai/bob")
    assert not await delivery.reaches("ind.ai/alice")
    await delivery.deliver("ind.ai/bob", "Your code", 1_790_000_000_000)
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', 'ind.ai/bob', true)")
        rows = await connection.fetch("SELECT channel FROM runtime.outbound")
        said = await connection.fetchval("SELECT count(*) FROM runtime.messages")
    assert [row["channel"] for row in rows] == ["telegram"]
    assert said == 0  # neither a model nor memory reads it

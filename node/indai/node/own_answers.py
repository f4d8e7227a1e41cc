"""What owners wrote in answer to questions, until the thread has ended; sealed by the node key."""

from __future__ import annotations

from indai.node.keystore import KeyStore
from indai.node.store import Store


class OwnAnswers:
    """The table `node.own_answers`."""

    def __init__(self, store: Store, keystore: KeyStore) -> None:
        self._store = store
        self._keystore = keystore

    async def put(self, owner: str, thread: bytes, answer: str) -> None:
        """The owner's answer in this thread; an earlier one gives way."""
        sealed = self._keystore.seal(answer.encode(), _context(owner, thread))
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "INSERT INTO node.own_answers (owner, thread, sealed) VALUES ($1, $2, $3)"
                " ON CONFLICT (owner, thread) DO UPDATE SET sealed = excluded.sealed",
                owner,
                thread,
                sealed,
            )

    async def get(self, owner: str, thread: bytes) -> str:
        """What they wrote; "" for nothing."""
        async with self._store.scope(owner) as connection:
            sealed = await connection.fetchval(
                "SELECT sealed FROM node.own_answers WHERE owner = $1 AND thread = $2", owner, thread
            )
        return "" if sealed is None else self._keystore.unseal(sealed, _context(owner, thread)).decode()


def _context(owner: str, thread: bytes) -> str:
    return f"own-answer/{owner}/{thread.hex()}"

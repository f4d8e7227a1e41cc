"""The victim: a process that records entries, and says so on a pipe after each COMMIT.

Faults make it wrong on purpose, to show that the hammer finds them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import random
import struct
from pathlib import Path

from indai.ledger.entries import Entry, prepare, record
from indai.ledger.vault import Vault
from indai.protocol.errors import Unavailable
from indai.protocol.keys import SigningKey
from indai.protocol.leaf import LeafKind
from indai.storage.pool import open_pool, transaction
from indai.tlog.append import take_over
from indai.tlog.signer import LogKeys, LogSigner

LOG = "ind.ai/hammer/ledger/2026"
OWNERS = ("ind.ai/alice", "ind.ai/bob")
KEYS = LogKeys(LOG, SigningKey(b"\x01" * 32), f"{LOG}/time", SigningKey(b"\x02" * 32))
VAULT = Vault(b"\x03" * 32)
NOW = 1_790_000_000_000
ACK = struct.Struct(">QQ")  # number of the entry, its index; a batch is one write, so a kill cuts none in two
MAX_BATCH = 16
PUBLISH_EVERY = 4
ANSWER_BEFORE_COMMIT = "answer-before-commit"
LOST_DATABASE = 3


def mid_of(number: int) -> bytes:
    """The message id of an entry."""
    return hashlib.sha256(b"entry %d" % number).digest()


def entry(number: int) -> Entry:
    """Entry `number`: the same content whoever makes it, however often."""
    owner = OWNERS[number % len(OWNERS)]
    return prepare(owner, mid_of(number), LeafKind.COMMITMENT, b"terms %d" % number, NOW + number)


def run(dsn: str, heads: Path, first: int, report: int, seed: str, fault: str) -> None:
    """Record from `first` on until killed. In a process of its own: it does not return."""
    logging.disable(logging.CRITICAL)  # a database that is gone is what this is about
    try:
        asyncio.run(_write(dsn, heads, first, report, random.Random(seed), fault))
    except Unavailable:
        os._exit(LOST_DATABASE)


async def _write(dsn: str, heads: Path, number: int, report: int, dice: random.Random, fault: str) -> None:
    pool = await open_pool(dsn, max_size=3)
    writer = await take_over(pool, LOG)
    signer = await LogSigner.open(pool, KEYS, heads, lambda: NOW)
    batches = 0
    # The last life's words may not have reached its client, which then says the same again.
    number = max(0, number - dice.randint(1, MAX_BATCH))
    while True:
        entries = [entry(number + place) for place in range(dice.randint(1, MAX_BATCH))]
        async with transaction(pool, OWNERS) as connection:
            indexes = await record(connection, LOG, writer.epoch, entries, VAULT)
            answer = b"".join(ACK.pack(number + place, index) for place, index in enumerate(indexes))
            if fault == ANSWER_BEFORE_COMMIT:
                os.write(report, answer)
                await asyncio.sleep(0.25)  # whoever hears it kills it long before
        if fault != ANSWER_BEFORE_COMMIT:
            os.write(report, answer)
        number += len(entries)
        batches += 1
        if batches % PUBLISH_EVERY == 0:
            await signer.publish()

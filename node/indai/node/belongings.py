"""What an owner has to share: profile fields and documents, each with tags that rules can name.

Values and documents are sealed by the node key for their owner and place; names, tags, media types and sizes
are not, since rules and lists need them. Nothing here decides who gets what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import asyncpg
from indai.node.keystore import KeyStore
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason
from indai.protocol.forms import check_name, check_text, check_token
from indai.protocol.kinds.share import MAX_CONTENT, MAX_DOCUMENT, MAX_FIELD, check_media_type
from indai.storage.pool import transaction
from indai.tools.identity import refuse_aadhaar

MAX_VALUE = 4_096
MAX_FIELDS, MAX_DOCUMENTS, MAX_TAGS = 200, 500, 20
MAX_TITLE = 200
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Belonging:
    """A profile field or a document. `item` is what policies call it: `profile/<field>`, `document/<id>`.

    `content` is empty in lists.
    """

    item: str
    title: str
    media_type: str
    size_bytes: int
    tags: tuple[str, ...]
    updated_ms: int
    content: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> str:
        """The field, or the document's id."""
        return self.item.partition("/")[2]


class Belongings:
    """The tables `node.profile_fields` and `node.documents`; every call names its owner."""

    def __init__(self, pool: asyncpg.Pool, keystore: KeyStore, clock: Callable[[], int]) -> None:
        self._pool = pool
        self._keystore = keystore
        self._clock = clock

    async def set_field(self, owner: str, name: str, value: str, tags: Sequence[str]) -> Belonging:
        """Add or replace a profile field. Raises InvalidInput, Refused for an Aadhaar number."""
        _check(name, MAX_FIELD, tags, is_field=True)
        data = value.encode()
        if not 0 < len(data) <= MAX_VALUE:
            raise _wrong("value", f"A profile field has 1 to {MAX_VALUE} bytes, not {len(data)}.")
        refuse_aadhaar({name.replace("-", " "): value}, "The field")
        item = f"profile/{name}"
        sealed = self._keystore.seal(data, _context(owner, item))
        async with transaction(self._pool, [owner]) as connection:
            await _check_room(connection, "node.profile_fields", "field", owner, name, MAX_FIELDS)
            await connection.execute(
                "INSERT INTO node.profile_fields (owner, field, tags, sealed, updated_ms)"
                " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, field) DO UPDATE"
                " SET tags = excluded.tags, sealed = excluded.sealed, updated_ms = excluded.updated_ms",
                owner,
                name,
                list(tags),
                sealed,
                now := self._clock(),
            )
        return Belonging(item, name, TEXT, len(data), tuple(tags), now, data)

    async def put_document(
        self, owner: str, name: str, title: str, media_type: str, content: bytes, tags: Sequence[str]
    ) -> Belonging:
        """Add or replace a document. Raises InvalidInput, Refused for a text with an Aadhaar number."""
        _check(name, MAX_DOCUMENT, tags, is_field=False)
        try:
            check_text("title", title, MAX_TITLE, required=True)
            check_media_type(media_type)
        except ProtocolError as error:
            raise _wrong("document", error.message) from None
        if not 0 < len(content) <= MAX_CONTENT:
            raise _wrong("content", f"A document has 1 to {MAX_CONTENT} bytes, not {len(content)}.")
        if media_type.startswith("text/"):  # of others, what is written on a page is not read
            refuse_aadhaar([title, content.decode("utf-8", "replace")], "The document")
        item = f"document/{name}"
        sealed = self._keystore.seal(content, _context(owner, item))
        async with transaction(self._pool, [owner]) as connection:
            await _check_room(connection, "node.documents", "id", owner, name, MAX_DOCUMENTS)
            await connection.execute(
                "INSERT INTO node.documents (owner, id, title, media_type, size_bytes, tags, sealed,"
                " updated_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (owner, id) DO UPDATE"
                " SET title = excluded.title, media_type = excluded.media_type,"
                " size_bytes = excluded.size_bytes, tags = excluded.tags, sealed = excluded.sealed,"
                " updated_ms = excluded.updated_ms",
                owner,
                name,
                title,
                media_type,
                len(content),
                list(tags),
                sealed,
                now := self._clock(),
            )
        return Belonging(item, title, media_type, len(content), tuple(tags), now, content)

    async def fields(self, owner: str) -> list[Belonging]:
        """All profile fields with their values, by name."""
        async with transaction(self._pool, [owner]) as connection:
            rows = await connection.fetch(
                "SELECT field, tags, sealed, updated_ms FROM node.profile_fields WHERE owner = $1"
                " ORDER BY field",
                owner,
            )
        return [self._field(owner, row) for row in rows]

    async def documents(self, owner: str) -> list[Belonging]:
        """All documents without their content, by id."""
        async with transaction(self._pool, [owner]) as connection:
            rows = await connection.fetch(
                "SELECT id, title, media_type, size_bytes, tags, updated_ms FROM node.documents"
                " WHERE owner = $1 ORDER BY id",
                owner,
            )
        return [_document(row) for row in rows]

    async def find(self, owner: str, item: str) -> Belonging | None:
        """One of them with its content; None if there is none of this name."""
        found = await self.find_all(owner, [item])
        return found[0] if found else None

    async def find_all(self, owner: str, items: Sequence[str]) -> list[Belonging]:
        """Those that there are, with their contents."""
        names = [item.partition("/") for item in items]
        fields = [name for kind, _, name in names if kind == "profile"]
        documents = [name for kind, _, name in names if kind == "document"]
        async with transaction(self._pool, [owner]) as connection:
            rows = await connection.fetch(
                "SELECT field, tags, sealed, updated_ms FROM node.profile_fields"
                " WHERE owner = $1 AND field = ANY($2)",
                owner,
                fields,
            )
            papers = await connection.fetch(
                "SELECT * FROM node.documents WHERE owner = $1 AND id = ANY($2)", owner, documents
            )
        found = [self._field(owner, row) for row in rows]
        for row in papers:
            content = self._keystore.unseal(row["sealed"], _context(owner, f"document/{row['id']}"))
            found.append(_document(row, content))
        return found

    async def remove(self, owner: str, item: str) -> None:
        """Raises NotFound. What was shared of it before stays under its consent."""
        kind, _, name = item.partition("/")
        table, key = ("profile_fields", "field") if kind == "profile" else ("documents", "id")
        async with transaction(self._pool, [owner]) as connection:
            gone = await connection.fetchval(
                f"DELETE FROM node.{table} WHERE owner = $1 AND {key} = $2 RETURNING true",  # noqa: S608 - two constants
                owner,
                name,
            )
        if not gone:
            what = "profile field" if kind == "profile" else "document"
            raise NotFound(Reason.NOT_FOUND, f"You have no {what} {name}.", hint=f"indai {kind} --help")

    def _field(self, owner: str, row: asyncpg.Record) -> Belonging:
        item = f"profile/{row['field']}"
        value = self._keystore.unseal(row["sealed"], _context(owner, item))
        return Belonging(item, row["field"], TEXT, len(value), tuple(row["tags"]), row["updated_ms"], value)


def _document(row: asyncpg.Record, content: bytes = b"") -> Belonging:
    item = f"document/{row['id']}"
    tags = tuple(row["tags"])
    return Belonging(
        item, row["title"], row["media_type"], row["size_bytes"], tags, row["updated_ms"], content
    )


async def _check_room(
    connection: asyncpg.Connection, table: str, key: str, owner: str, name: str, most: int
) -> None:
    others = await connection.fetchval(
        f"SELECT count(*) FROM {table} WHERE owner = $1 AND {key} <> $2",  # noqa: S608 - our own constants
        owner,
        name,
    )
    if others >= most:
        raise _wrong("name", f"There are at most {most} of these; remove one first.")


def _check(name: str, limit: int, tags: Sequence[str], *, is_field: bool) -> None:
    try:
        if is_field:
            check_name("SHR-01", "profile field", name, limit)
        else:
            check_token("SHR-01", "document's id", name, limit)
        for tag in tags:
            check_name("SHR-01", "tag", tag, MAX_FIELD)
    except ProtocolError as error:
        raise _wrong("name", error.message) from None
    if len(tags) > MAX_TAGS:
        raise _wrong("tags", f"There are at most {MAX_TAGS} tags.")


def _wrong(name: str, message: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, message, fields={name: "out of range"})


def _context(owner: str, item: str) -> str:
    return f"{item}/{owner}"

"""One request of a visitor: who they are, in which language, and how they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from aiohttp import web
from indai.language.phrasebook import in_language
from indai.protocol.errors import InvalidInput, Reason
from indai.web.catalog import NAMES, Words
from indai.web.guards import UNKNOWN, Known
from indai.web.render import Pages
from indai.web.sessions import Session

MAX_FIELD: Final = 100_000
MAX_FORM: Final = 300_000
"""Characters of a field, bytes of a form."""
NOTICES: Final = {
    "done": "Done.",
    "saved": "Saved.",
    "approved": "You said yes. It is being signed.",
    "declined": "You said no. The other side learns that, and no reason.",
    "refused": "You said no. Nothing was done.",
    "forgotten": "Forgotten.",
    "signed-out": "You are signed out.",
    "paused": "Your agent is paused.",
    "resumed": "Your agent works again.",
    "removed": "Removed.",
    "sent": "If this handle lives here and its owner wrote to it on a messenger, a code is on its way there.",
    "asked": "Asked. The answer will stand here.",
    "taken": "You answer now. The visitor was told.",
    "handed-back": "The agent answers again. The visitor was told.",
    "said": "Sent.",
    "moved": "Moved. Who filed it can see it.",
    "replayed": "It will be tried again.",
    "introduced": "Your agent has said who you are. You talk as your handle now.",
}
"""What a page says at its top after an act, by a name in the address: never words of somebody else's."""


class Handler(Protocol):
    """Answers a visit."""

    async def __call__(self, visit: Visit) -> web.StreamResponse:
        """The answer; an IndaiError becomes a page of its own."""


@dataclass(slots=True)
class Visit:
    """One request. `session`: None for somebody not signed in, who is then known by `visitor` alone (64
    hexadecimal digits, the same for one browser). `token` is the session's own, for calls."""

    request: web.Request
    pages: Pages
    words: Words
    session: Session | None
    token: str = field(repr=False)
    csrf: str = field(repr=False)
    visitor: str = ""
    theme: str = ""
    known: Known = UNKNOWN
    form: Mapping[str, str] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    """What a room has looked up for this visit and needs again."""

    @property
    def signed_in(self) -> Session:
        """The session; the site lets nobody else through to pages behind the sign-in."""
        assert self.session is not None  # noqa: S101 - see Site
        return self.session

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Call metadata that shows the node's services whose session this is."""
        return (("authorization", f"Bearer {self.token}"),)

    def page(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """A page from a template."""
        notice = NOTICES.get(self.request.query.get("said", ""), "")
        known = {
            "_": self.words,
            "told": partial(in_language, language=self.words.language),
            "language": self.words.language,
            "direction": self.words.direction,
            "languages": NAMES | {self.words.language: self.words.name},
            "theme": self.theme,
            "session": self.session,
            "csrf": self.csrf,
            "path": self.request.path,
            "reloads": self.request.method == "GET",
            "notice": self.words(notice) if notice else "",
        }
        text = self.pages.render(template, known | values)
        answer = web.Response(text=text, status=status, content_type="text/html")
        if len(text) > 1_000:
            answer.enable_compression()
        return answer

    def go(self, path: str, said: str = "") -> web.Response:
        """Send the browser on to one of our pages after an act (303, RFC 9110 section 15.4.4)."""
        assert path[:1] == "/" != path[1:2]  # noqa: S101 - never to another site
        query = f"{'&' if '?' in path else '?'}said={said}" if said else ""
        return web.Response(status=303, headers={"Location": path + query})

    def file(self, content: bytes, name: str, media_type: str = "application/octet-stream") -> web.Response:
        """A download, never shown as a page. `name` is ours, not a visitor's."""
        return web.Response(
            body=content,
            content_type=media_type,
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    def said(self, field_name: str, default: str = "", most: int = 500) -> str:
        """A field of the form, trimmed; raises InvalidInput for one that is too long."""
        text = self.form.get(field_name, default).strip()
        if len(text) > most:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"The field {field_name} is too long: {len(text)} characters.",
                hint=f"at most {most}",
            )
        return text

    def named(self, part: str) -> str:
        """A part of the address."""
        return self.request.match_info[part]

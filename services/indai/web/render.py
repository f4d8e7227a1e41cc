"""Templates and static files: what is written once, escaped always, and cached by its content's hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from aiohttp import web
from indai.protocol.errors import NotFound, Reason
from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined

STATIC: Final = "/static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_YEAR: Final = "public, max-age=31536000, immutable"


class Assets:
    """The static files of a package's folder `static`, under addresses that change with their content."""

    def __init__(self, package: str) -> None:
        self._files: dict[str, tuple[bytes, str]] = {}
        self._addresses: dict[str, str] = {}
        for file in files(package).joinpath("static").iterdir():
            kind = _TYPES.get(file.name[file.name.rfind(".") :])
            if kind is not None:
                content = file.read_bytes()
                name = f"{hashlib.sha256(content).hexdigest()[:12]}/{file.name}"
                self._files[name] = (content, kind)
                self._addresses[file.name] = f"{STATIC}/{name}"

    def address(self, name: str) -> str:
        """The path of a file."""
        return self._addresses[name]

    async def serve(self, request: web.Request) -> web.Response:
        """`GET /static/HASH/NAME`."""
        found = self._files.get(f"{request.match_info['hash']}/{request.match_info['name']}")
        if found is None:
            raise NotFound(Reason.NOT_FOUND, "There is no such file.", hint="load the page again")
        content, kind = found
        answer = web.Response(body=content, content_type=kind, charset="utf-8")
        answer.headers["Cache-Control"] = _YEAR
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.enable_compression()
        return answer


class Pages:
    """Templates of several packages: `web/base.html` is `templates/base.html` of the package named for it."""

    def __init__(self, packages: Mapping[str, str], values: Mapping[str, Any]) -> None:
        loaders = {name: PackageLoader(package) for name, package in packages.items()}
        self._environment = Environment(
            loader=PrefixLoader(loaders),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals.update(values)

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """The page as HTML."""
        return self._environment.get_template(template).render(values)

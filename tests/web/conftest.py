"""The distribution's Chromium, driven by Playwright, before nodes of the tests' own.

Playwright brings no browser here: `/usr/bin/chromium`, or what INDAI_CHROMIUM names. Without one the tests
are skipped, and say so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright, expect

from tests.service.web.conftest import Desks, desks
from tests.service.web.tenants import City

__all__ = ["desks"]

CHROMIUM = os.environ.get("INDAI_CHROMIUM", "") or shutil.which("chromium") or "/usr/bin/chromium"
HAVE_CHROMIUM = Path(CHROMIUM).exists()
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE: ViewportSize = {"width": 360, "height": 740}
DESKTOP: ViewportSize = {"width": 1280, "height": 860}
LONGEST_MS = 60_000
"""What a page may take on a busy machine; whoever waits for it waits no longer than it takes."""
SCREENSHOTS = os.environ.get("INDAI_SCREENSHOTS", "")
"""A directory for pictures of every page; the ones in docs/screenshots are made so."""

expect.set_options(timeout=LONGEST_MS)


class Screen:
    """A browser window of a size, at one node."""

    def __init__(self, base: str, context: BrowserContext, page: Page, name: str) -> None:
        self.base, self.context, self.page, self.name = base, context, page, name
        self.clicks = 0
        self.errors: list[str] = []
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    async def open(self, path: str) -> None:
        await self.page.goto(self.base + path)

    async def click(self, role: str, name: str) -> None:
        """As a person does, counted."""
        self.clicks += 1
        await self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]

    async def check(self) -> None:
        """Accessible by axe's rules, nothing beside the screen, nothing in the console."""
        found = await Axe().run(self.page)
        assert found.violations_count == 0, found.generate_report()
        width = await self.page.evaluate("document.documentElement.scrollWidth")
        assert width <= await self.page.evaluate("window.innerWidth"), f"{self.page.url}: {width} px wide"
        assert self.errors == [], self.page.url

    async def picture(self, name: str) -> None:
        if SCREENSHOTS:
            path = Path(SCREENSHOTS) / f"{name}-{self.name}.png"
            await self.page.screenshot(path=str(path), full_page=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    if not HAVE_CHROMIUM:
        pytest.skip(f"there is no browser at {CHROMIUM}: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        await browser.close()


@contextlib.asynccontextmanager
async def screen(
    chromium: Browser, desks: Desks | City, size: ViewportSize, **more: str
) -> AsyncIterator[Screen]:
    """A window at bob's node. `more`: settings of the browser, such as `color_scheme` or `locale`."""
    context = await chromium.new_context(viewport=size, reduced_motion="reduce", **more)  # type: ignore[arg-type]
    context.set_default_timeout(LONGEST_MS)
    try:
        name = "phone" if size == PHONE else "desktop"
        yield Screen(desks.base(desks.b), context, await context.new_page(), name)
    finally:
        await context.close()

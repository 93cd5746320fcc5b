"""The browser: one for all pictures, one context a variant, signed in once."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    StorageState,
    TimeoutError,
    sync_playwright,
)

from dashboard.management.own_product import Door
from dashboard.management.screenshots.pages import Shot, find_address

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
#: A page is let settle so long after its last request: bars and charts are drawn by then.
SETTLE_MS = 400
WAIT_MS = 8000
TALLEST_PX = 4000
#: Live, and every chart within the window is drawn.
IS_SETTLED = """() =>
  document.querySelector('[data-live-state]')?.dataset.state !== 'connecting' &&
  [...document.querySelectorAll('[data-plot]')].every(
    (plot) => plot.childElementCount > 0 || plot.getBoundingClientRect().top > innerHeight)"""
Scheme = Literal["light", "dark"]


class NoBrowser(RuntimeError):
    """There is no Chromium on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One width, theme and language."""

    width: int
    scheme: Scheme
    language: str

    @property
    def name(self) -> str:
        """Return what the variant's files end in."""
        return f"{self.width}-{self.scheme}-{self.language}"


FOUR = (
    Variant(width=1440, scheme="light", language="en"),
    Variant(width=1440, scheme="dark", language="zh-hant"),
    Variant(width=420, scheme="light", language="zh-hant"),
    Variant(width=420, scheme="dark", language="en"),
)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
ALL = tuple(
    Variant(width=width, scheme=scheme, language=language)
    for width in (1440, 420)
    for scheme in SCHEMES
    for language in ("en", "zh-hant")
)


class Camera:
    """A browser that is signed in."""

    def __init__(self, browser: Browser, door: Door, *, zone: str) -> None:
        self._browser = browser
        self._door = door
        self._zone = zone
        self.context = browser.new_context()
        self.csrf = self._sign_in()
        self._state: StorageState = self.context.storage_state()
        self._addresses: dict[str, str] = {}

    def take(self, shots: Sequence[Shot], variants: Sequence[Variant], out: Path) -> Iterator[str]:
        """Photograph each page in each variant; yield the files, and what there was no page for."""
        for variant in variants:
            context, outside = self._context(variant), self._context(variant, signed_in=False)
            page, stranger = context.new_page(), outside.new_page()
            for shot in shots:
                yield self._shoot(stranger if shot.signed_out else page, shot, variant, out)
            context.close()
            outside.close()

    def _shoot(self, page: Page, shot: Shot, variant: Variant, out: Path) -> str:
        address = self._addresses.get(shot.name) or find_address(shot, read=self._read)
        self._addresses[shot.name] = address
        if not address:
            return f"{shot.name}: nothing to show now"
        page.set_viewport_size({"width": variant.width, "height": _height(variant)})
        page.goto(f"{self._door.address}{address}", wait_until="load")
        if shot.press:
            page.locator(shot.press).first.dispatch_event("click")
        self._settle(page)
        tall = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size(
            {"width": variant.width, "height": max(_height(variant), min(TALLEST_PX, tall))}
        )
        self._settle(page)
        file = out / f"{shot.name}-{variant.name}.png"
        page.screenshot(path=file, animations="disabled")
        wide = page.evaluate("document.documentElement.scrollWidth")
        more = f"  wider than the screen: {wide} px" if wide > variant.width else ""
        return f"{file.name}{more}"

    def _settle(self, page: Page) -> None:
        """Let the page become live and its charts be drawn; what does not come in time is left out."""
        with contextlib.suppress(TimeoutError):
            page.wait_for_function(IS_SETTLED, timeout=WAIT_MS)
        page.wait_for_timeout(SETTLE_MS // 2)

    def _context(self, variant: Variant, *, signed_in: bool = True) -> BrowserContext:
        context = self._browser.new_context(
            viewport={"width": variant.width, "height": _height(variant)},
            color_scheme=variant.scheme,
            locale="zh-TW" if variant.language == "zh-hant" else "en-US",
            timezone_id=self._zone,
            storage_state=self._state if signed_in else None,
            is_mobile=variant.width < 760,
        )
        context.add_cookies(
            [
                {"name": name, "value": value, "url": self._door.address}
                for name, value in (
                    ("tidegate_language", variant.language),
                    ("tidegate_theme", variant.scheme),
                )
            ]
        )
        return context

    def _read(self, path: str) -> str:
        return self.context.request.get(f"{self._door.address}{path}").text()

    def _sign_in(self) -> str:
        page = self.context.new_page()
        page.goto(f"{self._door.address}/login")
        page.locator("[name=username]").fill(self._door.username)
        page.locator("[name=password]").fill(self._door.password)
        page.locator("[name=password]").press("Enter")
        page.wait_for_selector("#rail")
        page.close()
        cookies = {row["name"]: row["value"] for row in self.context.cookies()}
        return cookies.get("tidegate_csrf", "")


@contextmanager
def open_camera(door: Door, *, zone: str) -> Iterator[Camera]:
    """Open a browser and sign in.

    Raises:
        NoBrowser: there is no Chromium here.
    """
    program = os.environ.get("TIDEGATE_CHROMIUM") or shutil.which("chromium")
    if not program:
        raise NoBrowser("no Chromium: install it, for instance by apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield Camera(browser, door, zone=zone)
        browser.close()


def _height(variant: Variant) -> int:
    return 900 if variant.width < 760 else 1000

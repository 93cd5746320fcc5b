"""Chromium as a fixture, driven by playwright."""

from __future__ import annotations

import os
import shutil

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="module")
def chromium():
    """One browser a module.

    While it is open its event loop runs in this thread, so tests beside it in the module can use
    neither Django's database nor asyncio.
    """
    from playwright.sync_api import sync_playwright

    program = os.environ.get("TIDEGATE_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A fresh page, 1440 by 900; errors in it are kept in ``page.errors``."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda said: _keep_error(page, said))
    yield page
    context.close()


def _keep_error(page, said):
    if said.type == "error":
        page.errors.append(said.text)


@pytest.fixture
def signed_in_page(page, product):
    """A page of the running product, signed in as its administrator."""
    with product.signed_in() as client:
        session = client.cookies["tidegate_session"]
    page.context.add_cookies(
        [{"name": "tidegate_session", "value": session, "url": product.address}]
    )
    page.goto(product.address)
    return page

"""The Proof page in a browser, on the running product: followed live, cancelled, cut short."""

from __future__ import annotations

import os
import re
import signal

import psutil
import pytest
from playwright.sync_api import expect

from tests.product import wait_until

pytestmark = [pytest.mark.product, pytest.mark.browser]
SLOW = 120_000


@pytest.fixture
def proof(page, empty_product):
    """The page with all verifications, seen by the administrator."""
    with empty_product.signed_in() as client:
        session = client.cookies["tidegate_session"]
    page.context.add_cookies(
        [{"name": "tidegate_session", "value": session, "url": empty_product.address}]
    )
    page.goto(f"{empty_product.address}/manage/proof")
    return page


def start(page, number):
    page.get_by_label("Choose all").uncheck()
    page.get_by_label(f"Verification {number}", exact=True).check()
    page.get_by_role("button", name="Run the chosen").click()
    page.wait_for_url("**/manage/proof/*")


def runner_of(product):
    """Return the process that carries a run out."""
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = process.info["cmdline"] or []
        ours = (process.info["environ"] or {}).get("TIDEGATE_DATA") == str(product.data)
        if ours and "verify" in words and "--run" in words:
            return process
    return None


def scratch_pools(product):
    asked = "from scheduler import models; print(models.NodePool.objects.count())"
    return int(product.manage("shell", "--no-imports", "-c", asked).stdout)


def test_a_run_is_followed_live_and_outlives_web_and_worker(proof, empty_product):
    # When verification 3 is started from the page
    start(proof, "3")
    # Then its scratch pool is on the map, and what is given, done and printed comes by itself
    expect(proof.locator(".map .slice").first).to_be_attached(timeout=SLOW)
    expect(proof.locator(".pf-given").first).to_contain_text("unit-a's guarantee", timeout=SLOW)
    expect(proof.locator(".pf-log").first).to_be_attached(timeout=SLOW)
    # When web and worker are killed in the middle
    empty_product.kill("web")
    empty_product.kill("worker")
    # Then the run goes on, and all its checks stand there in the end
    expect(proof.locator("[data-run-status]")).to_have_text(
        re.compile("Passed|Failed"), timeout=2 * SLOW
    )
    expect(proof.locator(".pf-check.good").first).to_be_visible()
    expect(proof.locator("[data-run-status]")).to_have_text("Passed")
    # And the same stands in the document of the other language
    address = proof.get_by_role("link", name="繁體中文").first.get_attribute("href")
    proof.goto(f"{empty_product.address}{address}")
    expect(proof.locator("h1")).to_have_text("規則驗證報告")
    english = proof.locator(".check, .given, .when").filter(
        has_text=re.compile("expected|running:|waiting:|trainings of")
    )
    expect(english).to_have_count(0)


def test_a_run_is_cancelled_from_the_page(proof, empty_product):
    start(proof, "5")
    expect(proof.locator(".pf-step").first).to_be_attached(timeout=SLOW)
    proof.get_by_role("button", name="Cancel the run").click()
    expect(proof.locator("[data-run-status]")).to_have_text("Cancelled", timeout=SLOW)
    assert scratch_pools(empty_product) == 0


def test_a_run_whose_process_is_killed_is_marked_and_cleared(proof, empty_product):
    start(proof, "5")
    expect(proof.locator(".pf-step").first).to_be_attached(timeout=SLOW)
    os.kill(runner_of(empty_product).pid, signal.SIGKILL)
    expect(proof.locator("[data-run-status]")).to_have_text("Cut short", timeout=SLOW)
    wait_until(
        lambda: scratch_pools(empty_product) == 0, within_s=120, what="the scratch pool is removed"
    )

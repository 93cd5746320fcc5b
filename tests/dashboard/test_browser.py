"""The pages in a real browser, on the running product with its first demonstration."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.product, pytest.mark.timeout(240)]
SLOW = 20_000
#: What is checked for accessibility.
PAGES = (
    "/",
    "/map?group=department&color=type",
    "/map?table=1",
    "/nodes",
    "/quotas",
    "/workloads",
    "/workloads/new",
    "/inference",
    "/decisions",
    "/search?q=unit",
    "/idle",
    "/reports?period=7d&step=day&compare=1",
    "/reports/intervals",
    "/reports/money",
    "/reports/promise",
    "/reports/savings",
    "/reports/saved",
    "/projects/unit-a",
    "/departments/dev-test",
    "/manage/quotas",
    "/manage/people",
    "/manage/alerts",
    "/manage/audit",
    "/manage/emergency",
)


@pytest.fixture(scope="module")
def card(make_product):
    """One card with its ten workloads, for this module alone."""
    product = make_product("--demo", "card").start()
    yield product
    product.close()


@pytest.fixture
def overview(page, card):
    """The Overview, signed in, once it is live and five trainings hold their share."""
    with card.signed_in() as client:
        session = client.cookies["tidegate_session"]
    page.context.add_cookies([{"name": "tidegate_session", "value": session, "url": card.address}])
    page.goto(card.address)
    expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "live", timeout=SLOW)
    return page


def slices(page, workload):
    """The marks of a workload on the map, by its link in the table under it."""
    return page.locator("[data-map-table] a.nm", has_text=re.compile(f"^{workload}$"))


def test_a_reclaim_is_watched_on_the_map(overview):
    # Given five trainings of unit-a on the card, four of them borrowing
    expect(slices(overview, "train-5")).to_have_count(1, timeout=60_000)
    expect(overview.locator(".map .under")).to_have_count(4, timeout=SLOW)

    # When unit-b asks for its guarantee, by the form on the page
    overview.get_by_role("link", name="New workload").click()
    form = overview.locator("dialog[open] form.form")
    form.get_by_label("Project").select_option(label="unit-b")
    form.get_by_label("Name").fill("mine")
    form.get_by_label("GPUs a replica").fill("0.09")
    form.get_by_label("Command").fill("python {examples}/training/train_digits.py")
    overview.evaluate(
        """() => {
          window.seen = new Set();
          new MutationObserver(() => {
            if (document.querySelector('.map .ring')) window.seen.add('ring');
            window.seen.add(document.querySelector('[data-ribbon-tag]').textContent);
          }).observe(document.body, {subtree: true, childList: true, characterData: true});
        }"""
    )
    form.get_by_role("button", name="Submit").click()

    # Then the page stays and says so, with a link to the workload
    expect(overview.locator("dialog[open]")).to_have_count(0, timeout=SLOW)
    expect(overview.locator(".toast a")).to_have_attribute("href", re.compile(r"/workloads/\d+"))
    # And the ring and the ribbon show it, the borrower leaves, and the new slice is there
    expect(slices(overview, "mine")).to_have_count(1, timeout=60_000)
    seen = overview.evaluate("[...window.seen]")
    assert {"ring", "Reclaim"} <= set(seen)
    expect(overview.locator(".map .under")).to_have_count(3, timeout=SLOW)
    expect(overview.locator("[data-waiting]")).to_contain_text("Interrupted", timeout=SLOW)
    assert overview.errors == []


def test_a_lost_connection_looks_lost_and_comes_back_by_itself(overview, card):
    # When the web server is killed outright
    card.kill("web")
    # Then the data fades, a bar says since when, and the page comes back without being loaded
    overview.evaluate("window.same = true")
    expect(overview.locator("body")).to_have_class(re.compile("stale"), timeout=SLOW)
    expect(overview.locator("[data-stalebar]")).to_contain_text("Connection lost at")
    expect(overview.locator("[data-live-state]")).to_have_attribute(
        "data-state", "live", timeout=60_000
    )
    expect(overview.locator("body")).not_to_have_class(re.compile("stale"))
    assert overview.evaluate("window.same") is True


def test_without_web_sockets_the_page_polls(page, card):
    # Given a proxy that opens no WebSocket
    page.add_init_script(
        """window.WebSocket = class extends EventTarget {
          constructor() {
            super();
            setTimeout(() => this.dispatchEvent(new CloseEvent('close', {code: 1006})), 10);
          }
          close() {}
          send() {}
        };"""
    )
    with card.signed_in() as client:
        session = client.cookies["tidegate_session"]
    page.context.add_cookies([{"name": "tidegate_session", "value": session, "url": card.address}])
    page.goto(card.address)
    expect(page.locator("[data-live-state]")).to_contain_text("Live, every 5 s", timeout=SLOW)
    expect(page.locator("[data-stalebar]")).to_be_hidden()


def test_language_and_theme_are_switched_and_kept(overview):
    overview.locator("[data-theme-switch]").click()
    theme = overview.evaluate("document.documentElement.dataset.theme")
    overview.get_by_role("button", name=re.compile("繁體中文")).click()
    expect(overview.locator("h1")).to_have_text("總覽")
    expect(overview.locator("html")).to_have_attribute("lang", "zh-Hant")
    expect(overview.locator("html")).to_have_attribute("data-theme", theme)
    expect(overview.locator("[data-live-state]")).to_contain_text("即時", timeout=SLOW)


def test_reduced_motion_leaves_nothing_moving(overview):
    overview.emulate_media(reduced_motion="reduce")
    overview.reload()
    expect(overview.locator("[data-live-state]")).to_have_attribute(
        "data-state", "live", timeout=SLOW
    )
    moving = overview.evaluate(
        "document.getAnimations().filter((a) => a.playState === 'running').length"
    )
    assert moving == 0


def test_the_map_is_walked_by_keys(overview):
    overview.locator(".map .g[tabindex='0']").focus()
    overview.keyboard.press("End")
    name = overview.evaluate("document.activeElement.getAttribute('aria-label')")
    assert re.match(r"[\w-]+ GPU 0: ", name)
    overview.keyboard.press("Enter")
    expect(overview.locator("[data-side]")).to_be_visible()
    overview.keyboard.press("Escape")
    expect(overview.locator("[data-side]")).to_be_hidden()


def test_the_form_says_what_a_slice_leaves_while_one_types(overview):
    # Given a service of a model's server on 0.10 of the card
    overview.get_by_role("link", name="New workload").click()
    form = overview.locator("dialog[open] form.form")
    form.get_by_label("Kind").select_option("inference")
    form.get_by_label("Server", exact=True).select_option("vllm")
    # When weights are typed, then what is left follows
    form.get_by_label("Weights, GiB").fill("2")
    expect(form.locator(".slice")).to_contain_text("2,048 MiB", timeout=SLOW)
    expect(form.locator(".slice")).to_contain_text("assumption")
    form.get_by_label("Weights, GiB").fill("6")
    expect(form).to_contain_text("It can't start on this slice.", timeout=SLOW)
    assert overview.errors == []


def test_a_workload_is_stopped_from_its_page(overview):
    slices(overview, "embed").click()
    overview.get_by_role("button", name="Stop").click()
    overview.locator("dialog[open]").get_by_role("button", name="Stop").click()
    expect(overview.locator("[data-phase]").first).to_contain_text("Stopped", timeout=60_000)
    overview.get_by_role("button", name="Start again").click()
    expect(overview.locator("[data-phase]").first).to_contain_text("Running", timeout=60_000)


def test_hours_of_the_running_period_move_while_one_watches(overview, card):
    # Given the report of today, while borrowed and idle work holds its share
    overview.goto(f"{card.address}/reports?period=today")
    cells = {
        name: overview.locator(f'tfoot [data-cell="{name}"]')
        for name in ("allocated", "deserved", "over_quota", "idle")
    }
    first = {name: cell.get_attribute("title") for name, cell in cells.items()}
    # Then each of its hours grows in place, without the page being loaded again
    overview.evaluate("window.same = true")
    for name, cell in cells.items():
        expect(cell).not_to_have_attribute("title", first[name], timeout=60_000)
    later = {name: cell.get_attribute("title") for name, cell in cells.items()}
    grown = {name for name in cells if hours(later[name]) > hours(first[name])}
    assert grown == set(cells)
    assert overview.evaluate("window.same") is True
    assert overview.errors == []


def hours(title):
    return float(title.removesuffix(" h"))


@pytest.mark.parametrize("paths", [PAGES[::2], PAGES[1::2]], ids=["even", "odd"])
def test_a_checker_of_accessibility_finds_nothing(overview, card, paths):
    # Given the pages, each in the light theme and then in the dark one, where only colors differ
    found = {}
    for path in paths:
        overview.emulate_media(color_scheme="light", reduced_motion="reduce")
        overview.goto(f"{card.address}{path}")
        found |= violations(overview, path)
        overview.emulate_media(color_scheme="dark", reduced_motion="reduce")
        found |= violations(overview, f"{path}, dark", runOnly=["color-contrast"])
    # Then axe has nothing to say about any of them
    assert found == {}


def violations(page, where, **options):
    """What axe finds on a page: places by the page and the rule."""
    answer = Axe().run(page, options={"resultTypes": ["violations"], **options}).response
    return {
        f"{where}: {one['id']}": [node["html"][:200] for node in one["nodes"][:3]]
        for one in answer["violations"]
    }


def test_a_narrow_screen_does_not_scroll_sideways(overview):
    overview.set_viewport_size({"width": 420, "height": 900})
    overview.wait_for_timeout(300)
    width = overview.evaluate("document.documentElement.scrollWidth")
    assert width <= 420
    overview.locator("[data-menu]").click()
    expect(overview.get_by_role("link", name="Quotas")).to_be_visible()

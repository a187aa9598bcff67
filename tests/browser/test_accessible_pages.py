"""Every page in Chromium, narrow and dark, wide and light: axe finds nothing serious, and nothing is cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from lab.harness.running import Up, running
from tests.browser.estate import Estate, furnish
from tests.browser.test_pages import WIDTHS, fits
from tests.clients.installing import installed

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, Estate]]:
    with running(tmp_path_factory.mktemp("accessible") / "data") as service:
        yield service, furnish(service)


@pytest.fixture(params=WIDTHS)
def window(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Dark when it is narrow. A script or style that the page's policy refuses fails the test."""
    narrow = request.param == WIDTHS[0]
    context = chromium.new_context(
        viewport={"width": request.param, "height": 800}, color_scheme="dark" if narrow else "light"
    )
    complaints: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert [text for text in complaints if "Failed to load resource" not in text] == []


@cache
def axe() -> str:
    return Path(installed("axe")[-1]).read_text()


def check(page: Page) -> list[str]:
    """The serious findings of axe. Its script is run by the debugger: the page's policy would refuse it."""
    page.evaluate(axe())
    found = page.evaluate("rules => axe.run(document, rules).then(run => run.violations)", RULES)
    return [
        f"{page.url}: {one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in SERIOUS
    ]


def sign_in(page: Page, service: Up, operator: bool = False) -> None:
    page.goto(f"{service.url}/ui/")
    if operator:
        page.get_by_text("As an operator").click()
        page.get_by_label("Operator token").fill(service.cns("operator", "token").stdout.strip())
    else:
        page.get_by_label("Access key id").fill(service.environment["AWS_ACCESS_KEY_ID"])
        page.get_by_label("Secret access key").fill(service.environment["AWS_SECRET_ACCESS_KEY"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


@pytest.mark.parametrize("operator", [False, True], ids=["account", "operator"])
def test_every_page_is_accessible_and_fits(window: Page, furnished: tuple[Up, Estate], operator: bool) -> None:
    service, estate = furnished
    window.goto(f"{service.url}/ui/sign-in")
    found = check(window)
    sign_in(window, service, operator)
    for path in (estate.operator_pages() if operator else estate.account_pages()).values():
        window.goto(service.url + path)
        for details in window.locator("details").all():
            details.evaluate("one => { one.open = true }")
        found += check(window)
        fits(window)
    assert found == []


def test_the_portal_is_accessible_and_fits(window: Page, furnished: tuple[Up, Estate]) -> None:
    service, estate = furnished
    window.goto(f"{service.url}/portal/")
    found = check(window)
    fits(window)
    window.goto(estate.link)
    assert window.url == f"{service.url}/portal/"
    expect(window.get_by_text("circuit breaker open")).to_be_visible()
    expect(window.get_by_role("button", name="Retry").first).to_be_visible()
    found += check(window)
    fits(window)
    window.get_by_role("button", name="Pause deliveries").click()
    expect(window.get_by_text("Messages are kept for 14 days")).to_be_visible()
    for box in window.get_by_label("I want another secret").all():  # once there is one
        box.check()
    window.get_by_role("button", name=re.compile("(Make a|Rotate the) secret")).click()
    expect(window.get_by_text(re.compile("whsec_"))).to_be_visible()
    found += check(window)
    fits(window)
    window.get_by_role("button", name="Resume deliveries").click()
    expect(window.get_by_role("button", name="Pause deliveries")).to_be_visible()
    window.get_by_role("button", name="Leave").click()
    expect(window.get_by_role("heading", name="Good bye")).to_be_visible()
    assert found + check(window) == []


def test_a_report_is_shown_in_a_sandbox(window: Page, furnished: tuple[Up, Estate]) -> None:
    service, estate = furnished
    sign_in(window, service, operator=True)
    window.goto(f"{service.url}{estate.operator_pages()['report']}")
    frame = window.frame_locator("iframe")
    expect(frame.get_by_text("failed 43.1% of 813 attempts")).to_be_visible()
    assert window.frames[1].evaluate("self.origin") == "null", "it has no session, and reaches no other page"
    assert window.frames[1].evaluate("getComputedStyle(document.body).fontFamily") != ""


def test_a_page_is_used_by_keyboard_alone(window: Page, furnished: tuple[Up, Estate]) -> None:
    service, estate = furnished
    sign_in(window, service)
    window.goto(f"{service.url}/ui/queues")
    window.keyboard.press("Tab")
    expect(window.get_by_role("link", name="Skip to content")).to_be_focused()
    window.keyboard.press("/")
    window.keyboard.type(estate.message)
    window.keyboard.press("Enter")
    expect(window.get_by_role("heading", name=f"Message {estate.message}")).to_be_visible()


def test_the_sums_of_the_service_follow_without_a_reload(window: Page, furnished: tuple[Up, Estate]) -> None:
    service, _ = furnished
    sign_in(window, service)
    with window.expect_response(lambda response: response.url.endswith("/ui/service/live")) as live:
        window.goto(f"{service.url}/ui/service")
    assert live.value.headers["content-type"].startswith("text/event-stream")
    figure = window.locator("[data-figure='Sends in flight']")
    figure.evaluate("one => { one.textContent = 'stale' }")
    window.reload()
    expect(figure).not_to_have_text("stale")

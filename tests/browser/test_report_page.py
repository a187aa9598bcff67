"""The report's page in Chromium: it loads nothing, runs only its own script, fits a phone, sorts its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cns_pipeline.reports.findings.find import find
from cns_pipeline.reports.page.page import draw_page
from tests.pipeline.audit.sample_audit import SAMPLE_AUDIT
from tests.pipeline.health.sample_health import SAMPLE_HEALTH
from tests.pipeline.reports.sample_report import SAMPLE


@pytest.fixture
def report(chromium: Browser, tmp_path: Path) -> Iterator[Page]:
    """The page of the sample report, from a file. A complaint of the browser or a second request fails the test."""
    file = tmp_path / "report.html"
    file.write_text(draw_page(SAMPLE, find(SAMPLE, SAMPLE_HEALTH), SAMPLE_HEALTH), encoding="utf-8")
    complaints: list[str] = []
    requests: list[str] = []
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    yield page
    context.close()
    assert complaints == []
    assert requests == [file.as_uri()]


@pytest.mark.slice
def test_the_first_screen_says_what_went_wrong(report: Page) -> None:
    expect(report.get_by_text("failed 43.1% of 813 attempts")).to_be_in_viewport()
    report.get_by_role("link", name="details").nth(3).click()
    expect(report.get_by_role("heading", name="Endpoints")).to_be_in_viewport()


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 28)")])
def test_the_page_fits_a_phone_in_light_and_dark(report: Page, scheme: str, ground: str) -> None:
    report.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    assert report.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    assert report.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chart = report.get_by_role("img", name="Failures per hour")
    expect(chart).to_be_visible()
    assert chart.evaluate("one => getComputedStyle(one.querySelector('.fill.failed')).fill") != "rgb(0, 0, 0)"


def test_tables_scroll_on_a_phone_and_keep_their_words_whole(report: Page) -> None:
    """Columns of words are not squeezed to a letter a line; the table is wider than the screen, and scrolls."""
    report.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    lines = "tables => tables.map(table => Math.max(...[...table.rows].map(row => row.offsetHeight)) / 18)"
    assert max(report.locator("table").evaluate_all(lines)) < 7
    table = report.get_by_role("table", name="Failed attempts by cause")
    assert table.evaluate("one => one.offsetWidth > innerWidth && one.parentElement.scrollWidth >= one.offsetWidth")
    assert table.evaluate("one => getComputedStyle(one.parentElement).overflowX") == "auto"


def test_tables_fit_a_laptop(chromium: Browser, tmp_path: Path) -> None:
    """At 1,280 pixels no table of the report scrolls sideways, all of its parts open."""
    file = tmp_path / "report.html"
    file.write_text(draw_page(SAMPLE, (), SAMPLE_HEALTH, SAMPLE_AUDIT), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 1_280, "height": 800})
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    wide = "all => all.filter(one => one.offsetWidth > one.parentElement.clientWidth).map(one => one.caption.innerText)"
    tables = page.locator("table")
    assert (tables.count() > 20, tables.evaluate_all(wide)) == (True, [])
    page.close()


def test_a_click_sorts_a_table_by_number(report: Page) -> None:
    table = report.get_by_role("table", name="Failed attempts by cause")
    first = table.locator("tbody tr").first
    expect(first).to_contain_text("status 503")
    heading = table.get_by_role("columnheader", name="attempts")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(first).to_contain_text("the endpoint did not answer in time")

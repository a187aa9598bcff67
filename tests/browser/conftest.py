"""Debian's Chromium, and a service that sends mails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lab.harness.servers import program
from lab.harness.waiting import PATIENCE_S
from tests.private_servers.mailing import MailService, mailing


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=1000 * PATIENCE_S)
    with sync_playwright() as playwright:
        # pages come from this machine only, and Chromium has no sandbox for root
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page on a phone without scripts, where everything must work. An error that the browser logs fails the test."""
    complaints: list[str] = []
    context = chromium.new_context(
        ignore_https_errors=True, java_script_enabled=False, viewport={"width": 360, "height": 740}
    )
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    yield page
    context.close()
    assert [text for text in complaints if "Failed to load resource" not in text] == []


@pytest.fixture(scope="session")
def mails(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailService]:
    with mailing(tmp_path_factory.mktemp("mailing")) as started:
        yield started

"""The page that explores the REST API: it loads from this service alone, and runs calls."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from lab.harness.running import Up, running
from lab.harness.waiting import PATIENCE_S
from tests.browser.test_accessible_pages import axe


@pytest.fixture(scope="module")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("explorer") / "data") as service:
        yield service


@pytest.fixture
def explorer(chromium: Browser, running_service: Up) -> Iterator[Page]:
    """The page. A request to another host, and an error that the browser logs, fail the test."""
    complaints: list[str] = []
    foreign: list[str] = []
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: foreign.append(request.url) if not _own(request.url, running_service) else None)
    page.goto(f"{running_service.url}/api/v1/")
    yield page
    context.close()
    assert foreign == []
    assert complaints == []


def _own(url: str, service: Up) -> bool:
    return url.startswith((service.url, "data:"))


def test_its_texts_have_contrast_and_its_lists_have_names(explorer: Page) -> None:
    operation = explorer.locator("#operations-queues-createQueue")
    operation.click()
    operation.get_by_role("button", name="Try it out").click()
    explorer.evaluate(axe())
    rules = {"runOnly": {"type": "rule", "values": ["color-contrast", "select-name"]}}
    found = explorer.evaluate("rules => axe.run(document, rules).then(run => run.violations)", rules)
    assert [(one["id"], node["html"][:200]) for one in found for node in one["nodes"]] == []


@pytest.mark.slice
def test_a_call_from_the_page(explorer: Page, running_service: Up) -> None:
    with urllib.request.urlopen(f"{running_service.url}/api/v1/openapi.json") as answer:
        operations = sum(len(path) for path in json.load(answer)["paths"].values())
    operation = explorer.locator("#operations-permissions-supportedAuthorizationLevels")
    expect(operation).to_be_visible()
    expect(explorer.locator(".opblock")).to_have_count(operations)
    operation.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table td.response-col_status").last).to_contain_text("200")
    expect(operation.locator(".live-responses-table")).to_contain_text("PutMessage")

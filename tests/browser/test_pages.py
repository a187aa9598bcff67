"""The pages in Chromium: a person's way through them, live counts, narrow and dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from lab.harness.running import Up, running

WIDTHS = (400, 1400)


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("pages") / "data") as service:
        yield service


@pytest.fixture(params=WIDTHS)
def person(chromium: Browser, paged: Up, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A browser signed in, dark when it is narrow. A request to another host or a complaint fails the test."""
    narrow = request.param == WIDTHS[0]
    context = chromium.new_context(
        viewport={"width": request.param, "height": 800}, color_scheme="dark" if narrow else "light"
    )
    foreign, complaints = _watched(context, paged)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{paged.url}/ui/")
    page.get_by_label("Access key id").fill(paged.environment["AWS_ACCESS_KEY_ID"])
    page.get_by_label("Secret access key").fill(paged.environment["AWS_SECRET_ACCESS_KEY"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    yield page
    context.close()
    assert foreign == complaints == []


def _watched(context: BrowserContext, service: Up) -> tuple[list[str], list[str]]:
    foreign: list[str] = []
    context.on(
        "request",
        lambda request: None if request.url.startswith((service.url, "data:")) else foreign.append(request.url),
    )
    return foreign, []


def fits(page: Page) -> None:
    """The page is no wider than the window."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.slice
def test_a_queue_in_the_browser(person: Page, paged: Up) -> None:
    name = f"orders-{person.viewport_size['width']}" if person.viewport_size else "orders"
    person.get_by_label("Name", exact=True).fill(name)
    person.get_by_role("button", name="Create").click()
    expect(person.get_by_role("status")).to_have_text("Created.")
    person.get_by_label("Message", exact=True).fill("hello")
    person.get_by_role("button", name="Send").click()
    expect(person.locator("summary", has_text="hello")).to_be_visible()
    sqs: Any = paged.client("sqs", region_name="us-east-1")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="from elsewhere")
    expect(person.locator("[data-figure=visible]")).to_have_text("2")  # without a reload
    fits(person)
    person.get_by_label("I want to lose the queue and its messages").check()
    person.get_by_role("button", name="Delete queue").click()
    expect(person.get_by_role("status")).to_have_text("Deleted.")
    fits(person)


def test_a_topic_in_the_browser(person: Page) -> None:
    person.get_by_role("link", name="Topics").click()
    name = f"news-{person.viewport_size['width']}" if person.viewport_size else "news"
    person.get_by_label("Name", exact=True).fill(name)
    person.get_by_role("button", name="Create").click()
    person.get_by_label("Protocol").select_option("email")
    person.get_by_label("Endpoint", exact=True).fill("reader@example.com")
    person.get_by_role("button", name="Subscribe").click()
    expect(person.get_by_role("cell", name="not confirmed")).to_be_visible()
    person.get_by_role("textbox", name="Message", exact=True).fill("news")
    person.get_by_role("button", name="Publish").click()
    expect(person.get_by_role("status")).to_have_text("The message is published.")
    fits(person)


def test_the_service_page(person: Page) -> None:
    person.get_by_role("link", name="Service").click()
    expect(person.get_by_text("All is well")).to_be_visible()
    expect(person.get_by_role("cell", name="redelivery")).to_be_visible()
    fits(person)

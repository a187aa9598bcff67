"""People who look at the pages of the shared service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from lab.harness.service import REGION, Service
from tests.acceptance.pages.person import Person


@pytest.fixture
def open_browser(service: Service) -> Iterator[Callable[[], Person]]:
    with ExitStack() as browsers:
        yield lambda: Person(browsers.enter_context(httpx.Client(base_url=service.url, follow_redirects=True)))


@pytest.fixture
def person(service: Service, open_browser: Callable[[], Person]) -> Person:
    """The root of the first account, signed in."""
    keys = service.environment
    made = open_browser()
    made.sign_in(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"], region=REGION)
    return made


@pytest.fixture
def operator(service: Service, open_browser: Callable[[], Person]) -> Person:
    made = open_browser()
    made.sign_in(operator_token=service.cns("operator", "token").stdout.strip())
    return made

"""Clients of the REST API: the project's own, and plain HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from cns.client import Client, Credentials
from lab.harness.service import REGION, Service

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="session")
def account(service: Service) -> str:
    return str(service.client("sts").get_caller_identity()["Account"])


@pytest.fixture(scope="session")
def root(service: Service) -> Credentials:
    keys = service.environment
    return Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])


@pytest.fixture
def rest(service: Service, account: str, root: Credentials) -> Iterator[Client]:
    with Client(service.url, account, root, region=REGION) as client:
        yield client


@pytest.fixture
def connect(service: Service, account: str) -> Iterator[Callable[[Credentials], Client]]:
    """Makes clients of the first account's resources, and closes them at the end."""
    with ExitStack() as clients:
        yield lambda credentials: clients.enter_context(Client(service.url, account, credentials, region=REGION))


@pytest.fixture
def http(service: Service, root: Credentials) -> Iterator[httpx.Client]:
    """Plain HTTP with the first account's key."""
    with httpx.Client(base_url=f"{service.url}/api/v1", auth=root.basic(), params={"region": REGION}) as client:
        yield client


@pytest.fixture
def nobody(service: Service) -> Iterator[httpx.Client]:
    """Plain HTTP without credentials."""
    with httpx.Client(base_url=f"{service.url}/api/v1", params={"region": REGION}) as client:
        yield client


@pytest.fixture
def queue_name(rest: Client, new_name: Any) -> str:
    return rest.create_queue(new_name()).name

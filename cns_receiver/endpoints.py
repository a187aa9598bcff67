"""All endpoints, and the URLs at which deliveries reach them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from cns_common.errors import RequestError
from cns_receiver.behaviour import BehaviourSequence, ReceiverSettings
from cns_receiver.endpoint import Capacity, Endpoint

ENDPOINTS_MAX = 10_000
ROUTES_MAX = 20_000
"""Distinct URLs of deliveries; each may have a behaviour of its own in its query."""

_ENDPOINT = re.compile(r"/endpoint/(?P<name>[A-Za-z0-9._~-]{1,64})(?:/(?P<page>[a-z]+))?/?")


class ReceiverResource(NamedTuple):
    """The target of a request: an endpoint (`name`) and one of its pages, or the page at `path`."""

    path: str
    name: str
    page: str
    query: str


class Route(NamedTuple):
    """A URL for deliveries: its endpoint, and the behaviour and settings in its query."""

    endpoint: Endpoint
    sequence: BehaviourSequence | None
    settings: ReceiverSettings


class Endpoints:
    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._endpoints: dict[str, Endpoint] = {}
        self._routes: dict[bytes, Route] = {}

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints.values())

    def get(self, name: str) -> Endpoint:
        """Return the endpoint; create it if it is new. Raises RequestError above the limit."""
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            if len(self._endpoints) >= ENDPOINTS_MAX:
                raise RequestError("TooManyEndpoints", f"there are {ENDPOINTS_MAX} already: delete some")
            endpoint = self._endpoints[name] = Endpoint(name, self._capacity)
        return endpoint

    def forget(self, endpoint: Endpoint) -> None:
        self._endpoints.pop(endpoint.name, None)
        self._routes = {target: route for target, route in self._routes.items() if route.endpoint is not endpoint}
        endpoint.clear()

    def route(self, target: bytes) -> Route | None:
        return self._routes.get(target)

    def add_route(self, target: bytes, route: Route) -> Route:
        if len(self._routes) >= ROUTES_MAX:
            raise RequestError("TooManyEndpoints", f"deliveries came to {ROUTES_MAX} URLs already: delete endpoints")
        self._routes[target] = route
        return route


def parse_target(target: bytes) -> ReceiverResource:
    try:
        url = urlsplit(target.decode("latin-1"))
    except ValueError:
        return ReceiverResource("", "", "", "")
    found = _ENDPOINT.fullmatch(url.path)
    if found is None:
        return ReceiverResource(url.path, "", "", url.query)
    return ReceiverResource(url.path, found["name"], found["page"] or "", url.query)

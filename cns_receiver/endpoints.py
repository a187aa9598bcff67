"""The endpoints of the fault receiver, and the URLs under which deliveries reach them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from cns_common.errors import RequestError
from cns_receiver.behaviour import Script, Settings
from cns_receiver.mailbox import Mailbox, Room

ENDPOINTS_MAX = 10_000
ROUTES_MAX = 20_000
"""Distinct URLs deliveries came to; each may have a behaviour of its own in its query."""

_ENDPOINT = re.compile(r"/endpoint/(?P<name>[A-Za-z0-9._~-]{1,64})(?:/(?P<page>[a-z]+))?/?")


class Place(NamedTuple):
    """Where a request goes: to an endpoint (`name`) and a page of it, or to the page at `path`."""

    path: str
    name: str
    page: str
    query: str


class Route(NamedTuple):
    """One URL for deliveries: its endpoint, and what its query says."""

    mailbox: Mailbox
    script: Script | None
    settings: Settings


class Endpoints:
    def __init__(self, room: Room) -> None:
        self._room = room
        self._mailboxes: dict[str, Mailbox] = {}
        self._routes: dict[bytes, Route] = {}

    def __iter__(self) -> Iterator[Mailbox]:
        return iter(self._mailboxes.values())

    def mailbox(self, name: str) -> Mailbox:
        """An endpoint exists as soon as somebody asks for it."""
        mailbox = self._mailboxes.get(name)
        if mailbox is None:
            if len(self._mailboxes) >= ENDPOINTS_MAX:
                raise RequestError("TooManyEndpoints", f"there are {ENDPOINTS_MAX} already: delete some")
            mailbox = self._mailboxes[name] = Mailbox(name, self._room)
        return mailbox

    def forget(self, mailbox: Mailbox) -> None:
        self._mailboxes.pop(mailbox.name, None)
        self._routes = {target: route for target, route in self._routes.items() if route.mailbox is not mailbox}
        mailbox.clear()

    def known(self, target: bytes) -> Route | None:
        return self._routes.get(target)

    def add_route(self, target: bytes, route: Route) -> Route:
        if len(self._routes) >= ROUTES_MAX:
            raise RequestError("TooManyEndpoints", f"deliveries came to {ROUTES_MAX} URLs already: delete endpoints")
        self._routes[target] = route
        return route


def place_of(target: bytes) -> Place:
    try:
        url = urlsplit(target.decode("latin-1"))
    except ValueError:
        return Place("", "", "", "")
    found = _ENDPOINT.fullmatch(url.path)
    if found is None:
        return Place(url.path, "", "", url.query)
    return Place(url.path, found["name"], found["page"] or "", url.query)

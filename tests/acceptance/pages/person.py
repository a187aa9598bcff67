"""A person before the pages: a browser without scripts that signs in, posts forms and counts its clicks."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

import httpx

FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
HREF = re.compile(r'href="([^"]+)"')
NEXT = re.compile(r'href="([^"]+)" rel="next"')


class Person:
    """A browser without scripts, signed in."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def sign_in(self, **fields: str) -> httpx.Response:
        return self.http.post("/ui/sign-in", data=fields)

    def post(self, path: str, **fields: str) -> httpx.Response:
        return self.http.post(path, data={"form_token": self.form_token(), **fields})

    def form_token(self) -> str:
        found = FORM_TOKEN.search(self.http.get("/ui/service").text)
        assert found is not None
        return html.unescape(found[1])


@dataclass
class Clicks:
    """Follows links that a page has, and counts them. Loading a page again is no click."""

    person: Person
    path: str = "/ui/"
    count: int = 0

    def page(self) -> str:
        return html.unescape(self.person.http.get(self.path).text)

    def has(self, path: str) -> bool:
        return path in self.links()

    def links(self) -> list[str]:
        return HREF.findall(self.page())

    def turn_to(self, path: str) -> None:
        """Go to the first page of a list that links to `path`: other tests have made queues, too."""
        while not self.has(path):
            further = NEXT.search(self.page())
            assert further, f"no page up to {self.path} has a link to {path}"
            self.path = further[1]

    def click(self, path: str) -> None:
        assert self.has(path), f"{self.path} has no link to {path}: {self.links()}"
        self.path = path
        self.count += 1

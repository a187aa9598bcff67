"""Reads lists of the REST API page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class Page(Protocol):
    @property
    def next(self) -> str | None:
        """The cursor of the next page; empty or None on the last one."""
        ...


class MessagePage(Page, Protocol[Item_co]):
    @property
    def messages(self) -> Sequence[Item_co]: ...


AnyPage = TypeVar("AnyPage", bound=Page)


def pages(read: Callable[[str], AnyPage]) -> Iterator[AnyPage]:
    """Yield all pages. `read` returns the page at a cursor; the first cursor is ''."""
    after = ""
    while True:
        page = read(after)
        yield page
        if not page.next:
            return
        after = page.next


def first_messages(read: Callable[[str, int], MessagePage[Item]], n: int, page_max: int) -> Iterator[Item]:
    """Yield up to `n` messages. `read` returns the page at a cursor, with at most `page_max` messages."""
    after = ""
    while n > 0:
        page = read(after, min(n, page_max))
        yield from page.messages
        n -= len(page.messages)
        if not page.next:
            return
        after = page.next

"""Pages of the lists: a hundred items, and a token that says where the next page begins."""

from __future__ import annotations

import binascii
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from cns.errors import invalid_parameter
from cns.limits import PAGE_SIZE

Item = TypeVar("Item")


def read_token(text: str | None) -> str:
    """The key after which the page begins; '' for the first, which SDKs ask for with an empty token or none."""
    if not text:
        return ""
    try:
        return b64decode(text.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise invalid_parameter("NextToken Reason: invalid") from None


def page_of(
    items: Sequence[Item], key_of: Callable[[Item], str], n: int = PAGE_SIZE
) -> tuple[Sequence[Item], str | None]:
    """The page, and the token of the next one if there is any. `items` has one more than a page where there is."""
    if len(items) <= n:
        return items, None
    return items[:n], urlsafe_b64encode(key_of(items[n - 1]).encode()).decode("ascii")

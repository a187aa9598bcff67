"""Pages of lists, and the tokens that lead to the next page."""

from __future__ import annotations

import binascii
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from cns.errors import invalid_parameter
from cns.limits import PAGE_SIZE, RESOURCE_ARN_CHARS_MAX
from cns_common.errors import RequestError

Item = TypeVar("Item")


def read_token(text: str | None) -> str:
    """The key after which the page begins; '' for the first page, for which SDKs send an empty token or none."""
    if not text:
        return ""
    try:
        after = b64decode(text.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise _invalid_token() from None
    if len(after) > RESOURCE_ARN_CHARS_MAX:
        raise _invalid_token()
    return after


def _invalid_token() -> RequestError:
    return invalid_parameter("NextToken Reason: invalid")


def page_of(
    items: Sequence[Item], key_of: Callable[[Item], str], n: int = PAGE_SIZE
) -> tuple[Sequence[Item], str | None]:
    """The page, and the token of the next page or None. `items` has one item more than `n` when there is a next
    page."""
    if len(items) <= n:
        return items, None
    return items[:n], urlsafe_b64encode(key_of(items[n - 1]).encode()).decode("ascii")

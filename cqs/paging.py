"""Pages of sorted names: their size, the name to start after, and the token of the next page."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from cns_common.errors import RequestError
from cqs.limits import LIST_RESULTS_MAX, QUEUE_NAME_CHARS_MAX


class PageRequest(NamedTuple):
    after: str
    n: int
    tokens: bool  # AWS returns a token only if the request has a page size

    def cut(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """The page of `names` (which has one more than `n` if there are more), and the member with the next page's
        token."""
        page = names[: self.n]
        if not self.tokens or len(names) <= self.n:
            return page, {}
        return page, {"NextToken": binascii.b2a_base64(page[-1].encode(), newline=False).decode("ascii")}


def read_page(members: Mapping[str, Any]) -> PageRequest:
    n: int | None = members.get("MaxResults")
    if n is not None and not 1 <= n <= LIST_RESULTS_MAX:
        raise RequestError(
            "InvalidParameterValue",
            f"Value for parameter MaxResults is invalid. "
            f"Reason: MaxResults must be an integer between 1 and {LIST_RESULTS_MAX}.",
        )
    token = members.get("NextToken")
    return PageRequest(_after(token) if token else "", n or LIST_RESULTS_MAX, n is not None)


def _after(token: str) -> str:
    try:
        after = binascii.a2b_base64(token, strict_mode=True).decode("ascii")
    except ValueError:  # binascii.Error, or non-ASCII text before or after decoding
        raise _invalid_token() from None
    if len(after) > QUEUE_NAME_CHARS_MAX:
        raise _invalid_token()
    return after


def _invalid_token() -> RequestError:
    return RequestError("InvalidParameterValue", "Invalid or expired next token.")

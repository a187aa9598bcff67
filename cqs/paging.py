"""Pages of sorted names: how many, after which, and the token that leads to the next."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from cns_common.errors import RequestError
from cqs.limits import LIST_RESULTS_MAX
from cqs.messages.validation import invalid


class PageRequest(NamedTuple):
    after: str
    n: int
    tokens: bool  # AWS hands out a token only when a page size was asked for

    def cut(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """A page of `names` (one more than `n` when there are more), and the member that carries its token."""
        page = names[: self.n]
        if not self.tokens or len(names) <= self.n:
            return page, {}
        return page, {"NextToken": binascii.b2a_base64(page[-1].encode(), newline=False).decode("ascii")}


def read_page(members: Mapping[str, Any]) -> PageRequest:
    n: int | None = members.get("MaxResults")
    if n is not None and not 1 <= n <= LIST_RESULTS_MAX:
        raise invalid("MaxResults", n, f"MaxResults must be an integer between 1 and {LIST_RESULTS_MAX}.")
    token = members.get("NextToken")
    return PageRequest(_after(token) if token else "", n or LIST_RESULTS_MAX, n is not None)


def _after(token: str) -> str:
    try:
        return binascii.a2b_base64(token, strict_mode=True).decode("ascii")
    except ValueError:  # binascii.Error, or text beyond ASCII, outside or inside
        raise RequestError("InvalidParameterValue", "Invalid or expired next token.") from None

"""Expects the error that a call is refused with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cns_common.errors import RequestError


def complaint_of(call: Callable[..., object], *arguments: object, **members: object) -> str:
    """The text of the InvalidParameter that the call raises, without the words that all of them begin with."""
    with pytest.raises(RequestError) as refused:
        call(*arguments, **members)
    words, _, complaint = refused.value.message.partition(": ")
    assert (refused.value.code, words) == ("InvalidParameter", "Invalid parameter")
    return complaint

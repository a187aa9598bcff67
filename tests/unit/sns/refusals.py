"""What a call is refused with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cns_common.errors import RequestError


def complaint_of(call: Callable[..., object], *arguments: object) -> str:
    """The text of the InvalidParameter that the call raises, without the words that all of them begin with."""
    with pytest.raises(RequestError) as refused:
        call(*arguments)
    assert refused.value.code == "InvalidParameter"
    return refused.value.message.removeprefix("Invalid parameter: ")

"""Expects refusals of the REST API, as its client raises them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cns.client import ApiError


def refusal_of(call: Callable[..., object], *arguments: Any, **members: Any) -> tuple[int, str]:
    """The status and the code of the error that the call raises."""
    with pytest.raises(ApiError) as refused:
        call(*arguments, **members)
    return refused.value.status, refused.value.code

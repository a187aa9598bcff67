"""Tags and the tokens of pages."""

from __future__ import annotations

import pytest

from cns.paging import page_of, read_token
from cns.tags import read_tags
from tests.unit.sns.refusals import complaint_of


def tag(key: str, value: str = "v") -> dict[str, str]:
    return {"Key": key, "Value": value}


def test_tags_keep_their_order() -> None:
    assert list(read_tags([tag("b"), tag("a", ""), tag("k" * 128, "v" * 256)])) == ["b", "a", "k" * 128]


def test_a_token_leads_to_the_next_page() -> None:
    items = [f"item-{number:03} ünï" for number in range(101)]
    page, token = page_of(items, str)
    assert list(page) == items[:100]
    assert token is not None and read_token(token) == items[99]
    assert page_of(items[:100], str) == (items[:100], None)


@pytest.mark.parametrize("token", [None, ""])
def test_no_token_is_the_first_page(token: str | None) -> None:
    assert read_token(token) == ""


@pytest.mark.parametrize("token", ["x", "!!!!", "ä", "_w==", "\ud800"])
def test_other_tokens_are_refused(token: str) -> None:
    assert complaint_of(read_token, token) == "NextToken Reason: invalid"

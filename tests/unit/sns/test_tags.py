"""Tags and the tokens of pages."""

from __future__ import annotations

import pytest

from cns.paging import page_of, read_token
from cns.tags import read_tags, with_tags
from cns_common.errors import RequestError

TOO_LONG = "k" * 129


def tag(key: str, value: str = "v") -> dict[str, str]:
    return {"Key": key, "Value": value}


def test_tags_keep_their_order() -> None:
    assert list(read_tags([tag("b"), tag("a", ""), tag("k" * 128, "v" * 256)])) == ["b", "a", "k" * 128]


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ([tag("a"), tag("a")], "InvalidParameter", "Invalid parameter: Duplicated keys are not allowed."),
        (
            [tag(TOO_LONG)],
            "ValidationError",
            f"1 validation error detected: Value '{TOO_LONG}' at 'tags.1.member.key' failed to satisfy constraint: "
            "Member must have length less than or equal to 128",
        ),
        (
            [tag("a"), tag("")],
            "ValidationError",
            "1 validation error detected: Value '' at 'tags.2.member.key' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1",
        ),
        (
            [{"Key": "a"}],
            "ValidationError",
            "1 validation error detected: Value null at 'tags.1.member.value' failed to satisfy constraint: "
            "Member must not be null",
        ),
    ],
)
def test_tags_refused(given: list[dict[str, str]], code: str, text: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_tags(given)
    assert (refused.value.code, refused.value.message) == (code, text)


def test_fifty_tags_are_the_most() -> None:
    fifty = {str(number): "" for number in range(50)}
    assert len(with_tags(fifty, {"0": "new"})) == 50
    with pytest.raises(RequestError) as refused:
        with_tags(fifty, {"50": ""})
    assert (refused.value.code, refused.value.message) == (
        "TagLimitExceeded",
        "Could not complete request: tag quota of per resource exceeded",
    )


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
    with pytest.raises(RequestError) as refused:
        read_token(token)
    assert refused.value.message == "Invalid parameter: NextToken Reason: invalid"

"""Receipt handles: what is issued can be read back, and everything else is told apart."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import RequestError
from cqs.receipt_handle import handle_prefix, make_handle, read_handle

OURS = handle_prefix("00112233445566778899aabbccddeeff")
THEIRS = handle_prefix("ff112233445566778899aabbccddeeff")


@given(at_ms=st.integers(0, 2**47), handle=st.binary(min_size=1, max_size=700))
def test_round_trip(at_ms: int, handle: bytes) -> None:
    text = make_handle(OURS, at_ms, handle)
    assert len(text) <= 1024
    assert read_handle(OURS, text) == (at_ms, handle)


def test_other_queue() -> None:
    text = make_handle(THEIRS, 1, b"handle")
    with pytest.raises(RequestError) as caught:
        read_handle(OURS, text)
    assert (caught.value.code, caught.value.message) == (
        "ReceiptHandleIsInvalid",
        f'The receipt handle "{text}" is not valid for this queue.',
    )


def changed(at: int) -> str:
    sealed = bytearray(base64.b64decode(make_handle(OURS, 1, b"0123456789abcdef")))
    sealed[at] ^= 1
    return base64.b64encode(sealed).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "not base64!",
        "\u00e9\ud800",
        base64.b64encode(b"").decode(),
        base64.b64encode(bytes(range(40))).decode(),
        make_handle(OURS, 1, b""),
        make_handle(OURS, 1, b"0123456789abcdef") + "=",
        " " + make_handle(OURS, 1, b"0123456789abcdef"),
        "A" * 1028,
        *(changed(at) for at in range(33)),
    ],
)
def test_never_issued(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_handle(OURS, text)
    assert (caught.value.code, caught.value.message) == (
        "ReceiptHandleIsInvalid",
        f'The input receipt handle "{text}" is not a valid receipt handle.',
    )


@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    with pytest.raises(RequestError):
        read_handle(OURS, text)

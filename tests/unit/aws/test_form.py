"""Forms and query strings: as urllib reads them, and bounded before they are decoded."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cns_common.aws.protocol import form
from cns_common.aws.protocol.form import read_pairs
from cns_common.errors import RequestError

TEXTS = st.text(st.sampled_from("a=&%+\r\n 4zé€😀_"), max_size=12)
RAW = st.lists(st.sampled_from([b"%", b"=", b"&", b"+", b"4", b"1", b"z", b"\n", b"\r", b"%41", b"%e2%82%ac"])).map(
    b"".join
)


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_what_was_escaped_is_read(pairs: list[tuple[str, str]]) -> None:
    escaped = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs)
    assert read_pairs(b"", escaped.encode()) == pairs


@given(RAW)
def test_anything_is_read_as_urllib_does(raw: bytes) -> None:
    assert read_pairs(raw, b"") == parse_qsl(raw.decode(), keep_blank_values=True)


def test_the_query_comes_first() -> None:
    assert read_pairs(b"a=1", b"b=2&c") == [("a", "1"), ("b", "2"), ("c", "")]


def test_a_message_whose_every_byte_is_escaped_is_legal() -> None:
    text = "/" * 1_048_576
    assert read_pairs(b"", b"Message=" + quote_plus(text).encode()) == [("Message", text)]


@pytest.mark.parametrize(
    ("legal", "more"),
    [
        (b"&".join([b"a=1"] * form.PAIRS_MAX), b"&a=1"),
        (b"a=" + b"%41" * form.ESCAPES_MAX, b"%41"),
        (b"a=" + b"%zz" * form.BROKEN_ESCAPES_MAX, b"%zz"),
    ],
    ids=["pairs", "escapes", "broken escapes"],
)
def test_more_than_any_operation_has_is_refused(legal: bytes, more: bytes) -> None:
    assert read_pairs(b"", legal)
    with pytest.raises(RequestError, match="MalformedInput"):
        read_pairs(b"", legal + more)


def test_too_many_are_refused_before_any_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    monkeypatch.setattr(form, "_decode", decoded.append)
    for raw in (b"&a=1" * form.PAIRS_MAX, b"%41" * (form.ESCAPES_MAX + 1)):
        with pytest.raises(RequestError, match="MalformedInput"):
            read_pairs(b"", raw)
    assert decoded == []

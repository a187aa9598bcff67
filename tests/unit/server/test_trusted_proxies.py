"""The client that trusted proxies name, and what forged headers change: nothing."""

from __future__ import annotations

import pytest

from cns_common.configuration.checks import read_networks
from cns_server.http.trusted_proxies import ENTRY_BYTES_MAX, HOPS_MAX, Peer, TrustedProxies, read_address

PROXIES = read_networks("10.0.0.0/8,2001:db8:ffff::/48")
PEER = Peer(("10.0.0.9", 40_000), "http")
FORGED = b"198.51.100.66"
LONG = b"x" * 8_192


def origin(name: str, *lines: bytes, scheme: bytes | None = None) -> tuple[str, str]:
    proxies = TrustedProxies(PROXIES, "forwarded" if name == "forwarded" else "x-forwarded-for")
    headers = [(b"host", b"x"), *((name.encode(), line) for line in lines)]
    if scheme is not None:
        headers.append((b"x-forwarded-proto", scheme))
    client, used = proxies.origin(PEER, headers)
    return client[0], used


def client(name: str, *lines: bytes) -> str:
    return origin(name, *lines)[0]


@pytest.mark.parametrize(
    ("address", "included"),
    [
        ("10.255.0.1", True),
        ("11.0.0.1", False),
        ("2001:db8:ffff::7", True),
        ("2001:db8:fffe::7", False),
        ("", False),
        ("testclient", False),
    ],
)
def test_proxies_are_the_addresses_of_the_networks(address: str, included: bool) -> None:
    assert TrustedProxies(PROXIES, "forwarded").include(address) is included


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        (b"203.0.113.7", "203.0.113.7"),
        (b"203.0.113.7:65535", "203.0.113.7"),
        (b"203.0.113.7:_port", "203.0.113.7"),
        (b"[2001:DB8::7]:443", "2001:db8::7"),
        (b"[2001:db8::7]", "2001:db8::7"),
        (b"2001:db8::7", "2001:db8::7"),
        (b"::ffff:203.0.113.7", "203.0.113.7"),
        (b"[::ffff:203.0.113.7]:80", "203.0.113.7"),
        (b"", None),
        (b" ", None),
        (b"unknown", None),
        (b"_hidden", None),
        (b"unix:", None),
        (b"203.0.113.7:", None),
        (b"203.0.113.7:123456", None),
        (b"203.0.113", None),
        (b"203.0.113.07", None),
        (b"203.0.113.256", None),
        (b"[203.0.113.7]", None),
        (b"[2001:db8::7", None),
        (b"2001:db8::7]", None),
        (b"fe80::1%eth0", None),
        (b"203.0.113.7 198.51.100.66", None),
        (b"203.0.113.7\xb2", None),
        ("٢٠٣.0.113.7".encode(), None),
        (b"0" * (ENTRY_BYTES_MAX + 1), None),
        (LONG, None),
    ],
)
def test_an_entry_is_an_address_or_nothing(entry: bytes, address: str | None) -> None:
    assert read_address(entry) == address


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"203.0.113.7"], "203.0.113.7"),
        ([b"203.0.113.7, 10.0.0.1"], "203.0.113.7"),
        ([b"203.0.113.7", b"10.0.0.1 ,\t10.0.0.2"], "203.0.113.7"),
        ([b"203.0.113.7", b"::ffff:10.0.0.1"], "203.0.113.7"),
        ([b"2001:db8::7,2001:db8:ffff::1"], "2001:db8::7"),
        ([b"::ffff:203.0.113.7"], "203.0.113.7"),
        ([b"10.1.1.1,10.0.0.1"], "10.1.1.1"),  # all are trusted: the farthest
        ([], "10.0.0.9"),
    ],
)
def test_the_client_is_the_rightmost_address_that_is_not_trusted(lines: list[bytes], expected: str) -> None:
    assert client("x-forwarded-for", *lines) == expected


@pytest.mark.parametrize(
    "forged",
    [FORGED, b"10.0.0.1", b"", b",,,", b"unknown", b"_x", LONG, b"1," * 4_000, b'"', b'for="', b"[", b"\xff\x00"],
)
@pytest.mark.parametrize("own_line", [True, False])
def test_what_a_client_writes_itself_does_not_count(forged: bytes, own_line: bool) -> None:
    """A proxy appends to the line of the client, or adds its own after it."""
    true = b"203.0.113.7"
    lines = [forged, true] if own_line else [forged + b", " + true]
    assert client("x-forwarded-for", *lines) == "203.0.113.7"


QUOTED = b'For="[2001:db8::7]:4711";proto=https;by="a;\\"b, c"'


@pytest.mark.parametrize(
    "forged",
    [
        b"for=198.51.100.66",
        b'for="198.51.100.66',
        b'for=198.51.100.66;by="',
        b'for=198.51.100.66;by="\\',
        b'"',
        b"\\",
        b"",
        b",,",
        b"for=10.0.0.1",
        LONG,
        b'for="' + LONG,
    ],
)
@pytest.mark.parametrize("own_line", [True, False])
@pytest.mark.parametrize(
    ("true", "expected"), [(QUOTED, "2001:db8::7"), (b"for=203.0.113.7;by=_p", "203.0.113.7"), (b"for=_h", "10.0.0.9")]
)
def test_an_odd_quote_does_not_change_how_what_follows_is_read(
    forged: bytes, own_line: bool, true: bytes, expected: str
) -> None:
    lines = [forged, true] if own_line else [forged + b", " + true]
    assert client("forwarded", *lines) == expected


@pytest.mark.parametrize(
    "entry", [b"", b"unknown", b"_hidden", b"10.0.0.1 10.0.0.2", b"unix:", b"1" * 200, LONG, b"10.0.0.1%x"]
)
@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded"])
def test_an_unknown_entry_behind_trusted_ones_ends_the_walk(header: str, entry: bytes) -> None:
    """The proxy that wrote it is trusted, and does not know or say. Nothing on its left counts."""
    parts = [FORGED, entry, b"10.0.0.1"]
    if header == "forwarded":
        parts = [b"for=" + part for part in parts]
    assert client(header, b", ".join(parts)) == "10.0.0.9"
    assert client(header, parts[0], parts[1], parts[2]) == "10.0.0.9"


def test_a_chain_without_end_names_nobody() -> None:
    trusted = [b"10.0.0.1"] * (HOPS_MAX - 1)
    assert client("x-forwarded-for", b",".join([FORGED, *trusted])) == FORGED.decode()
    assert client("x-forwarded-for", b",".join([FORGED, b"10.0.0.1", *trusted])) == "10.0.0.9"


@pytest.mark.parametrize(
    "element", [b"proto=https", b"for=10.0.0.1;for=203.0.113.7", b"for", b"for==1", b"for=10.0.0.1;", b"for=\xe9"]
)
def test_a_malformed_element_names_nobody(element: bytes) -> None:
    assert client("forwarded", b"for=198.51.100.66, " + element) == "10.0.0.9"


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded"])
def test_only_the_header_of_the_setting_is_read(header: str) -> None:
    other = "x-forwarded-for" if header == "forwarded" else "forwarded"
    proxies = TrustedProxies(PROXIES, "forwarded" if header == "forwarded" else "x-forwarded-for")
    value = FORGED if other == "x-forwarded-for" else b"for=" + FORGED
    assert proxies.origin(PEER, [(other.encode(), value), (b"x-real-ip", FORGED)]) == PEER


@pytest.mark.parametrize(
    ("value", "scheme"),
    [
        (b"https", "https"),
        (b"HTTPS", "https"),
        (b"http", "http"),
        (b"https, https", "https"),
        (b"https, http", "http"),
        (b"http,https", "http"),
        (b"https,", "http"),
        (b"", "http"),
        (b"wss", "http"),
        (None, "http"),
    ],
)
def test_the_scheme_is_https_if_every_value_says_so(value: bytes | None, scheme: str) -> None:
    assert origin("x-forwarded-for", b"203.0.113.7", scheme=value) == ("203.0.113.7", scheme)


def test_a_proxy_may_speak_tls_for_a_client_that_does_not() -> None:
    proxies, peer = TrustedProxies(PROXIES, "x-forwarded-for"), Peer(("10.0.0.9", 1), "https")
    assert proxies.origin(peer, [(b"x-forwarded-proto", b"http")]).scheme == "http"
    assert proxies.origin(peer, []).scheme == "https"


@pytest.mark.parametrize(
    ("lines", "scheme"),
    [
        ([b"for=203.0.113.7;proto=https"], "https"),
        ([b'for=203.0.113.7;proto="HTTPS"', b"for=10.0.0.1;proto=http"], "https"),
        ([b"for=198.51.100.66;proto=https", b"for=203.0.113.7"], "http"),
        ([b"for=198.51.100.66;proto=https, for=203.0.113.7;proto=http"], "http"),
        ([b"for=_hidden;proto=https"], "http"),
    ],
)
def test_forwarded_has_the_scheme_beside_the_client(lines: list[bytes], scheme: str) -> None:
    assert origin("forwarded", *lines, scheme=b"https")[1] == scheme

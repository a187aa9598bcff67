"""The form in which a client's address is compared."""

from __future__ import annotations

import pytest

from cns_common.peer_address import peer_address
from cns_server.http.connection_table import network_of


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::FFFF:c000:201", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_one_form(address: str, shown: str) -> None:
    assert peer_address(address) == shown


def test_an_ipv6_client_is_its_network() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db8:0:1::1")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")

"""Deliveries go to public addresses only, in whatever form an address is written."""

from __future__ import annotations

import pytest

from cns.endpoints.address_guard import AddressGuard


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("8.8.8.8", True),
        ("2a00:1450:4001::1", True),
        ("64:ff9b::808:808", True),  # by NAT64 8.8.8.8
        ("127.0.0.1", False),
        ("0.0.0.0", False),  # this machine itself
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("192.0.0.192", False),  # a cloud's metadata
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00:ec2::254", False),
        ("fec0::1", False),
        ("ff0e::1", False),
        ("::ffff:127.0.0.1", False),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2001:0:7f00:1::1", False),
    ],
)
def test_what_is_public(address: str, allowed: bool) -> None:
    assert AddressGuard(()).allows(address) is allowed


def test_a_network_that_is_allowed() -> None:
    guard = AddressGuard(["10.0.0.0/8", "fec0::/10"])
    assert [guard.allows(text) for text in ("10.1.2.3", "::ffff:10.1.2.3", "fec0::1", "192.168.0.1")] == [
        True,
        True,
        True,
        False,
    ]

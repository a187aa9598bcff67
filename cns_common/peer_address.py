"""The address of a client in one form, as policies, limits and logs compare it."""

from __future__ import annotations

from ipaddress import IPv6Address


def peer_address(address: str) -> str:
    """An IPv4 client of an IPv6 socket (`::ffff:a.b.c.d`, RFC 4291) as IPv4; an IPv6 address without its zone."""
    if ":" not in address:
        return address
    plain = address.partition("%")[0]
    mapped = IPv6Address(plain).ipv4_mapped
    return plain if mapped is None else str(mapped)

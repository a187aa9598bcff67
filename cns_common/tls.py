"""Outgoing TLS: trusts the system's authorities, and those that the operator adds."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path


@cache
def client_context(ca_bundle: Path | None) -> ssl.SSLContext:
    """The context of outgoing connections, which checks host names; `ca_bundle` is PEM.

    It is shared by all threads: reading the system's certificates takes longer than starting a thread.
    """
    context = ssl.create_default_context()
    if ca_bundle is not None:
        context.load_verify_locations(ca_bundle)
    return context


def ca_bundle_fault(ca_bundle: Path) -> str | None:
    """Describe the fault of a bundle; None without a fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca_bundle)
    except ssl.SSLError:
        return "this is no PEM file of certificates"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None

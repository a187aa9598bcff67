"""Which services a command sends its token to."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns_backend.metrics_token import request_headers
from cns_common.configuration.settings import Settings

TOKEN = "the-token-of-this-test"


@pytest.mark.parametrize(
    ("url", "named", "sent"),
    [
        ("http://127.0.0.1:7000", False, True),  # its own
        ("http://localhost:7000/", False, True),
        ("http://cns.example.com", False, True),  # its own by CNS_PUBLIC_URL
        ("https://other.example.com", False, True),
        ("http://[::1]:4566", True, True),
        ("http://localhost:4566", True, True),
        ("http://localhost:4566", False, False),  # by AWS_ENDPOINT_URL: another product
        ("http://other.example.com", True, False),
        ("http://cns.example.com:81", True, False),
        ("http://localhost.example.com", True, False),
        ("http://localhost@other.example.com", True, False),
        ("http://[::1", True, False),
        ("", True, False),
    ],
)
def test_the_token_is_for_own_and_safe_services(tmp_path: Path, url: str, named: bool, sent: bool) -> None:
    settings = Settings(data=tmp_path, port=7000, public_url="http://cns.example.com", metrics_token=TOKEN)
    told = request_headers(settings, url, named=named)
    assert told == ({"authorization": f"Bearer {TOKEN}"} if sent else {})

"""The egress proxy's URL: what it may hold, and that no error shows its password."""

from __future__ import annotations

import pytest

from cns_common.configuration.proxy_url import EgressProxy, read_proxy_url
from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import StartError


def test_all_parts_are_read() -> None:
    assert read_proxy_url("http://proxy:3128") == EgressProxy(host="proxy", port=3128)
    read = read_proxy_url("http://me:p%40ss%3A1@[fd00::1]:8080/")
    assert read == EgressProxy(host="fd00::1", port=8080, user="me", password="p@ss:1")
    assert "p@ss" not in repr(read)


@pytest.mark.parametrize(
    "url",
    [
        "proxy:3128",
        "https://me:s3cret@proxy:3128",
        "http://me:s3cret@proxy",
        "http://me:s3cret@proxy:0",
        "http://me:s3cret@proxy:99999",
        "http://me:s3cret@proxy:3128/path",
        "http://me:s3cret@proxy:3128?query",
        "http://me:s3cret@[proxy:3128",
        "http://me%3A:s3cret@proxy:3128",
        "http://me:s3cret@prox\r\ny:3128",
        "http://me:s3cret@:3128",
    ],
)
def test_other_urls_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_EGRESS_PROXY", url)
    with pytest.raises(StartError) as refused:
        load_settings()
    assert "CNS_EGRESS_PROXY=…: " in str(refused.value) and "s3cret" not in str(refused.value)


def test_by_name_needs_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_EGRESS_PROXY_RESOLVES", "by-name")
    with pytest.raises(StartError, match="needs CNS_EGRESS_PROXY"):
        load_settings()
    monkeypatch.setenv("CNS_EGRESS_PROXY", "http://me:s3cret@proxy:3128")
    assert load_settings().names_go_to_proxy
    assert "s3cret" not in repr(Settings())

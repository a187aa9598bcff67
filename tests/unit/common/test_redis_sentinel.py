"""URLs of Redis behind Sentinels."""

from __future__ import annotations

import pytest

from cns_common.configuration.checks import check_redis_urls
from cns_common.redis.sentinel import celery_urls, read_sentinel_url
from cns_common.redis.urls import address_of, read_server_urls, url_at

URL = "redis+sentinel://u:p%40@one:1,two,[::1]:3/queues?db=2"


def test_a_url_names_sentinels_and_the_server() -> None:
    address = read_sentinel_url(URL)
    assert address.sentinels == (("one", 1), ("two", 26379), ("::1", 3))
    assert (address.name, address.user, address.password, address.database) == ("queues", "u", "p@", 2)


def test_it_may_be_one_of_several_servers() -> None:
    check_redis_urls(f"a={URL} b=redis://h/0")
    assert read_server_urls(f"a={URL} b=redis://h/0")["a"] == URL


def test_a_layout_keeps_its_address_without_secrets() -> None:
    kept = address_of(URL)
    assert kept == "redis+sentinel://one:1,two,[::1]:3/queues?db=2"
    assert url_at(kept, URL) == URL


def test_celery_is_given_a_url_for_each_sentinel() -> None:
    assert celery_urls("redis+sentinel://:s@a:1,b:2/q?db=1") == "sentinel://:s@a:1/1;sentinel://:s@b:2/1"


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://one:1",
        "redis+sentinel:///queues",
        "redis+sentinel://one:x/queues",
        "redis+sentinel://one:99999/queues",
        "redis+sentinel://one,/queues",
        "redis+sentinel://one/a/b",
        "redis+sentinel://one/queues?db=x",
        "redis+sentinel://one/queues?timeout=1",
    ],
)
def test_another_form_is_refused_with_the_right_one(url: str) -> None:
    with pytest.raises(ValueError, match=r"must be redis\+sentinel://host:port,host:port/name"):
        check_redis_urls(url)

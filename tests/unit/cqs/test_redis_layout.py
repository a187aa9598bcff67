"""The Redis server of a shard, and the shards that a change of the list of servers moves."""

from __future__ import annotations

from collections import Counter

import pytest

from cns_common.cluster.rendezvous import rendezvous
from cns_common.ids import hex_id
from cns_common.redis.urls import address_of, first_url, read_server_urls, url_at
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.servers.layout import HISTORY_MAX, Layout, ServerAddress

QUEUES = 10_000


def layout_of(*names: str) -> Layout:
    return Layout.first(servers(*names))


def servers(*names: str) -> tuple[ServerAddress, ...]:
    return tuple([ServerAddress(name, f"redis://{name}:6379/0") for name in names])


def server_of(layout: Layout, shard: QueueShard) -> str:
    placement = layout.place(shard)
    assert placement is not None
    return placement.server


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_one_of_n_queues_moves(n: int) -> None:
    """All that move go to the new server, about as many from each; removed again, they return."""
    names = tuple([f"s{number}" for number in range(n)])
    queues = [hex_id() for _ in range(QUEUES)]
    before = {queue: rendezvous(names, queue) for queue in queues}
    after = {queue: rendezvous((*names, "new"), queue) for queue in queues}
    moved = [queue for queue in queues if before[queue] != after[queue]]
    assert {after[queue] for queue in moved} == {"new"}
    assert len(moved) == pytest.approx(QUEUES / (n + 1), rel=0.1)
    assert min(Counter(before.values()).values()) > 0.85 * QUEUES / n


def test_a_queue_that_returns_is_placed_since_it_did() -> None:
    """So its content from before is not trusted. Others keep theirs."""
    first = layout_of("a", "b")
    second = first.with_servers(5, servers("a", "b", "c"))
    third = second.with_servers(9, servers("a", "b"))
    for number in range(200):
        shard = QueueShard(f"queue-{number}")
        moved = server_of(second, shard) == "c"
        assert server_of(third, shard) == server_of(first, shard)
        assert [one.place(shard).since for one in (first, second, third)] == ([0, 5, 9] if moved else [0, 0, 0])  # type: ignore[union-attr]  # it has a place


def test_the_order_and_the_addresses_move_nothing() -> None:
    first = layout_of("a", "b")
    second = first.with_servers(5, (ServerAddress("b", "redis://elsewhere"), ServerAddress("a", "redis://a:6379/0")))
    shards = [QueueShard(f"queue-{number}") for number in range(200)]
    assert [first.place(shard) for shard in shards] == [second.place(shard) for shard in shards]


def test_more_shards_are_placed_anew() -> None:
    first = layout_of("a", "b", "c")
    second = first.with_shards(7, {"queue": 4})
    assert first.place(QueueShard("queue", 0, 4)) is None
    assert second.place(QueueShard("queue")) is None
    placements = [second.place(shard) for shard in second.shards("queue")]
    assert [one and one.since for one in placements] == [7] * 4
    assert second.shards("another") == (QueueShard("another"),)
    third = second.with_shards(8, {"queue": 1})
    assert third.place(QueueShard("queue")).since == 8  # type: ignore[union-attr]  # it has a place
    assert third.with_shards(9, {"queue": 0}).place(QueueShard("queue")).since == 0  # type: ignore[union-attr]  # as above


def test_the_text_is_bounded_and_the_layout_survives_it() -> None:
    layout = layout_of("a")
    for epoch in range(1, 3 * HISTORY_MAX):
        layout = layout.with_servers(epoch, servers("a", *(["b"] if epoch % 2 else [])))
    again = Layout.read(layout.epoch, layout.write())
    assert len(again.text.lists) == HISTORY_MAX
    for number in range(50):
        shard = QueueShard(f"queue-{number}")
        assert again.place(shard) == layout.place(shard)


def test_urls_of_servers() -> None:
    text = "redis://u:secret@one:1/0  far=rediss://two:2/3\nunix:///run/redis"
    assert read_server_urls(text) == {
        "redis": "redis://u:secret@one:1/0",
        "far": "rediss://two:2/3",
        "redis-3": "unix:///run/redis",
    }
    assert first_url(text) == "redis://u:secret@one:1/0"
    assert (first_url(""), read_server_urls("")) == ("", {})
    with pytest.raises(ValueError, match="two servers have the name a"):
        read_server_urls("a=redis://one a=redis://two")


def test_a_recorded_address_has_no_secret() -> None:
    assert address_of("redis://u:se%40cret@one:1/0?ssl_ca_certs=x") == "redis://one:1/0?ssl_ca_certs=x"
    assert url_at("redis://two:2/0", "redis://u:secret@one:1/0") == "redis://u:secret@two:2/0"
    assert url_at("redis://two:2/0", "redis://one:1/0") == "redis://two:2/0"

"""The layout: the Redis servers of a cluster by name, and how many shards a queue's cache has.

The server of a shard is chosen by rendezvous hashing: of n servers, one that is added takes about 1/(n+1) of the shards
of each other one, and no shard moves between two that stay.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from cns_common.bounded_cache import BoundedCache
from cns_common.cluster.rendezvous import rendezvous
from cqs.engines.cluster.ids import QueueShard

PLACEMENTS_MAX = 20_000
HISTORY_MAX = 50
"""Earlier lists of servers that are remembered. Content of an older list has expired: see `redis.cache.IDLE_TTL_MS`."""


class ServerAddress(msgspec.Struct, frozen=True, array_like=True):
    name: str
    address: str
    """A URL without user and password."""


class ServerList(msgspec.Struct, frozen=True, array_like=True):
    """The names of the servers from a layout's epoch on."""

    epoch: int
    names: tuple[str, ...]


class Shards(msgspec.Struct, frozen=True, array_like=True):
    """The number of a queue's shards from a layout's epoch on."""

    epoch: int
    count: int


class Placement(NamedTuple):
    server: str
    since: int
    """The epoch of the layout that put the shard there; 0 if it was there from the start."""


class LayoutText(msgspec.Struct, frozen=True):
    """The content of the layout's row."""

    servers: tuple[ServerAddress, ...] = ()
    lists: tuple[ServerList, ...] = ()
    """The newest first."""
    shards: dict[str, Shards] = {}
    """The shards of queues that have, or had, more than one; by queue."""


class Layout:
    def __init__(self, epoch: int, text: LayoutText) -> None:
        self.epoch = epoch
        self.text = text
        self._placements: BoundedCache[QueueShard, Placement] = BoundedCache(PLACEMENTS_MAX)

    @classmethod
    def read(cls, epoch: int, text: str) -> Layout:
        return cls(epoch, msgspec.json.decode(text, type=LayoutText) if text else LayoutText())

    def write(self) -> str:
        return msgspec.json.encode(self.text).decode()

    @property
    def servers(self) -> tuple[ServerAddress, ...]:
        return self.text.servers

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.text.servers]

    def shard_count(self, queue_id: str) -> int:
        known = self.text.shards.get(queue_id)
        return 1 if known is None else known.count

    def shards(self, queue_id: str) -> tuple[QueueShard, ...]:
        count = self.shard_count(queue_id)
        return tuple([QueueShard(queue_id, number, count) for number in range(count)])

    def place(self, shard: QueueShard) -> Placement | None:
        """The placement of the shard; None if the queue has another number of shards."""
        if shard.of != self.shard_count(shard.queue_id) or not self.text.lists:
            return None
        placement = self._placements.get(shard)
        if placement is None:
            placement = self._place(shard)
            self._placements.put(shard, placement)
        return placement

    def _place(self, shard: QueueShard) -> Placement:
        newest, *earlier = self.text.lists
        server, since = rendezvous(newest.names, shard.name), newest.epoch
        for before in earlier:
            if rendezvous(before.names, shard.name) != server:
                break
            since = before.epoch
        sharded = self.text.shards.get(shard.queue_id)
        return Placement(server, max(since, sharded.epoch if sharded else 0))

    # -- the next layout ----------------------------------------------------------------------------------------------

    @classmethod
    def first(cls, servers: tuple[ServerAddress, ...]) -> Layout:
        return cls(0, LayoutText(servers, (ServerList(0, tuple([one.name for one in servers])),)))

    def with_servers(self, epoch: int, servers: tuple[ServerAddress, ...]) -> Layout:
        names = tuple([one.name for one in servers])
        lists = self.text.lists
        if not lists or set(names) != set(lists[0].names):
            lists = (ServerList(epoch, names), *lists)
            lists = (*lists[: HISTORY_MAX - 1], lists[-1]) if len(lists) > HISTORY_MAX else lists
        return Layout(epoch, msgspec.structs.replace(self.text, servers=servers, lists=lists))

    def with_shards(self, epoch: int, counts: dict[str, int]) -> Layout:
        """The next layout, with other numbers of shards of some queues; 0 for a queue that was dropped."""
        shards = self.text.shards | {queue_id: Shards(epoch, count) for queue_id, count in counts.items()}
        kept = {queue_id: one for queue_id, one in shards.items() if one.count}
        return Layout(epoch, msgspec.structs.replace(self.text, shards=kept))

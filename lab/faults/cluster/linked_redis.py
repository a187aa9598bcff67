"""A Redis that each process reaches by a link of its own: a link is cut, or all links lead to a promoted replica."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from lab.harness.own_redis import OwnRedis
from lab.harness.processes import Process
from lab.harness.tcp_proxy import TcpProxy
from lab.harness.waiting import wait_until

SYNC_S = 30.0
AT_ONCE = ("--repl-diskless-sync-delay", "0")


class LinkedRedis:
    """`redis` is the first master; its creator ends it."""

    def __init__(self, directory: Path, redis: OwnRedis) -> None:
        self._directory = directory
        self._master = redis
        self._replica: OwnRedis | None = None
        self._links: list[TcpProxy] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def link(self, processes: Sequence[Process]) -> None:
        """Give each process a link, before its start."""
        for process in processes:
            link = self._stack.enter_context(TcpProxy(self._master.port))
            self._links.append(link)
            process.environment = {**process.environment, "CNS_REDIS": link.redis_url}

    def cut(self, number: int) -> None:
        self._links[number].cut()

    def heal(self, number: int) -> None:
        self._links[number].heal()

    def kill_master(self) -> None:
        """Kill the master when a replica has all its keys."""
        with redis.Redis(port=self._master.port) as master:
            master.config_set("repl-diskless-sync-delay", 0)
        replica = self._replica = OwnRedis(self._directory, options=AT_ONCE)
        self._stack.callback(replica.kill)
        replica.start()
        with redis.Redis(port=replica.port) as client:
            client.replicaof("127.0.0.1", str(self._master.port))
            wait_until(lambda: client.info("replication").get("master_link_status") == "up", SYNC_S)
        self._master.kill()

    def promote(self) -> None:
        """Make the replica the master, to which all links lead."""
        assert self._replica is not None
        with redis.Redis(port=self._replica.port) as client:
            client.replicaof("NO", "ONE")
        self._master, self._replica = self._replica, None
        for link in self._links:
            link.point_at(self._master.port)

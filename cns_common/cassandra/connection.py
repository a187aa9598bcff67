"""The connection to a Cassandra cluster: its address, and how the driver routes, repeats and dates statements."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import (
    ConstantSpeculativeExecutionPolicy,
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    RetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import tuple_factory

from cns_common.cassandra.failures import FAILURES
from cns_common.cassandra.write_timestamps import WriteDates
from cns_common.configuration.checks import read_contact_points
from cns_common.configuration.settings import Settings

STATEMENT_S = 7.0
"""A statement with its tries. It ends before the deadline of the call to the API that runs it."""
RECONNECT_S_MIN, RECONNECT_S_MAX = 0.5, 5.0
CONNECT_TIMEOUT_S = 10.0
SOCKET_OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
"""The driver sends pieces of 4 KiB. With Nagle's algorithm the last one waits for Cassandra's delayed acknowledgement:
40 ms."""
HEARTBEAT_S = 5
PROTOCOL_VERSION = 4
"""Known to Cassandra 3 and later. Version 5 frames and checks each message again, in Python: 50 of 190 µs."""
SPECULATE_AFTER_S = 0.25
"""An idempotent statement is also sent to another replica if the first does not answer for this long."""
SPECULATE_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraAddress:
    """Contact points of a Cassandra cluster, with keyspace and data centre."""

    hosts: tuple[str, ...]
    port: int = 9042
    keyspace: str = "cns"
    data_centre: str = "datacenter1"
    sites: tuple[tuple[str, int], ...] = ()
    """The data centres of a keyspace with several, with their replicas."""


def cassandra_address(settings: Settings) -> CassandraAddress:
    """The contact points, keyspace and data centre of the settings."""
    points = read_contact_points(settings.cassandra)
    return CassandraAddress(
        hosts=points.hosts,
        port=points.port,
        keyspace=settings.cassandra_keyspace,
        data_centre=settings.cassandra_data_centre,
        sites=tuple(settings.site_replicas().items()),
    )


class IdempotentRetryPolicy(RetryPolicy):  # type: ignore[misc]  # the driver ships no types
    """Retries only idempotent statements.

    The driver's own policy sends any statement whose connection broke to the next node. A conditional one that was
    applied by then would find its condition false, and be reported as not applied.
    """

    def on_request_error(
        self, query: Any, consistency: int, error: Exception, retry_num: int
    ) -> tuple[int, int | None]:
        if not query.is_idempotent:
            return self.RETHROW, None
        decision: tuple[int, int | None] = super().on_request_error(query, consistency, error, retry_num)
        return decision

    def on_unavailable(
        self, query: Any, consistency: int, required_replicas: int, alive_replicas: int, retry_num: int
    ) -> tuple[int, int | None]:
        """The lack of replicas may show after some of them accepted a conditional statement. The driver passes the
        arguments by these names."""
        if not query.is_idempotent:
            return self.RETHROW, None
        decision: tuple[int, int | None] = super().on_unavailable(
            query, consistency, required_replicas, alive_replicas, retry_num
        )
        return decision


@dataclass(frozen=True, slots=True)
class CassandraConnection:
    cluster: Cluster
    session: Session
    addresses: frozenset[str]
    """The addresses of the contact points' names, as resolved for this connection."""


def connect(address: CassandraAddress, dates: WriteDates, keyspace: bool) -> CassandraConnection:
    """Connect. Blocks until a contact point has answered. Raises one of `FAILURES`."""
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(address.data_centre)),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        retry_policy=IdempotentRetryPolicy(),
        speculative_execution_policy=ConstantSpeculativeExecutionPolicy(SPECULATE_AFTER_S, SPECULATE_MAX),
        request_timeout=STATEMENT_S,
        row_factory=tuple_factory,
    )
    addresses = resolved(address.hosts)
    cluster = Cluster(
        address.hosts,
        port=address.port,
        protocol_version=PROTOCOL_VERSION,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=CONNECT_TIMEOUT_S,
        control_connection_timeout=CONNECT_TIMEOUT_S,
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=HEARTBEAT_S,
        reconnection_policy=ExponentialReconnectionPolicy(RECONNECT_S_MIN, RECONNECT_S_MAX),
        timestamp_generator=dates,
        sockopts=SOCKET_OPTIONS,
    )
    try:
        return CassandraConnection(cluster, cluster.connect(address.keyspace if keyspace else None), addresses)
    except FAILURES:
        cluster.shutdown()
        raise


def resolved(hosts: Sequence[str]) -> frozenset[str]:
    """Resolve names; blocks. A name that does not resolve has no address."""
    found: set[str] = set()
    for host in hosts:
        with contextlib.suppress(socket.gaierror):
            found |= {str(information[4][0]) for information in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return frozenset(found)

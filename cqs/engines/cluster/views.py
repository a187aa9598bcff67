"""The decisions that all processes share (`View`): for each Redis server whether it is used, and the list of servers.

The view of a server decides for each epoch the run id of the server that is *trusted*, i.e. used by all; '' if none is:
then processes hide messages by claims on buckets. A change of the server, or a loss of its content, begins an epoch.
Messages are leased in an epoch once all living processes act by it. Until then each process saves what it hid under the
epoch before into the messages' rows.
"""

from __future__ import annotations

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.cluster.lease import LeaseTimes
from cns_common.cluster.membership import MemberRows
from cns_common.cluster.view import View, ViewRows
from cns_common.redis.urls import FIRST_SERVER
from cqs.engines.cluster import schema

TTL_S = 6
TIMES = LeaseTimes(certain_ms=4_000, renew_ms=1_500)
LAYOUT = "layout/"
"""The name of the view of the list of servers. No server has such a name."""

_ROWS = ViewRows(schema.READ_VIEW, schema.CONFIRM_VIEW, schema.BEGIN_FIRST_EPOCH, schema.BEGIN_NEXT_EPOCH)


def open_view(cassandra: Cassandra, clock: Clock, process: str, name: str = FIRST_SERVER) -> View:
    """The view of a server, or of the layout. Each activation of a site has views of its own, so that no state of the
    site before is taken over."""
    key = f"{name}@{cassandra.activation}" if cassandra.activation else name
    members = MemberRows(schema.RENEW_VIEW, schema.LEAVE_VIEW, TTL_S, TIMES)
    return View(cassandra, clock, _ROWS, members, process, key)

"""CNS's stores in Cassandra, for the cluster: processes share the tables, each through its own session."""

from cns.stores.cassandra.archives import CassandraArchiveStore
from cns.stores.cassandra.mobile_endpoints import CassandraMobileEndpointStore
from cns.stores.cassandra.notifications import CassandraNotificationStore
from cns.stores.cassandra.outbox import CassandraOutboxStore
from cns.stores.cassandra.platforms import CassandraPlatformStore
from cns.stores.cassandra.replays import CassandraReplayStore
from cns.stores.cassandra.signing_key import CassandraSigningKeyStore
from cns.stores.cassandra.sms import CassandraSmsStore
from cns.stores.cassandra.subscriptions import CassandraSubscriptionStore
from cns.stores.cassandra.topics import CassandraTopicStore

__all__ = [
    "CassandraArchiveStore",
    "CassandraMobileEndpointStore",
    "CassandraNotificationStore",
    "CassandraOutboxStore",
    "CassandraPlatformStore",
    "CassandraReplayStore",
    "CassandraSigningKeyStore",
    "CassandraSmsStore",
    "CassandraSubscriptionStore",
    "CassandraTopicStore",
]

"""CNS's stores of the cluster form, in Cassandra: what several processes share, each with a session of its own."""

from cns.stores.cassandra.notifications import CassandraNotificationStore
from cns.stores.cassandra.signing_key import CassandraSigningKeyStore
from cns.stores.cassandra.subscriptions import CassandraSubscriptionStore
from cns.stores.cassandra.topics import CassandraTopicStore

__all__ = [
    "CassandraNotificationStore",
    "CassandraSigningKeyStore",
    "CassandraSubscriptionStore",
    "CassandraTopicStore",
]

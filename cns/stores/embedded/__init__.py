"""CNS's stores in SQLite: in the database of the embedded queue engine, so that their writes share its commits."""

from cns.stores.embedded.archives import EmbeddedArchiveStore
from cns.stores.embedded.mobile_endpoints import EmbeddedMobileEndpointStore
from cns.stores.embedded.notifications import EmbeddedNotificationStore
from cns.stores.embedded.outbox import EmbeddedOutboxStore
from cns.stores.embedded.platforms import EmbeddedPlatformStore
from cns.stores.embedded.replays import EmbeddedReplayStore
from cns.stores.embedded.sms import EmbeddedSmsStore
from cns.stores.embedded.subscriptions import EmbeddedSubscriptionStore
from cns.stores.embedded.topics import EmbeddedTopicStore

__all__ = [
    "EmbeddedArchiveStore",
    "EmbeddedMobileEndpointStore",
    "EmbeddedNotificationStore",
    "EmbeddedOutboxStore",
    "EmbeddedPlatformStore",
    "EmbeddedReplayStore",
    "EmbeddedSmsStore",
    "EmbeddedSubscriptionStore",
    "EmbeddedTopicStore",
]

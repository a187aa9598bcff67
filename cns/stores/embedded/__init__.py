"""CNS's stores in the store host: tables beside the embedded queue engine's, so that their writes share its commits."""

from cns.stores.embedded.notifications import EmbeddedNotificationStore
from cns.stores.embedded.subscriptions import EmbeddedSubscriptionStore
from cns.stores.embedded.topics import EmbeddedTopicStore

__all__ = ["EmbeddedNotificationStore", "EmbeddedSubscriptionStore", "EmbeddedTopicStore"]

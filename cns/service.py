"""The notification service: its parts, wired over the stores, the queue port and the clock they are given."""

from __future__ import annotations

from cns.access import Access
from cns.confirmations import Confirmations
from cns.consent import Consent
from cns.limits import Quotas
from cns.matching import Matching
from cns.publishing import Publishing
from cns.queue_port import QueuePort
from cns.stores.contract import NotificationStore, SubscriptionStore, TopicStore
from cns.subscribing import CheckEndpoint, Subscribing
from cns.subscriptions import Subscriptions
from cns.topic_view import TopicCache
from cns.topics import Topics
from common.clock import Clock
from common.events import EventSink

DEFAULT_QUOTAS = Quotas()


class NotificationService:
    """What the API's operations are written in."""

    def __init__(
        self,
        *,
        topics: TopicStore,
        subscriptions: SubscriptionStore,
        notifications: NotificationStore,
        queue: QueuePort,
        clock: Clock,
        events: EventSink,
        check_endpoint: CheckEndpoint,
        one_commit: bool = True,
        quotas: Quotas = DEFAULT_QUOTAS,
    ) -> None:
        self.topic_cache = cache = TopicCache(topics)
        access = Access(cache, subscriptions, clock)
        confirmations = Confirmations(queue, clock)
        self.topics = Topics(topics, subscriptions, access, clock, quotas)
        self.subscriptions = Subscriptions(subscriptions, cache, access)
        self.subscribing = Subscribing(subscriptions, access, confirmations, clock, quotas, check_endpoint)
        self.consent = Consent(subscriptions, cache, access, confirmations, clock)
        self.publishing = Publishing(
            cache, access, Matching(subscriptions), notifications, queue, clock, events, one_commit=one_commit
        )

"""The notification service: wires its parts over stores, queue port and clock."""

from __future__ import annotations

from typing import Protocol

from cns.archives.archiver import Archiver
from cns.archives.replay_api import SubscriptionReplays
from cns.authorization import Access
from cns.limits import Quotas
from cns.mail.links import MailLinks
from cns.publishing.accept import STORES_TOO, CommitScope, PublishAcceptor
from cns.publishing.matching import SubscriptionMatcher
from cns.publishing.publish import Publisher
from cns.publishing.publish_direct import DirectJobs, DirectPublisher
from cns.publishing.recipient_checks import RecipientChecks
from cns.push.applications import PlatformApplications
from cns.push.endpoints import MobileEndpoints
from cns.push.events import EndpointEvents
from cns.queue_port.contract import QueuePort
from cns.sms.sandbox import SmsSandbox
from cns.sms.settings import SmsSettings
from cns.stores.contract import ArchiveStore, NotificationStore, ReplayStore, SubscriptionStore, TopicStore
from cns.stores.mobile_contract import MobileEndpointStore, PlatformStore, SmsStore
from cns.subscriptions.confirm_and_unsubscribe import ConsentHandler
from cns.subscriptions.confirmation_tokens import Confirmations
from cns.subscriptions.subscribe import SubscribeHandler, UrlChecks, endpoint_checks
from cns.subscriptions.subscriptions import Subscriptions
from cns.topics.cache import TopicCache
from cns.topics.data_protection import DataProtection
from cns.topics.topics import Topics
from cns_common.clock import Clock
from cns_common.events.schema import EventSink

DEFAULT_QUOTAS = Quotas()


class NotificationStores(Protocol):
    """The stores of the service."""

    @property
    def topics(self) -> TopicStore: ...
    @property
    def subscriptions(self) -> SubscriptionStore: ...
    @property
    def notifications(self) -> NotificationStore: ...
    @property
    def archives(self) -> ArchiveStore: ...
    @property
    def replays(self) -> ReplayStore: ...
    @property
    def platforms(self) -> PlatformStore: ...
    @property
    def mobile_endpoints(self) -> MobileEndpointStore: ...
    @property
    def sms(self) -> SmsStore: ...


class NotificationService:
    """The parts that operations call."""

    def __init__(
        self,
        *,
        stores: NotificationStores,
        queue: QueuePort,
        clock: Clock,
        events: EventSink,
        url_checks: UrlChecks,
        commit: CommitScope = STORES_TOO,
        sms_sandbox: bool = False,
        quotas: Quotas = DEFAULT_QUOTAS,
    ) -> None:
        topics, subscriptions = stores.topics, stores.subscriptions
        self.topic_cache = cache = TopicCache(topics)
        access = Access(cache, subscriptions, clock)
        self.confirmations = confirmations = Confirmations(queue, clock)
        subscription_replays = SubscriptionReplays(stores.replays, clock, quotas)
        self.topics = Topics(topics, subscriptions, stores.archives, subscription_replays, access, clock, quotas)
        self.data_protection = DataProtection(access)
        self.subscriptions = Subscriptions(subscriptions, cache, access, subscription_replays, quotas, clock)
        self.consent = ConsentHandler(subscriptions, cache, access, confirmations, clock, subscription_replays)
        self.mail_links = MailLinks(self.consent, subscriptions)
        archiver = Archiver(cache, stores.archives, stores.replays)
        self.matcher = SubscriptionMatcher(subscriptions, clock, events)
        self.dispatcher = PublishAcceptor(self.matcher, stores.notifications, archiver, queue, clock, events, commit)
        self.publisher = Publisher(cache, access, self.dispatcher, clock)
        direct_jobs = DirectJobs(queue)
        self.platforms = PlatformApplications(stores.platforms, clock)
        endpoint_events = EndpointEvents(self.publisher, clock)
        self.mobile_endpoints = MobileEndpoints(
            stores.mobile_endpoints, stores.platforms, self.platforms, endpoint_events, clock
        )
        self.subscribe_handler = SubscribeHandler(
            subscriptions,
            access,
            confirmations,
            clock,
            quotas,
            subscription_replays,
            endpoint_checks(url_checks, self.mobile_endpoints, subscriptions),
        )
        self.sms = SmsSettings(stores.sms)
        self.sms_sandbox = SmsSandbox(stores.sms, direct_jobs, clock, enabled=sms_sandbox)
        recipients = RecipientChecks(stores.sms, stores.mobile_endpoints, stores.platforms, in_sandbox=sms_sandbox)
        self.direct_publisher = DirectPublisher(self.mobile_endpoints, recipients, direct_jobs, clock, events)

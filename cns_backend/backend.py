"""The backend of a process: stores, queue engines and clock, of one type in the embedded and in the cluster form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_type_hints

from cns.stores.contract import (
    ArchiveStore,
    NotificationStore,
    OutboxStore,
    ReplayStore,
    SigningKeyStore,
    SubscriptionStore,
    TopicStore,
)
from cns.stores.mobile_contract import MobileEndpointStore, PlatformStore, SmsStore
from cns_backend.engines import EMBEDDED_ENGINES
from cns_backend.sites.decision import SiteStatus
from cns_backend.stores.contract import LeaseStore, PoolSizeStore, RateStore, ServiceControl
from cns_common.aws.auth.accounts import AccountStore
from cns_common.aws.held_calls import Absence
from cns_common.clock import Clock
from cns_common.metrics.model import Sample
from cns_common.rpc.protocol_proxy import ChangeSource, methods_of
from cns_common.rpc.rpc import Method
from cqs.engines.contract import Engine
from cqs.engines.remote import protocol as engine_calls
from cqs.stores.contract import MoveTaskStore, QueueStore, ReceiptKeyStore


def no_site() -> SiteStatus | None:
    return None


def no_absence() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The stores of a backend. In the embedded form the field's name is the prefix of the store's calls."""

    accounts: AccountStore
    queues: QueueStore
    move_tasks: MoveTaskStore
    receipt_keys: ReceiptKeyStore
    topics: TopicStore
    subscriptions: SubscriptionStore
    notifications: NotificationStore
    outbox: OutboxStore
    archives: ArchiveStore
    replays: ReplayStore
    platforms: PlatformStore
    mobile_endpoints: MobileEndpointStore
    sms: SmsStore
    signing_keys: SigningKeyStore
    leases: LeaseStore
    rates: RateStore
    pool_sizes: PoolSizeStore
    control: ServiceControl

    def announced_stores(self) -> dict[str, ChangeSource]:
        """The stores whose changes are announced to every process, by prefix."""
        return {
            "accounts": self.accounts,
            "queues": self.queues,
            "topics": self.topics,
            "subscriptions": self.subscriptions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend(Stores):
    """All storage that services are built on."""

    clock: Clock
    engines: Mapping[str, Engine]
    default_engine: str
    """The engine of queues whose CreateQueue names none."""
    internal_engine: str
    """The engine of the internal queues."""
    one_commit: bool = True
    """Whether writes that begin in one turn of the event loop become one commit, or separate commits in their order."""
    machine: str = ""
    """The prefix of the names of this machine's processes in a cluster, else empty."""
    samples: Callable[[], Sequence[Sample]] = tuple
    """The metrics of the engines and stores that this process opens itself."""
    site: Callable[[], SiteStatus | None] = no_site
    """The state of this process's site; None where there is only one."""
    absence: Absence = no_absence
    """Returns None while the store answers; otherwise a future that is done when it answers again."""
    reconnected: list[Callable[[], None]]
    """Callbacks for a restored connection: the changes announced in between did not reach this process."""

    @property
    def engine(self) -> Engine:
        """The engine of the internal queues."""
        return self.engines[self.internal_engine]


CONTRACTS: Mapping[str, type] = get_type_hints(Stores)
"""The protocol of each store, by prefix."""


def store_methods() -> dict[str, Method]:
    """The calls that the store host answers on its socket."""
    methods: dict[str, Method] = {}
    for name in EMBEDDED_ENGINES:
        methods |= engine_calls.methods(name)
    for prefix, contract in CONTRACTS.items():
        methods |= methods_of(contract, prefix)
    return methods

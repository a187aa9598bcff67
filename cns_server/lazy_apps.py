"""The REST API, the pages and the portal, which are made by their first request: importing them takes time that a start
does not have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import cns
from cns.authorization import Access
from cns.delivery.webhook_secrets import WebhookSecrets
from cns.portal.links import PortalLinks
from cns.portal.owner_acts import OwnerActs
from cns.portal.retry_sender import RetrySender
from cns_backend.backend import Backend
from cns_backend.urls import base_url
from cns_common.activity.recorder import ActRecorder
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.front_door import FrontDoor
from cns_common.configuration.settings import Settings
from cns_server.admin_address import AdminAddress
from cns_server.health import ServiceHealth
from cqs.service import QueueService

if TYPE_CHECKING:
    from cns_server.pages.app import PagesApp
    from cns_server.portal.app import PortalApp
    from cns_server.rest.app import RestApp


def rest_app(
    settings: Settings,
    backend: Backend,
    front: FrontDoor,
    authenticator: Authenticator,
    queues: QueueService,
    links: PortalLinks,
    receipt_key: bytes,
    acts: ActRecorder,
) -> RestApp:
    from cns_server.pages.sources import EventReader
    from cns_server.rest.app import RestApp
    from cns_server.rest.authentication import RestAuthenticator
    from cns_server.rest.calls import RestCalls
    from cns_server.rest.operator_tokens import operator_key

    rest_authenticator = RestAuthenticator(
        authenticator, backend.clock, region=settings.region, operator_key=operator_key(receipt_key)
    )
    admin = AdminAddress(settings.admin_bind)
    calls = RestCalls(
        front, rest_authenticator, admin, acts, public_url=settings.public_url, service_url=base_url(settings)
    )
    searches = EventReader(settings)
    return RestApp(
        calls, queues, backend, searches, links, settings.acts_path, receipt_key=receipt_key, version=cns.__version__
    )


def pages_app(
    settings: Settings,
    backend: Backend,
    queues: QueueService,
    access: Access,
    health: Callable[[], Awaitable[ServiceHealth]],
    rest: RestApp,
) -> PagesApp:
    from cns_server.pages.app import PagesApp
    from cns_server.pages.sources import PageSources

    sources = PageSources(settings=settings, backend=backend, queues=queues, access=access, health=health)
    return PagesApp(rest, sources, version=cns.__version__)


def portal_app(
    settings: Settings,
    backend: Backend,
    queues: QueueService,
    links: PortalLinks,
    retries: RetrySender,
    secrets: WebhookSecrets,
    certificate: Callable[[str], bytes | None],
    recorder: ActRecorder,
) -> PortalApp:
    from cns_server.pages.sources import EventReader
    from cns_server.portal.app import PortalApp
    from cns_server.portal.pages import PortalParts
    from cns_server.portal.past_messages import PastMessages
    from cns_server.portal.sessions import Visits

    parts = PortalParts(
        visits=Visits(links, backend.clock),
        acts=OwnerActs(backend.subscriptions, backend.clock),
        retries=retries,
        past=PastMessages(backend.topics, backend.archives, queues, certificate),
        secrets=secrets,
        backend=backend,
        reader=EventReader(settings),
        recorder=recorder,
        base_url=base_url(settings),
    )
    return PortalApp(parts, version=cns.__version__)

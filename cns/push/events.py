"""Publish changes of an application's endpoints to the topics that the application's attributes name."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec
import structlog

from cns.delivery.envelope import timestamp_text
from cns.publishing.publish import Publisher
from cns.publishing.requests import PublishRequest
from cns.push.model import MobileEndpoint, PlatformApplication
from cns_common.arn import parse_arn
from cns_common.aws.call import Call, root_caller
from cns_common.clock import Clock
from cns_common.errors import CnsError

Event = Literal["EndpointCreated", "EndpointUpdated", "EndpointDeleted"]

log = structlog.get_logger(__name__)


class EndpointEvents:
    """Publishes on behalf of the application's owner: a topic of another account must allow that."""

    def __init__(self, publisher: Publisher, clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock

    async def publish(
        self, call: Call, application: PlatformApplication, event: Event, endpoint: MobileEndpoint
    ) -> None:
        """Publish an event, if the application names a topic for it. A failure is only logged: the change is done."""
        topic = parse_arn(application.attributes.get(f"Event{event}", ""))
        if topic is None:
            return
        owner = replace(call, caller=root_caller(application.account), region=topic.region)
        try:
            await self._publisher.publish(owner, str(topic), self._request(application, event, endpoint))
        except CnsError as error:
            log.warning(
                "mobile_endpoint.event_publish_failed",
                endpoint=endpoint.arn,
                event_type=event,
                topic=str(topic),
                error=str(error),
            )

    def _request(self, application: PlatformApplication, event: Event, endpoint: MobileEndpoint) -> PublishRequest:
        message = {
            "EventType": event,
            "EndpointArn": endpoint.arn,
            "Resource": application.arn,
            "Service": "SNS",
            "Time": timestamp_text(self._clock.now_ms()),
        }
        subject = f"{event} event for app {application.name} ({application.platform})"
        return PublishRequest(message=msgspec.json.encode(message).decode(), subject=subject[:100], attributes={})

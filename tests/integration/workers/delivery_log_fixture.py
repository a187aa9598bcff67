"""A delivery log over real stores, and targets of every kind whose owners may ask for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cns.delivery.target import Target, TargetCache, direct_target
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns_backend.delivery_logs.logger import FeedbackLog
from cns_backend.delivery_logs.reader import LogReader
from cns_backend.delivery_logs.record import LoggedAttempt
from cns_backend.delivery_logs.writer import DeliveryLogWriter, LogLimits
from tests.integration.sns.cns_support import ACCOUNT, REGION, Rig
from tests.integration.sns.mobile.sns_mobile import APPLICATION, direct_job, endpoint

ROLE = "arn:aws:iam::123456789012:role/logs"
NUMBER = "+15551234567"
OK = Delivered(200, 1)
BAD = Failed(Cause.STATUS, "HTTP 400", 1, 400, permanent=True)
PHONES = f"sns/{REGION}/{ACCOUNT}/DirectPublishToPhoneNumber"
APP_GROUP = f"sns/{REGION}/{ACCOUNT}/app/APNS/app"


class DeliveryLogFixture:
    """A log over the rig's stores."""

    def __init__(self, rig: Rig, directory: Path, *, client_errors_succeed: bool = False, draw: float = 0.5) -> None:
        self.rig = rig
        self.directory = directory / "logs"
        self.files = DeliveryLogWriter(self.directory, rig.clock, LogLimits(days=7, bytes_max=1 << 30))
        self.log = FeedbackLog(
            self.files,
            rig.sms,
            rig.platforms,
            rig.clock,
            client_errors_succeed=client_errors_succeed,
            draw=lambda: draw,
        )

    async def logged(self, *groups: str) -> list[dict[str, Any]]:
        """All logged records, once the log is closed."""
        await self.log.close()
        return [json.loads(entry.line) for entry in LogReader(self.directory, groups).read()]

    def lost(self) -> dict[str, float]:
        return {sample.labels[0][1]: sample.value for sample in self.files.samples() if "lost" in sample.name}

    def attempt(self, target: Target, outcome: Outcome = OK, topic: str = "") -> None:
        self.log.log_attempt(logged_attempt(target, outcome, topic))

    async def phone(self) -> Target:
        await self.rig("Publish", PhoneNumber=NUMBER, Message="m")
        return direct_target(direct_job(self.rig))

    async def device(self) -> Target:
        await self.rig("Publish", TargetArn=await endpoint(self.rig), Message="m")
        return direct_target(direct_job(self.rig))

    async def subscribed(self, protocol: str, to: str, **topic_attributes: str) -> tuple[str, Target]:
        topic = await self.rig.topic()
        for name, text in topic_attributes.items():
            await self.rig.set(topic, name, text)
        arn = await self.rig.subscribe(topic, protocol, to)
        (target,) = await TargetCache(self.rig.topics, self.rig.subscriptions).find([arn])
        return topic, target


def logged_attempt(target: Target, outcome: Outcome = OK, topic: str = "") -> LoggedAttempt:
    return LoggedAttempt(target=target, outcome=outcome, message_id="m", topic=topic, published_ms=0, at_ms=5, number=1)


def group_of(topic: str) -> str:
    return topic.removeprefix("arn:aws:").replace(":", "/")


async def set_application(rig: Rig, **attributes: str) -> None:
    await rig("SetPlatformApplicationAttributes", PlatformApplicationArn=APPLICATION, Attributes=attributes)

"""Channels by protocol, and messages to a queue: other tests drive the channels against real servers."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, cast

import pytest
from msgspec.structs import replace

from cns.delivery.envelope_cache import EnvelopeContext
from cns.delivery.jobs import ConfirmationJob, DirectJob
from cns.delivery.outbox import OutboxItem
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.retry_policy import MAIL_POLICY, QUEUE_POLICY
from cns.delivery.signing import Signer, new_identity
from cns.delivery.target import Target, direct_target
from cns.delivery.webhook_secrets import WebhookSecrets
from cns.endpoints.contract import Request
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.mail.rate_limit import MailRateLimit
from cns.mail.texts import MailBranding
from cns.notification import Notification
from cns.protocols.table import PROTOCOLS
from cns.publishing.recipient_checks import RecipientChecks
from cns.stores.contract import OutboxStore, SubscriptionStore
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from cns_common.clock import Clock
from cns_common.configuration.value_types import RemoteQueues
from cns_common.errors import StoreUnavailable
from cns_workers.delivery.channel import Attempt
from cns_workers.delivery.channels import ChannelContext, build_channels, confirmation_of
from cns_workers.delivery.pool.pool import DeliveryPool
from tests.integration.sns.cns_support import RecordingQueue

TOPIC = "arn:aws:sns:eu-west-1:111111111111:t"
QUEUE = "arn:aws:sqs:eu-west-1:222222222222:q"
NOTIFICATION = Notification(id="n", topic_arn=TOPIC, timestamp_ms=5, texts={"default": "text"})
JOB = ConfirmationJob("SubscriptionConfirmation", "m", f"{TOPIC}:s", TOPIC, "2336ab", 5, "http://localhost")


class RecordingOutbox:
    """An outbox that keeps what is put, unless it is away."""

    def __init__(self) -> None:
        self.items: list[OutboxItem] = []
        self.away = False

    async def put(self, item: OutboxItem) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.items.append(item)


class AnyRecipient(RecipientChecks):
    """A recipient check that accepts everything, unless the test sets an objection or makes it unavailable."""

    def __init__(self) -> None:
        self.objection: Cause | None = None
        self.away = False

    async def phone(self, target: Target) -> Cause | None:
        if self.away:
            raise StoreUnavailable("away")
        return self.objection

    mobile_endpoint = phone


@cache
def signer() -> Signer:
    return Signer(new_identity(1_700_000_000_000))


class ChannelFixture:
    """Channels whose sends are kept. The queues of account 999999999999 are at another service."""

    def __init__(self) -> None:
        self.port = RecordingQueue()
        self.outbox = RecordingOutbox()
        self.recipients = AnyRecipient()
        self.sent: list[Any] = []
        other = RemoteQueues(arns="arn:aws:sqs:*:999999999999:*", url="http://x", key_id="a", secret="b")
        envelopes = EnvelopeContext(
            signer=signer(),
            base_url="http://localhost",
            mail_words=MailBranding(sender_name="Notifications", footer=""),
            webhook_secrets=WebhookSecrets(bytes(32), Clock()),
        )
        context = ChannelContext(
            port=self.port,
            envelopes=envelopes,
            outbox=cast(OutboxStore, self.outbox),
            recipients=self.recipients,
            mail_rate=MailRateLimit(cast(SubscriptionStore, None), EmbeddedRateStore(Clock()), Clock(), 0),
            remote_queues=RemoteQueueResolver([other]),
        )
        self.channels = build_channels(DeliveryPool("delivery", 1, lambda: self), context)

    async def send(self, request: Request) -> Outcome:
        self.sent.append(request)
        return Delivered(200, 1, "remote")

    async def close(self) -> None: ...

    def deliver(self, target: Target, notification: Notification = NOTIFICATION) -> Attempt:
        return self.channels.by_protocol[target.protocol].deliver(target, notification)

    def confirm(self, target: Target) -> Attempt:
        return self.channels.by_protocol[target.protocol].confirm(target, confirmation_of(JOB, target), JOB.base_url)


@pytest.fixture
async def fixture() -> ChannelFixture:
    return ChannelFixture()


def target(protocol: str, endpoint: str, *, raw: bool = False) -> Target:
    return Target(
        arn=f"{TOPIC}:s",
        protocol=protocol,
        endpoint=endpoint,
        confirmed=True,
        raw=raw,
        retry=QUEUE_POLICY,
        content_type="text/plain",
        dead_letter_arn="",
        signature_version="1",
        account="111111111111",
        region="eu-west-1",
    )


@pytest.mark.parametrize("protocol", ["lambda", "firehose", "sms", "application", "email", "email-json"])
async def test_what_has_no_channel_of_its_own_is_kept(fixture: ChannelFixture, protocol: str) -> None:
    endpoint = "arn:aws:sns:eu-west-1:111111111111:endpoint/GCM/app/1"
    outcome = await fixture.deliver(target(protocol, endpoint))
    (item,) = fixture.outbox.items
    assert isinstance(outcome, Delivered) and outcome.provider_id == item.id
    assert (item.protocol, item.message, item.account, item.region) == (protocol, "text", "111111111111", "eu-west-1")
    await fixture.confirm(target(protocol, endpoint))
    assert [one.message_id for one in fixture.outbox.items] == ["n", "m"]
    fixture.outbox.away = True
    away = await fixture.deliver(target(protocol, endpoint))
    assert isinstance(away, Failed) and (away.cause, away.permanent) == (Cause.OUTBOX, False)


@pytest.mark.parametrize("protocol", ["sms", "application"])
async def test_who_is_to_be_sent_nothing_is_sent_nothing(fixture: ChannelFixture, protocol: str) -> None:
    endpoint = "arn:aws:sns:eu-west-1:111111111111:endpoint/GCM/app/1"
    fixture.recipients.objection = Cause.OPTED_OUT
    refused = await fixture.deliver(target(protocol, endpoint))
    assert isinstance(refused, Failed) and (refused.cause, refused.permanent) == (Cause.OPTED_OUT, True)
    fixture.recipients.away = True
    unknown = await fixture.deliver(target(protocol, endpoint))
    assert isinstance(unknown, Failed) and (unknown.cause, unknown.permanent) == (Cause.STORE, False)
    assert fixture.outbox.items == []


async def test_what_was_published_to_a_number_was_asked_then(fixture: ChannelFixture) -> None:
    """A one-time password goes to a number that is not verified yet."""
    fixture.recipients.objection = Cause.NOT_VERIFIED
    job = DirectJob("n", "111111111111", "eu-west-1", "sms", "+1555", NOTIFICATION)
    assert isinstance(await fixture.deliver(direct_target(job)), Delivered)


def test_retries_that_no_policy_changes() -> None:
    queues = {"sqs", "lambda", "firehose"}
    assert {name for name, protocol in PROTOCOLS.items() if protocol.retry is QUEUE_POLICY} == queues
    assert {name for name, protocol in PROTOCOLS.items() if protocol.retry is MAIL_POLICY} == {
        "sms",
        "application",
        "email",
        "email-json",
    }


def test_the_target_of_what_was_published_to_a_number() -> None:
    found = direct_target(DirectJob("n", "111111111111", "eu-west-1", "sms", "+1555", NOTIFICATION))
    assert (found.arn, found.endpoint, found.confirmed, found.retry) == ("", "+1555", True, MAIL_POLICY)


@pytest.mark.spec("subscribing.cross-account-fifo-queue")
@pytest.mark.parametrize(("queue", "ids"), [(QUEUE, ("", "")), (QUEUE + ".fifo", ("Subscription", "m"))])
async def test_a_queue_is_asked(fixture: ChannelFixture, queue: str, ids: tuple[str, str]) -> None:
    await fixture.confirm(target("sqs", queue))
    ((arn, message),) = fixture.port.delivered
    assert (arn, message.group, message.dedup) == (queue, *ids)
    assert json.loads(message.body)["Type"] == "SubscriptionConfirmation"


@pytest.mark.parametrize(
    ("topic", "queue", "own", "ids"),
    [
        ("t", "q", ("", ""), ("", "")),
        ("t", "q", ("g", ""), ("g", "")),
        ("t", "dead.fifo", ("", ""), ("n", "n")),
        ("t", "dead.fifo", ("g", ""), ("g", "n")),
        ("t.fifo", "q", ("g", "d"), ("", "")),
        ("t.fifo", "q.fifo", ("g", "d"), ("g", "d")),
    ],
)
async def test_which_ids_a_queue_gets(
    fixture: ChannelFixture, topic: str, queue: str, own: tuple[str, str], ids: tuple[str, str]
) -> None:
    """A FIFO queue may have the dead letters of a standard topic, and takes nothing without ids."""
    published = replace(
        NOTIFICATION, topic_arn=TOPIC[:-1] + topic, message_group_id=own[0], message_deduplication_id=own[1]
    )
    await fixture.channels.queues.dead_letter(f"{QUEUE[:-1]}{queue}", target("sqs", QUEUE, raw=True), published)
    ((_, message),) = fixture.port.delivered
    assert (message.group, message.dedup, message.body) == (*ids, "text")


REMOTE = "arn:aws:sqs:eu-west-1:999999999999:q"


async def test_queues_of_other_services_are_sent_to_from_a_pool(fixture: ChannelFixture) -> None:
    queues = fixture.channels.queues
    for arn in (QUEUE, REMOTE):
        await fixture.deliver(target("sqs", arn))
        await fixture.confirm(target("sqs", arn))
        await queues.dead_letter(arn, target("http", "http://x/"), NOTIFICATION)
    own, others = [message for _, message in fixture.port.delivered], [request.message for request in fixture.sent]
    assert [request.queue.arn for request in fixture.sent] == [REMOTE] * 3
    assert others == own, "wherever a queue is, it gets the same"
    assert queues.traffic_key(target("sqs", QUEUE)) == ""
    assert REMOTE in queues.traffic_key(target("sqs", REMOTE))


async def test_too_many_attributes_are_no_ones_to_take(fixture: ChannelFixture) -> None:
    many = replace(NOTIFICATION, attributes={f"a{number}": ("String", "v") for number in range(11)})
    for arn in (QUEUE, REMOTE):
        outcome = await fixture.deliver(target("sqs", arn, raw=True), many)
        assert isinstance(outcome, Failed) and (outcome.permanent, outcome.code) == (True, "InvalidParameterValue")
    assert (fixture.port.delivered, fixture.sent) == ([], [])

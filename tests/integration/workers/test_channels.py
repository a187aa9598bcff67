"""Channels by protocol, and messages to a queue: other tests drive the channels against real servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import cast

import pytest
from msgspec.structs import replace

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
from cns.queue_port.contract import EnqueuedJob, LeasedJob, NewJob, QueueMessage, Refusal, Renewal
from cns.stores.contract import SubscriptionStore
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from cns_common.clock import Clock
from cns_common.configuration.value_types import RemoteQueues
from cns_common.errors import StoreUnavailable
from cns_workers.delivery.channel import Attempt
from cns_workers.delivery.channels import ChannelContext, Channels, build_channels, confirmation_of
from cns_workers.delivery.envelope_cache import EnvelopeContext
from cns_workers.delivery.pool.pool import DeliveryPool

TOPIC = "arn:aws:sns:eu-west-1:111111111111:t"
QUEUE = "arn:aws:sqs:eu-west-1:222222222222:q"
NOTIFICATION = Notification(id="n", topic_arn=TOPIC, timestamp_ms=5, texts={"default": "text"})
JOB = ConfirmationJob("SubscriptionConfirmation", "m", f"{TOPIC}:s", TOPIC, "2336ab", 5, "http://localhost")

WORDS = MailBranding(sender_name="Notifications", footer="")


class RecordingPort:
    """A queue port that keeps what is delivered."""

    def __init__(self) -> None:
        self.delivered: list[tuple[str, QueueMessage]] = []

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        self.delivered += [(queue_arn, message) for message in messages]
        return ["id"] * len(messages)

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None: ...

    async def enqueue_in_order(self, new_jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
        raise NotImplementedError

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        raise NotImplementedError

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        raise NotImplementedError

    async def depth(self, queue: str) -> int:
        raise NotImplementedError

    def stop_waiting(self) -> None: ...

    async def close(self) -> None: ...


class RecordingOutbox:
    """An outbox that keeps what is put, unless it is away."""

    def __init__(self) -> None:
        self.items: list[OutboxItem] = []
        self.away = False

    async def put(self, item: OutboxItem) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.items.append(item)

    async def get(self, item_id: str) -> OutboxItem | None:
        raise NotImplementedError

    async def newest(self, account: str, protocol: str, before: str, n: int) -> list[OutboxItem]:
        raise NotImplementedError

    async def remove(self, item_ids: Sequence[str]) -> None: ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        return 0


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


NO_LIMIT = MailRateLimit(cast(SubscriptionStore, None), EmbeddedRateStore(Clock()), Clock(), 0)


class NoSender:
    async def send(self, request: Request) -> Outcome:
        raise NotImplementedError

    async def close(self) -> None: ...


@cache
def signer() -> Signer:
    return Signer(new_identity(1_700_000_000_000))


class ChannelFixture:
    def __init__(self) -> None:
        self.port = RecordingPort()
        self.outbox = RecordingOutbox()
        self.recipients = AnyRecipient()
        self.pool = DeliveryPool("delivery", 1, NoSender)
        self.channels = build_channels(
            self.pool, context(self.port, self.outbox, self.recipients, RemoteQueueResolver(()))
        )


def context(
    port: RecordingPort, outbox: RecordingOutbox, recipients: AnyRecipient, remote_queues: RemoteQueueResolver
) -> ChannelContext:
    return ChannelContext(
        port=port,
        envelopes=EnvelopeContext(
            signer=signer(),
            base_url="http://localhost",
            mail_words=WORDS,
            webhook_secrets=WebhookSecrets(bytes(32), Clock()),
        ),
        outbox=outbox,
        recipients=recipients,
        mail_rate=NO_LIMIT,
        remote_queues=remote_queues,
    )


def deliver(channels: Channels, target: Target, notification: Notification) -> Attempt:
    return channels.by_protocol[target.protocol].deliver(target, notification)


def confirm(channels: Channels, target: Target) -> Attempt:
    return channels.by_protocol[target.protocol].confirm(target, confirmation_of(JOB, target), JOB.base_url)


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
    outcome = await deliver(fixture.channels, target(protocol, endpoint), NOTIFICATION)
    (item,) = fixture.outbox.items
    assert isinstance(outcome, Delivered) and outcome.provider_id == item.id
    assert (item.protocol, item.message, item.account, item.region) == (protocol, "text", "111111111111", "eu-west-1")
    await confirm(fixture.channels, target(protocol, endpoint))
    assert [one.message_id for one in fixture.outbox.items] == ["n", "m"]
    fixture.outbox.away = True
    away = await deliver(fixture.channels, target(protocol, endpoint), NOTIFICATION)
    assert isinstance(away, Failed) and (away.cause, away.permanent) == (Cause.OUTBOX, False)


@pytest.mark.parametrize("protocol", ["sms", "application"])
async def test_who_is_to_be_sent_nothing_is_sent_nothing(fixture: ChannelFixture, protocol: str) -> None:
    endpoint = "arn:aws:sns:eu-west-1:111111111111:endpoint/GCM/app/1"
    fixture.recipients.objection = Cause.OPTED_OUT
    refused = await deliver(fixture.channels, target(protocol, endpoint), NOTIFICATION)
    assert isinstance(refused, Failed) and (refused.cause, refused.permanent) == (Cause.OPTED_OUT, True)
    fixture.recipients.away = True
    unknown = await deliver(fixture.channels, target(protocol, endpoint), NOTIFICATION)
    assert isinstance(unknown, Failed) and (unknown.cause, unknown.permanent) == (Cause.STORE, False)
    assert fixture.outbox.items == []


async def test_what_was_published_to_a_number_was_asked_then(fixture: ChannelFixture) -> None:
    """A one-time password goes to a number that is not verified yet."""
    fixture.recipients.objection = Cause.NOT_VERIFIED
    job = DirectJob("n", "111111111111", "eu-west-1", "sms", "+1555", NOTIFICATION)
    assert isinstance(await deliver(fixture.channels, direct_target(job), NOTIFICATION), Delivered)


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
    await confirm(fixture.channels, target("sqs", queue))
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


class KeepingSender:
    """Takes all that is sent from a pool."""

    def __init__(self, sent: list[Request]) -> None:
        self._sent = sent

    async def send(self, request: Request) -> Outcome:
        self._sent.append(request)
        return Delivered(200, 1, "remote")

    async def close(self) -> None: ...


@pytest.fixture
async def apart() -> tuple[Channels, RecordingPort, list[Request]]:
    """Channels whose resolver has the queues of account 999999999999 at another service."""
    sent: list[Request] = []
    port = RecordingPort()
    places = RemoteQueueResolver(
        [RemoteQueues(arns="arn:aws:sqs:*:999999999999:*", url="http://x", key_id="a", secret="b")]
    )
    pool = DeliveryPool("delivery", 1, lambda: KeepingSender(sent))
    channels = build_channels(pool, context(port, RecordingOutbox(), AnyRecipient(), places))
    return channels, port, sent


async def test_queues_of_other_services_are_sent_to_from_a_pool(
    apart: tuple[Channels, RecordingPort, list[Request]],
) -> None:
    channels, port, sent = apart
    for arn in (QUEUE, REMOTE):
        await deliver(channels, target("sqs", arn), NOTIFICATION)
        await confirm(channels, target("sqs", arn))
        await channels.queues.dead_letter(arn, target("http", "http://x/"), NOTIFICATION)
    own, others = [message for _, message in port.delivered], [request.message for request in sent]  # type: ignore[attr-defined]
    assert [request.queue.arn for request in sent] == [REMOTE] * 3  # type: ignore[attr-defined]
    assert others == own, "wherever a queue is, it gets the same"
    assert channels.queues.traffic_key(target("sqs", QUEUE)) == ""
    assert REMOTE in channels.queues.traffic_key(target("sqs", REMOTE))


async def test_too_many_attributes_are_no_ones_to_take(
    apart: tuple[Channels, RecordingPort, list[Request]],
) -> None:
    channels, port, sent = apart
    many = replace(NOTIFICATION, attributes={f"a{number}": ("String", "v") for number in range(11)})
    for arn in (QUEUE, REMOTE):
        outcome = await deliver(channels, target("sqs", arn, raw=True), many)
        assert isinstance(outcome, Failed) and (outcome.permanent, outcome.code) == (True, "InvalidParameterValue")
    assert (port.delivered, sent) == ([], [])

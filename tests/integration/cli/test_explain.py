"""`cns explain` over real stores, queues and event segments: what it finds, and what it reports as unknown."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from cns.archives.model import Archive, ArchivedMessage, archive_key
from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob, DirectJob
from cns.notification import Attributes
from cns.subscriptions.subscription import SubscriptionState
from cns_backend.explain.collect import Question, explain
from cns_backend.explain.model import DeliveryStatus, Explanation
from cns_cli.explain.render import HISTORIES_SHOWN_MAX, render
from cns_common.events.schema import DeliveryDeadLettered, DeliveryDelivered, Event, PublishAccepted
from tests.integration.cli.explain_fixture import (
    ACCOUNT,
    ID,
    NEW,
    TOPIC,
    ExplainFixture,
    accepted,
    attempted,
    count_searches,
    delivered,
    dropped,
    endpoint_job,
    filtered,
    notification,
    only_history,
)

# -- why a subscription did not get it ---------------------------------------------------------------------------------

FILTERED, UNKNOWN, DROPPED = DeliveryStatus.FILTERED, DeliveryStatus.UNKNOWN, DeliveryStatus.DROPPED
DELIVERED, WAITING, UNCONFIRMED = DeliveryStatus.DELIVERED, DeliveryStatus.WAITING, DeliveryStatus.UNCONFIRMED
PAID = '{"kind":["paid"]}'
MALFORMED: Attributes = {"list": ("String.Array", "[1")}
SECOND = f"{TOPIC.arn}:00000002-0000-4000-8000-000000000000"


BODY = "MessageBody"
TOO_MANY = "filters rejected the message for 900 subscriptions, too many"
IN_VAIN = 'key `kind`: value "new" matches none of ["paid"]'
NOT_MET = "key `kind` of its policy was not met"
NOW_MET = f"{NOT_MET}; its present policy accepts the message"
OF_BODIES = "by its present policy: its policy looks at the body, which"
INVALID = "invalid_attributes: its policy looks"
FOR_NONE = "no subscription was to get the message when it was accepted"
NOWHERE = "no event is about it, and no delivery waits"


@pytest.mark.parametrize(
    "policy, scope, event, stored, status, reason",
    [
        (PAID, "", filtered(1, s1="kind"), NEW, FILTERED, IN_VAIN),
        (PAID, "", filtered(1, s1="kind"), None, FILTERED, f'{NOT_MET}; it asks now for one of ["paid"]'),
        ('{"kind":["new"]}', "", filtered(1, s1="kind"), NEW, FILTERED, NOW_MET),
        (PAID, "", filtered(900), NEW, FILTERED, f"by its present policy: {IN_VAIN}"),
        (PAID, "", filtered(900), None, UNKNOWN, TOO_MANY),
        (PAID, BODY, filtered(900), NEW, FILTERED, OF_BODIES),
        (PAID, "", dropped("", "invalid_attributes", 3), MALFORMED, DROPPED, INVALID),
        (PAID, "", dropped("", "invalid_attributes", 3), None, DROPPED, INVALID),
        ("", "", dropped("", "notification_lost", 0), None, DROPPED, "notification_lost"),
        ("", "", accepted(0), None, UNKNOWN, FOR_NONE),
        ("", "", accepted(), NEW, UNKNOWN, NOWHERE),
    ],
)
async def test_subscriptions_without_an_attempt(
    fixture: ExplainFixture,
    policy: str,
    scope: str,
    event: Event,
    stored: Attributes | None,
    status: DeliveryStatus,
    reason: str,
) -> None:
    await fixture.subscribe(1, policy, scope)
    fixture.write_events(*([] if isinstance(event, PublishAccepted) else [accepted()]), event)
    if stored is not None:
        await fixture.backend.notifications.put(notification(stored), 1, fixture.backend.clock.now_ms() + 60_000)
    history = only_history(await fixture.explain())
    assert history.status is status
    assert history.reason.startswith(reason)


async def test_the_text_in_the_archive(fixture: ExplainFixture) -> None:
    arn = await fixture.subscribe(1, PAID)
    assert await fixture.backend.topics.replace(replace(TOPIC, version=2, archive=Archive("a", 1)), 1)
    ours = notification()
    others = [replace(ours, id=f"{number}") for number in range(150)]
    stored = [ArchivedMessage(1_000, archive_key(one), 1 << 60, one) for one in (*others, ours)]
    await fixture.backend.archives.append("a", stored)
    fixture.write_events(accepted(at_ms=1_001), filtered(900))
    explanation = await fixture.explain()
    history = only_history(explanation)
    assert (explanation.text_in, history.subscription, history.status) == ("archive", arn, FILTERED)


async def test_later_and_unconfirmed_subscriptions(fixture: ExplainFixture) -> None:
    pending = await fixture.subscribe(1, state=SubscriptionState.PENDING, expires_ms=1 << 60)
    restored = await fixture.subscribe(2, confirmed_ms=4_500)
    later = await fixture.subscribe(3, created_ms=5_000, confirmed_ms=6_000)
    fixture.write_events(accepted())
    explanation = await fixture.explain()
    assert [(history.subscription, history.status, history.reason) for history in explanation.histories] == [
        (pending, UNCONFIRMED, "now pending"),
        (restored, UNCONFIRMED, "confirmed 3.500 s after it was published"),
        (later, DeliveryStatus.LATER, "subscribed 4.000 s after it was published"),
    ]
    assert "3 subscriptions: 2 not confirmed, 1 subscribed later" in render(explanation)


async def test_a_subscription_confirmed_before_the_publish(fixture: ExplainFixture) -> None:
    arn = await fixture.subscribe(1, confirmed_ms=900)
    fixture.write_events(accepted(), delivered(arn))
    assert only_history(await fixture.explain()).status is DELIVERED


async def test_why_attempts_failed(fixture: ExplainFixture, arn: str) -> None:
    fixture.write_events(
        accepted(),
        replace(attempted(arn), reason="HTTP 500 Internal Server Error: disk\nfull"),
        replace(attempted(arn, 1_200, 2, "queue"), status=0, reason="QueueDoesNotExist: The specified queue …"),
        replace(attempted(arn, 1_250, 3, "timeout"), status=0),
        replace(dropped(arn, "dead_letter_queue_refused:queue"), reason="AccessDenied: queue policy denies topic t"),
    )
    text = render(await fixture.explain())
    assert "attempt 1 (first): failed (status 500) after 8 ms: Internal Server Error: disk full\n" in text
    assert "attempt 2 (backoff): failed (queue) after 8 ms: QueueDoesNotExist: The specified queue …\n" in text
    assert "attempt 3 (backoff): failed (timeout) after 8 ms\n" in text
    words = "lost: no policy: the queue does not allow the topic to send, and the dead-letter queue refused it"
    assert f"dropped: {words} (dead_letter_queue_refused:queue): AccessDenied: queue policy denies topic t" in text


@pytest.mark.parametrize(
    "cause, words",
    [
        ("spent:connection", "all attempts are spent: the endpoint is down: no connection. Check that it runs"),
        ("permanent:not_verified", "muted by the sandbox: the phone number is not verified. Verify it, or leave"),
        ("permanent:opted_out", "muted: the phone number has opted out. It must opt in: "),
        ("deadline_while_throttled", "throttled until the message's time was over. Raise maxReceivesPerSecond."),
    ],
)
async def test_the_cause_is_said_in_words_with_what_to_do(
    fixture: ExplainFixture, arn: str, cause: str, words: str
) -> None:
    fixture.write_events(accepted(), dropped(arn, cause))
    explanation = await fixture.explain()
    text = render(explanation)
    assert f"  why        {words}" in text and f"({cause})" in text, text
    assert msgspec.json.decode(msgspec.json.encode(explanation), type=Explanation) == explanation


async def test_a_publish_to_a_muted_number_says_which_of_both_it_was(fixture: ExplainFixture) -> None:
    fixture.write_events(replace(accepted(0), topic=""), replace(dropped("", "permanent:opted_out"), topic=""))
    text = render(await fixture.explain())
    assert "why        muted: the phone number has opted out. " in text and "sandbox" not in text


async def test_an_event_counts_more_than_a_job_in_a_queue(fixture: ExplainFixture) -> None:
    """A job of a hundred targets removes a finished target up to a second later."""
    arn, gone = await fixture.subscribe(1), f"{TOPIC.arn}:gone"
    await fixture.put(jobs.ENDPOINT_JOBS, endpoint_job(arn, gone))
    fixture.write_events(
        accepted(), attempted(arn, cause=""), delivered(arn), delivered(arn, 1_400), dropped(gone, "subscription_gone")
    )
    histories = {history.subscription: history for history in (await fixture.explain()).histories}
    assert {arn: history.status for arn, history in histories.items()} == {arn: DELIVERED, gone: DROPPED}
    assert histories[arn].reason.startswith("2 times: ")
    assert histories[gone].reason == "the subscription no longer exists"


async def test_an_attempt_and_nothing_after_it(fixture: ExplainFixture, arn: str) -> None:
    fixture.write_events(accepted(), attempted(arn))
    history = only_history(await fixture.explain())
    assert (history.status, history.reason[:35]) == (UNKNOWN, "what followed the last attempt was ")


async def test_a_dead_letter(fixture: ExplainFixture, arn: str) -> None:
    letter = DeliveryDeadLettered(
        at_ms=1_500,
        message_id=ID,
        message_type="Notification",
        topic=TOPIC.arn,
        subscription=arn,
        protocol="http",
        attempt=9,
        cause="spent:status",
        queue="arn:aws:sqs:us-east-1:1:dead",
        since_publish_ms=500,
    )
    fixture.write_events(accepted(), *[attempted(arn, 1_000 + number, number) for number in range(1, 10)], letter)
    text = render(await fixture.explain())
    assert "DEAD-LETTERED: http http://example.com/1" in text
    words = "all attempts are spent: the endpoint answered with an error (spent:status)"
    assert f"+0.500 s   to the dead-letter queue arn:aws:sqs:us-east-1:1:dead: {words}" in text
    assert [f"attempt {number} (" in text for number in range(1, 10)] == [True] * 3 + [False] * 3 + [True] * 3
    assert "… 3 more attempts …" in text


# -- messages without a topic ------------------------------------------------------------------------------------------


async def test_a_message_to_a_phone(fixture: ExplainFixture) -> None:
    job = DirectJob(ID, ACCOUNT, "us-east-1", "sms", "+15550001", notification(topic_arn=""))
    await fixture.put(jobs.ENDPOINT_JOBS, job)
    history = only_history(await fixture.explain())
    assert (history.subscription, history.endpoint, history.status) == ("", "+15550001", WAITING)


async def test_a_confirmation_has_one_subscription(fixture: ExplainFixture) -> None:
    pending = await fixture.subscribe(1, state=SubscriptionState.PENDING, expires_ms=1 << 60)
    await fixture.subscribe(2)
    job = ConfirmationJob("SubscriptionConfirmation", ID, pending, TOPIC.arn, "token", 1, "http://localhost")
    await fixture.put(jobs.ENDPOINT_JOBS, job)
    explanation = await fixture.explain()
    assert (explanation.message_type, only_history(explanation).subscription) == ("SubscriptionConfirmation", pending)


# -- events that are written late --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "early, late, quick, searches",
    [
        ((accepted(), delivered(SECOND)), (), False, 1),
        ((accepted(),), (delivered(SECOND),), False, 2),
        ((), (accepted(), delivered(SECOND)), True, 2),
        ((accepted(at_ms=1_000), attempted(SECOND)), (), True, 1),
        ((accepted(at_ms=1_000), attempted(SECOND)), (delivered(SECOND),), False, 2),
    ],
)
async def test_events_are_awaited_where_they_matter(
    fixture: ExplainFixture,
    monkeypatch: pytest.MonkeyPatch,
    early: tuple[Event, ...],
    late: tuple[Event, ...],
    quick: bool,
    searches: int,
) -> None:
    """Not where the written ones say how it ended, nor for a page about an old message that no worker has."""
    found = count_searches(fixture, monkeypatch, late)
    assert await fixture.subscribe(2) == SECOND
    fixture.write_events(*early)
    history = only_history(await fixture.explain(quick=quick))
    is_delivered = any(isinstance(event, DeliveryDelivered) for event in (*early, *late))
    assert (history.status is DELIVERED, len(found)) == (is_delivered, searches)


@pytest.mark.parametrize("quick, searches", [(True, 1), (False, 2)])
async def test_a_page_waits_for_no_event_of_a_message_that_waits(
    fixture: ExplainFixture, monkeypatch: pytest.MonkeyPatch, quick: bool, searches: int
) -> None:
    found = count_searches(fixture, monkeypatch)
    arn = await fixture.subscribe(1)
    await fixture.put(jobs.LANES, endpoint_job(arn), delay_ms=60_000)
    fixture.write_events(accepted(), attempted(arn))
    history = only_history(await fixture.explain(quick=quick))
    assert (history.status, len(found)) == (WAITING, searches)


# -- what is unknown ---------------------------------------------------------------------------------------------------


async def test_nothing_is_known(fixture: ExplainFixture) -> None:
    await fixture.subscribe(1)
    explanation = await fixture.explain(topic=TOPIC.arn)
    assert (explanation.known, explanation.histories) == (False, ())
    assert render(explanation).startswith(f"Nothing is known of a message {ID}.\n")


async def test_one_subscription_of_many(fixture: ExplainFixture) -> None:
    arns = [await fixture.subscribe(number) for number in range(3)]
    fixture.write_events(accepted(), *[delivered(arn) for arn in arns])
    assert only_history(await fixture.explain(subscription=arns[1])).subscription == arns[1]


async def test_of_many_subscriptions_only_failures_are_shown(fixture: ExplainFixture) -> None:
    arns = [await fixture.subscribe(number) for number in range(HISTORIES_SHOWN_MAX + 10)]
    fixture.write_events(
        accepted(), dropped(arns[7], "spent:status"), *[delivered(arn) for arn in arns if arn != arns[7]]
    )
    explanation = await fixture.explain()
    text = render(explanation)
    assert explanation.totals == {DELIVERED: 29, DROPPED: 1}
    assert [arn for arn in arns if arn in text] == [arns[7]]
    assert "30 subscriptions: 29 delivered, 1 dropped" in text and "29 more: `--subscription ARN`" in text


@pytest.mark.parametrize(
    "written, shared, text_expected",
    [(False, False, "Events are off (CNS_EVENTS=off)"), (True, True, "name copies of their directories")],
)
async def test_missing_events(fixture: ExplainFixture, written: bool, shared: bool, text_expected: str) -> None:
    explanation = await explain(fixture.backend, fixture.events(written=written, shared=shared), Question(ID))
    assert text_expected in render(explanation)


@pytest.mark.parametrize(
    "events, tables, text_expected",
    [
        ((delivered("s"),), False, "what they recorded is not known"),
        ((delivered("s"),), True, "has those that the pipeline had ingested"),
        ((accepted(), delivered("s")), False, ""),
    ],
)
async def test_removed_segments(
    fixture: ExplainFixture, events: tuple[Event, ...], tables: bool, text_expected: str
) -> None:
    """Removed segments are mentioned only if the time of the publish is unknown."""
    fixture.write_events(*events)
    for path in (fixture.directory / "events").glob("*/*/*-000000000001.jsonl"):
        path.rename(path.with_name(path.name.replace("-000000000001", "-000000000009")))
    if tables:
        (fixture.directory / "tables").mkdir()
    older = [text for text in (await fixture.explain()).unknown if text.startswith("Older events were removed")]
    assert [text_expected in text for text in older] == ([True] if text_expected else [])


async def test_a_deleted_topic(fixture: ExplainFixture) -> None:
    fixture.write_events(accepted(), delivered("s"))
    assert await fixture.backend.topics.delete(TOPIC.arn)
    assert "The topic no longer exists" in "".join((await fixture.explain()).unknown)


async def test_control_characters_are_not_printed(fixture: ExplainFixture) -> None:
    arn = await fixture.subscribe(1, endpoint="http://example.com/\x1b[2J")
    fixture.write_events(accepted(), delivered(arn))
    assert "\x1b" not in render(await fixture.explain())


async def test_of_a_large_topic_what_was_not_read_is_named(fixture: ExplainFixture) -> None:
    """A subscription of a large topic whose events were not read is reported as not read, not as without events."""
    arns = [await fixture.subscribe(number) for number in range(1, 6)]
    fixture.write_events(accepted(), *[delivered(arn) for arn in arns])
    found = await fixture.explain(subscriptions_max=2)
    assert [one.subscription for one in found.histories] == arns[:2]
    assert any("3 more events were not read" in fact for fact in found.unknown)
    (last,) = (await fixture.explain(subscriptions_max=2, subscription=arns[-1])).histories
    assert last.status is DELIVERED
    assert len((await fixture.explain()).histories) == 5

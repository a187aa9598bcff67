"""ArchivePolicy: valid values, and the resulting archive of a topic."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cns.archives.model import Archive
from cns.archives.policy import beginning_ms, describe, policy_to_store, with_archive
from cns.topics.topic import Topic
from cns_common.durations import DAY_MS
from tests.unit.sns.refusals import complaint_of

TOPIC = Topic(id="1", account="111111111111", region="eu-west-1", name="t", created_ms=1)


REPEATED = '{"MessageRetentionPeriod":[],"MessageRetentionPeriod":1}'


def archiving_topic(days: int, began_ms: int) -> Topic:
    policy = {"ArchivePolicy": f'{{"MessageRetentionPeriod":{days}}}'}
    return replace(TOPIC, attributes=policy, archive=Archive("a", began_ms))


@pytest.mark.spec("archive.policy")
@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ('{"MessageRetentionPeriod": 1}', '{"MessageRetentionPeriod": 1}'),
        ('{ "MessageRetentionPeriod" : "365" }', '{ "MessageRetentionPeriod" : "365" }'),
        ('{"MessageRetentionPeriod":1,"x":1}', '{"MessageRetentionPeriod":1,"x":1}'),
        (REPEATED, REPEATED),
        ("{}", ""),
        (" { } ", ""),
        ("", ""),
    ],
)
def test_a_policy_is_kept_as_it_is_shown(text: str, stored: str) -> None:
    assert policy_to_store(text, "") == stored


@pytest.mark.spec("archive.refused")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x", "Unable to parse JSON"),
        ('{"MessageRetentionPeriod":', "Unable to parse JSON"),
        ("\ud800", "Unable to parse JSON"),
        (r'{"MessageRetentionPeriod":"\ud800"}', "Unable to parse JSON"),
        ('{"x":' * 200, "Unable to parse JSON"),
        ('{"x":' * 5_000, "Unable to parse JSON"),
        ("[]", "JSON is missing required fields"),
        ("null", "JSON is missing required fields"),
        ('{"x":1}', "JSON is missing required fields"),
        ('{"MessageRetentionPeriod":1' + 1_000 * " " + "}", "Unable to parse JSON"),
        *[
            (f'{{"MessageRetentionPeriod":{value}}}', "MessageRetentionPeriod value is invalid")
            for value in ("0", "366", "-1", "1.5", "true", "null", '"0"', '"1.5"', '""', '" 5"', '"٣"', "9" * 18)
        ],
    ],
)
def test_policies_refused(text: str, complaint: str) -> None:
    assert (
        complaint_of(policy_to_store, text, "Attributes Reason: ") == f"Attributes Reason: ArchivePolicy: {complaint}"
    )


def test_an_archive_comes_and_goes_with_the_policy() -> None:
    without = with_archive(TOPIC, 5)
    assert without.archive is None
    begun = with_archive(replace(TOPIC, attributes={"ArchivePolicy": '{"MessageRetentionPeriod":1}'}), 5)
    assert begun.archive is not None
    assert begun.archive.began_ms == 5
    longer = with_archive(replace(begun, attributes={"ArchivePolicy": '{"MessageRetentionPeriod":2}'}), 9)
    assert longer.archive == begun.archive
    ended = with_archive(replace(longer, attributes={}), 10)
    assert ended.archive is None
    anew = with_archive(replace(ended, attributes=begun.attributes), 11)
    assert anew.archive is not None
    assert anew.archive.id != begun.archive.id


@pytest.mark.parametrize(
    ("days", "began_ms", "now_ms", "beginning"),
    [
        (1, 1_000, 1_000, 1_000),
        (1, 1_000, DAY_MS + 1_000, 1_000),
        (1, 1_000, DAY_MS + 1_001, 1_001),
        (365, 1_000, 365 * DAY_MS + 3_000, 3_000),
    ],
)
def test_it_begins_with_the_archive_or_where_retention_ends(
    days: int, began_ms: int, now_ms: int, beginning: int
) -> None:
    assert beginning_ms(archiving_topic(days, began_ms), now_ms) == beginning


def test_the_last_of_repeated_periods_counts() -> None:
    topic = replace(TOPIC, attributes={"ArchivePolicy": REPEATED}, archive=Archive("a", 1))
    assert beginning_ms(topic, 3 * DAY_MS) == 2 * DAY_MS


def test_what_is_shown_beside_the_policy() -> None:
    assert describe(TOPIC, 0) == {}
    assert describe(archiving_topic(1, 1_700_000_000_120), 1_700_000_000_500) == {
        "BeginningArchiveTime": "2023-11-14T22:13:20.120Z"
    }

"""The limits of the SNS API, with AWS's values. `Quotas` can be configured."""

from __future__ import annotations

import msgspec

TOPIC_NAME_CHARS_MAX = 256
FIFO_SUFFIX = ".fifo"
DISPLAY_NAME_CHARS_MAX = 100
KEY_CHARS_MAX = 2_048
ENDPOINT_CHARS_MAX = 2_048

MESSAGE_BYTES_DEFAULT = 262_144
MESSAGE_BYTES_MIN = 1_024
MESSAGE_BYTES_MAX = 1_048_576
"""Range of MaximumMessageSize, and its default."""
LARGE_TOPIC_SUBSCRIPTIONS_MAX = 100
"""Subscriptions of a topic whose MaximumMessageSize is above the default."""
SAMPLE_RATE_MAX = 100
RESOURCE_ARN_CHARS_MAX = 1_011

BATCH_ENTRIES_MAX = 10
BATCH_ID_CHARS_MAX = 80
GROUP_ID_CHARS_MAX = 128

PAGE_SIZE = 100
"""Items in a page of any list; the API has no parameter for it."""

TAGS_MAX = 50
TAG_KEY_CHARS_MAX = 128
TAG_VALUE_CHARS_MAX = 256

PENDING_MS = 48 * 3_600_000
"""Lifetime of a token and of a pending subscription, and time to restore a subscription removed by its link."""
NOTIFICATION_MS = 30 * 86_400_000
"""Retention of a stored notification: as long as the internal queues keep a job."""

TOPICS_CACHED_MAX = 20_000
UPDATE_TRIES_MAX = 20
"""Attempts of an update that loses against concurrent updates."""


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Per account, and per topic."""

    topics: int = 100_000
    fifo_topics: int = 1_000
    pending_subscriptions: int = 5_000
    topic_subscriptions: int = 12_500_000
    fifo_topic_subscriptions: int = 100
    filter_policies: int = 10_000
    topic_filter_policies: int = 200
    topic_replays: int = 10
    filter_policy_keys: int = 5
    filter_policy_complexity: int = 150

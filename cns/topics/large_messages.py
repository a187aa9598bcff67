"""AWS's conditions on the subscriptions of topics that accept messages above 256 KiB."""

from __future__ import annotations

from cns.errors import invalid_parameter
from cns.limits import LARGE_TOPIC_SUBSCRIPTIONS_MAX, MESSAGE_BYTES_DEFAULT
from cns.protocols.table import find_protocol
from cns.stores.contract import SubscriptionStore

_ERROR_TEXT = (
    f"MaximumMessageSize: a topic with a value above {MESSAGE_BYTES_DEFAULT} must have "
    f"{LARGE_TOPIC_SUBSCRIPTIONS_MAX} or fewer subscriptions, each of protocol sqs, lambda or firehose"
)


async def check_topic(store: SubscriptionStore, topic_arn: str) -> None:
    """Raise unless the topic may be given such a size."""
    present = await store.page_of_topic(topic_arn, "", LARGE_TOPIC_SUBSCRIPTIONS_MAX + 1)
    if len(present) > LARGE_TOPIC_SUBSCRIPTIONS_MAX or not all(_takes_large(one.protocol) for one in present):
        raise invalid_parameter(_ERROR_TEXT)


async def check_subscriber(store: SubscriptionStore, topic_arn: str, protocol: str, endpoint: str) -> None:
    """Raise unless a topic of such a size may have this subscription, or has it already."""
    if not _takes_large(protocol):
        raise invalid_parameter(_ERROR_TEXT)
    present = await store.page_of_topic(topic_arn, "", LARGE_TOPIC_SUBSCRIPTIONS_MAX)
    known = any((one.protocol, one.endpoint) == (protocol, endpoint) for one in present)
    if len(present) == LARGE_TOPIC_SUBSCRIPTIONS_MAX and not known:
        raise invalid_parameter(_ERROR_TEXT)


def _takes_large(protocol: str) -> bool:
    return find_protocol(protocol).takes_large

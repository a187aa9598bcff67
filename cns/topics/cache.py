"""A cache of topics, with what publishing and authorisation derive from each topic."""

from __future__ import annotations

from dataclasses import dataclass

from cns.limits import TOPICS_CACHED_MAX
from cns.stores.contract import TopicStore
from cns.topics.attributes import message_bytes_max, signature_version
from cns.topics.policy import read_stored
from cns.topics.topic import Topic
from cns_common.aws.policy.evaluation import Policy
from cns_common.bounded_cache import BoundedCache


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    topic: Topic
    arn: str
    account: str
    region: str
    policy: Policy | None  # None: the default policy, which admits only the owner
    message_bytes_max: int
    signature_version: str
    fifo: bool
    dedup_by_content: bool
    dedup_by_group: bool


def view_of(topic: Topic) -> TopicView:
    policy = topic.attributes.get("Policy")
    return TopicView(
        topic=topic,
        arn=topic.arn,
        account=topic.account,
        region=topic.region,
        policy=read_stored(policy) if policy else None,
        message_bytes_max=message_bytes_max(topic),
        signature_version=signature_version(topic),
        fifo=topic.fifo,
        dedup_by_content=topic.attributes.get("ContentBasedDeduplication") == "true",
        dedup_by_group=topic.attributes.get("FifoThroughputScope") == "MessageGroup",
    )


class TopicCache:
    """Topics are cached until the store reports a change."""

    def __init__(self, store: TopicStore) -> None:
        self._store = store
        self._views: BoundedCache[str, TopicView] = BoundedCache(TOPICS_CACHED_MAX)
        self._changes = 0
        store.changed.append(self._forget)

    async def find(self, arn: str) -> TopicView | None:
        view = self._views.get(arn)
        if view is not None:
            return view
        changes = self._changes
        topic = await self._store.get(arn)
        if topic is None:
            return None
        view = view_of(topic)
        if changes == self._changes:  # else the topic that was read may be older than a change reported meanwhile
            self._views.put(arn, view)
        return view

    async def find_again(self, arn: str) -> TopicView | None:
        """Read the topic from the store: a report of its last change may not have come yet."""
        self._forget(arn)
        return await self.find(arn)

    def _forget(self, arn: str) -> None:
        self._changes += 1
        self._views.forget(arn)

    def clear(self) -> None:
        """Forget all topics. Call it when reports of changes may have been lost."""
        self._changes += 1
        self._views.clear()

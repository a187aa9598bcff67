"""The target cache of deliveries is not stale, even if an announcement is late or lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cns.delivery import target as target_module
from cns.delivery.target import Target, TargetCache
from cns.stores.embedded import EmbeddedSubscriptionStore, EmbeddedTopicStore
from cns.subscriptions.subscription import Subscription
from cns.topics.topic import Topic
from tests.integration.sns.cns_support import Rig


class ChangingTopics:
    """A topic store in which a topic changes between the read and its return."""

    def __init__(self, topics: EmbeddedTopicStore) -> None:
        self._topics = topics
        self.changed: list[Callable[[str], None]] = topics.changed
        self.change_at_next_read = False

    async def get(self, arn: str) -> Topic | None:
        found = await self._topics.get(arn)
        if self.change_at_next_read and found is not None:
            self.change_at_next_read = False
            attributes = {**found.attributes, "SignatureVersion": "2"}
            changed = Topic(id=found.id, account=found.account, region=found.region, name=found.name, created_ms=1,
                          version=found.version + 1, attributes=attributes)  # fmt: skip
            assert await self._topics.replace(changed, found.version)
        return found


class CountedSubscriptions:
    """A subscription store that notes which ARNs are read."""

    def __init__(self, subscriptions: EmbeddedSubscriptionStore) -> None:
        self._subscriptions = subscriptions
        self.changed: list[Callable[[str], None]] = subscriptions.changed
        self.read: list[str] = []

    async def get(self, arns: Sequence[str]) -> Sequence[Subscription]:
        self.read += arns
        return await self._subscriptions.get(arns)


async def find(targets: TargetCache, arn: str) -> Target:
    (target,) = await targets.find([arn])
    return target


async def test_a_confirmation_without_announcement_is_seen(rig: Rig, topic: str) -> None:
    """Otherwise messages published after the confirmation would be dropped."""
    targets = TargetCache(rig.topics, rig.subscriptions)
    arn, token = await rig.pending(topic)
    assert not (await find(targets, arn)).confirmed
    rig.subscriptions.changed.clear()  # the announcement is lost
    await rig.confirm(topic, token)
    assert (await find(targets, arn)).confirmed


async def test_a_topic_that_changes_during_its_read_is_not_cached(rig: Rig, topic: str) -> None:
    arn = await rig.queue_subscription(topic)
    topics = ChangingTopics(rig.topics)
    targets = TargetCache(topics, rig.subscriptions)  # type: ignore[arg-type]  # it needs no other method
    topics.change_at_next_read = True
    assert (await find(targets, arn)).signature_version == "1"
    assert (await find(targets, arn)).signature_version == "2"


async def test_paused_targets_evict_no_active_one(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes of paused subscriptions are all looked at once a minute, however many there are."""
    monkeypatch.setattr(target_module, "TARGETS_CACHED_MAX", 2)
    monkeypatch.setattr(target_module, "TOPICS_CACHED_MAX", 2)
    monkeypatch.setattr(target_module, "PAUSED_CACHED_MAX", 2)
    active = await rig.queue_subscription(await rig.topic("active"))
    paused = [
        await rig.queue_subscription(await rig.topic(f"paused-{n}"), f"q-{n}", DeliveryPaused="true") for n in range(4)
    ]
    subscriptions = CountedSubscriptions(rig.subscriptions)
    targets = TargetCache(rig.topics, subscriptions)  # type: ignore[arg-type]  # it needs no other method
    await find(targets, active)
    for arn in paused:
        assert (await find(targets, arn)).paused
    await rig.set(await rig.topic("other"), "DisplayName", "x")
    subscriptions.read.clear()
    assert not (await find(targets, active)).paused
    assert subscriptions.read == []


async def test_a_target_is_read_again_when_its_subscription_is_paused_or_its_topic_changes(
    rig: Rig, topic: str
) -> None:
    arn = await rig.queue_subscription(topic)
    subscriptions = CountedSubscriptions(rig.subscriptions)
    targets = TargetCache(rig.topics, subscriptions)  # type: ignore[arg-type]  # it needs no other method
    for text, paused in (("true", True), ("false", False)):
        await rig.set(arn, "DeliveryPaused", text)
        assert (await find(targets, arn)).paused is paused
        await rig.set(topic, "DisplayName", f"paused {text}")
        assert (await find(targets, arn)).display_name == f"paused {text}"
        subscriptions.read.clear()
        assert (await find(targets, arn)).display_name == f"paused {text}"
        assert subscriptions.read == []

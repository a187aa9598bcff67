"""Replays as subscribers see them: asked for with a ReplayPolicy, shown with their status, taken back."""

from __future__ import annotations

from collections.abc import Mapping

from cns.archives import replay_policy
from cns.archives.model import Archive
from cns.archives.replay import Replay
from cns.archives.replay_policy import Window, check_window, parse_replay_policy
from cns.limits import Quotas
from cns.stores.contract import ReplayStore
from cns.subscriptions.subscription import Subscription
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import hex_id

STATUS = "ReplayStatus"


class Replays:
    def __init__(self, store: ReplayStore, clock: Clock, quotas: Quotas) -> None:
        self._store = store
        self._clock = clock
        self._quotas = quotas

    async def start(self, subscription: Subscription, topic: Topic, text: str, prefix: str) -> None:
        """In place of the replay that the subscription has; '' ends that, and live delivery goes on."""
        window = parse_replay_policy(text, prefix)
        if window is None:
            await self._store.remove(subscription.arn)
            return
        now_ms = self._clock.now_ms()
        archive = check_window(window, topic, now_ms, prefix)
        await self._check_quota(subscription)
        await self._store.put(_replay(subscription, archive, window, now_ms))

    async def differs(self, subscription: Subscription, given: Mapping[str, str]) -> bool:
        """Whether the subscription has another policy than the attributes say, if they say any."""
        if replay_policy.NAME not in given:
            return False
        window = parse_replay_policy(given[replay_policy.NAME], "")
        replay = await self._store.get(subscription.arn)
        return (replay.policy if replay else "") != (window.text if window else "")

    async def describe(self, subscription: Subscription) -> dict[str, str]:
        """What GetSubscriptionAttributes shows."""
        replay = await self._store.get(subscription.arn)
        return {} if replay is None else {replay_policy.NAME: replay.policy, STATUS: replay.status}

    async def forget(self, subscription_arn: str) -> None:
        """The subscription is gone, or was never there."""
        await self._store.remove(subscription_arn)

    async def forget_topic(self, topic_arn: str) -> None:
        """The topic is gone, and all its subscriptions with it."""
        for replay in await self._store.of_topic(topic_arn):
            await self._store.remove(replay.subscription_arn)

    async def _check_quota(self, subscription: Subscription) -> None:
        others = [
            replay
            for replay in await self._store.of_topic(subscription.topic_arn)
            if replay.active and replay.subscription_arn != subscription.arn
        ]
        if len(others) >= self._quotas.topic_replays:
            raise RequestError(
                "ReplayLimitExceeded", "The request has exceeded the maximum number of concurrent message replays."
            )


def _replay(subscription: Subscription, archive: Archive, window: Window, now_ms: int) -> Replay:
    return Replay(
        id=hex_id(),
        topic_arn=subscription.topic_arn,
        archive_id=archive.id,
        subscription_arn=subscription.arn,
        policy=window.text,
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        set_ms=now_ms,
    )

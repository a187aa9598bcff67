"""Start, show and end the replays of subscriptions through their ReplayPolicy attribute."""

from __future__ import annotations

from collections.abc import Mapping

from cns.archives.model import Archive
from cns.archives.replay import Replay
from cns.archives.replay_policy import REPLAY_POLICY, ReplayWindow, check_window, parse_replay_policy
from cns.limits import Quotas
from cns.stores.contract import ReplayStore
from cns.subscriptions.subscription import Subscription
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import hex_id

REPLAY_STATUS = "ReplayStatus"


class SubscriptionReplays:
    def __init__(self, store: ReplayStore, clock: Clock, quotas: Quotas) -> None:
        self._store = store
        self._clock = clock
        self._quotas = quotas

    async def start(self, subscription: Subscription, topic: Topic, text: str, prefix: str) -> None:
        """Replace the subscription's replay by a new one. The text '' only ends it, and live delivery goes on.

        `prefix` begins the text of every error.
        """
        window = parse_replay_policy(text, prefix)
        if window is None:
            await self._store.remove(subscription.arn)
            return
        now_ms = self._clock.now_ms()
        archive = check_window(window, topic, now_ms, prefix)
        await self._check_quota(subscription)
        await self._store.put(_replay(subscription, archive, window, now_ms))

    async def differs(self, subscription: Subscription, given: Mapping[str, str]) -> bool:
        """Whether the given attributes have a ReplayPolicy that is not the subscription's."""
        if REPLAY_POLICY not in given:
            return False
        window = parse_replay_policy(given[REPLAY_POLICY], "")
        replay = await self._store.get(subscription.arn)
        return (replay.policy if replay else "") != (window.text if window else "")

    async def describe(self, subscription: Subscription) -> dict[str, str]:
        """The attributes that GetSubscriptionAttributes shows."""
        replay = await self._store.get(subscription.arn)
        return {} if replay is None else {REPLAY_POLICY: replay.policy, REPLAY_STATUS: replay.status}

    async def remove(self, subscription_arn: str) -> None:
        await self._store.remove(subscription_arn)

    async def remove_of_topic(self, topic_arn: str) -> None:
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


def _replay(subscription: Subscription, archive: Archive, window: ReplayWindow, now_ms: int) -> Replay:
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

"""Create, change, share, tag and delete topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from cns.archives import policy as archive_policy
from cns.archives.model import Archive
from cns.archives.replay_api import SubscriptionReplays
from cns.authorization import Access
from cns.errors import concurrent_access, invalid_parameter, no_such_topic
from cns.limits import MESSAGE_BYTES_DEFAULT, PAGE_SIZE, UPDATE_TRIES_MAX, Quotas
from cns.paging import page_of, read_token
from cns.stores.contract import ArchiveStore, SubscriptionStore, TopicStore
from cns.tags import with_tags
from cns.topics import large_messages
from cns.topics.attributes import check_change, check_name, check_new, describe, differs, initial_attributes, merge
from cns.topics.policy import default_policy_text, with_grant, without_grant
from cns.topics.topic import Topic
from cns_common.arn import ACCOUNT_ID
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import hex_id

_LABEL = re.compile(r"[ -~]{1,256}")


class Topics:
    def __init__(
        self,
        store: TopicStore,
        subscriptions: SubscriptionStore,
        archives: ArchiveStore,
        replays: SubscriptionReplays,
        access: Access,
        clock: Clock,
        quotas: Quotas,
    ) -> None:
        self._store = store
        self._archives = archives
        self._replays = replays
        self._subscriptions = subscriptions
        self._access = access
        self._clock = clock
        self._quotas = quotas

    async def create(self, call: Call, name: str, given: Mapping[str, str], tags: Mapping[str, str]) -> str:
        """Create the caller's topic of this name, or find it. Return its ARN.

        A topic that exists must have every attribute and tag that is given; it may have others.
        """
        check_name(name, given)
        wanted = check_new(name, given)
        now_ms = self._clock.now_ms()
        topic = Topic(
            id=hex_id(),
            account=call.caller.account,
            region=call.region,
            name=name,
            created_ms=now_ms,
            attributes=merge(initial_attributes(name), wanted),
            tags=with_tags({}, tags),
        )
        topic = archive_policy.with_archive(topic, now_ms)
        existing = await self._store.get(topic.arn) or await self._create(topic)
        if existing.id != topic.id:
            _check_same(existing, wanted, tags)
            call.changed = False
        return topic.arn

    async def delete(self, call: Call, arn: str) -> None:
        """Delete a topic. Succeed if there is none."""
        try:
            view = await self._access.topic(call, arn, "DeleteTopic")
        except RequestError as error:
            if error.code == "NotFound":
                call.changed = False
                return
            raise
        if view.topic.archive is not None:
            raise RequestError("InvalidState", "Invalid state: Cannot delete a topic with an ArchivePolicy")
        await self._store.delete(view.arn)
        await self._replays.remove_of_topic(view.arn)

    async def describe(self, call: Call, arn: str) -> dict[str, str]:
        view = await self._access.topic(call, arn, "GetTopicAttributes")
        archive = archive_policy.describe(view.topic, self._clock.now_ms())
        return describe(view.topic, await self._subscriptions.counts(arn), archive)

    async def set_attribute(self, call: Call, arn: str, name: str, text: str) -> None:
        view = await self._access.topic(call, arn, "SetTopicAttributes")
        changes = check_change(view.topic, name, text)
        if int(changes.get("MaximumMessageSize") or 0) > MESSAGE_BYTES_DEFAULT:
            await large_messages.check_topic(self._subscriptions, arn)
        call.changed = await self._change(view.topic, changes)

    async def _change(self, topic: Topic, changes: Mapping[str, str]) -> bool:
        """Change attributes. Start an archive, or drop it, if the ArchivePolicy was set or removed. Returns whether
        an attribute has another value than before."""
        ended: list[Archive | None] = []

        def change_topic(topic: Topic) -> Topic:
            after = replace(topic, attributes=merge(topic.attributes, changes))
            after = archive_policy.with_archive(after, self._clock.now_ms())
            ended.append(None if after.archive == topic.archive else topic.archive)
            return after

        changed = await self._update(topic, change_topic)
        if ended[-1] is not None:
            await self._archives.drop(ended[-1].id)
        return changed

    async def list_arns(self, call: Call, token: str | None) -> tuple[Sequence[str], str | None]:
        """A page of the caller's topics, and the token of the next page."""
        arns = await self._store.list_arns(call.caller.account, call.region, read_token(token), PAGE_SIZE + 1)
        return page_of(arns, str)

    # -- permissions --------------------------------------------------------------------------------------------------

    async def add_permission(
        self, call: Call, arn: str, label: str, accounts: Sequence[str], actions: Sequence[str]
    ) -> None:
        view = await self._access.topic(call, arn, "AddPermission")
        if not _LABEL.fullmatch(label):
            raise invalid_parameter("Label")
        if not all(ACCOUNT_ID.fullmatch(account) for account in accounts):
            raise invalid_parameter("A provided account ID is not valid")
        call.changed = await self._update_policy(
            view.topic, lambda topic, text: with_grant(text, topic, label, accounts, actions)
        )

    async def remove_permission(self, call: Call, arn: str, label: str) -> None:
        view = await self._access.topic(call, arn, "RemovePermission")
        call.changed = await self._update_policy(view.topic, lambda _, text: without_grant(text, label))

    async def _update_policy(self, topic: Topic, change: Callable[[Topic, str], str]) -> bool:
        def change_topic(topic: Topic) -> Topic:
            before = topic.attributes.get("Policy") or default_policy_text(topic)
            after = change(topic, before)
            return topic if after == before else replace(topic, attributes={**topic.attributes, "Policy": after})

        return await self._update(topic, change_topic)

    # -- tags ---------------------------------------------------------------------------------------------------------

    async def tags(self, call: Call, arn: str) -> dict[str, str]:
        return (await self._taggable_topic(call, arn, "ListTagsForResource")).tags

    async def tag(self, call: Call, arn: str, tags: Mapping[str, str]) -> None:
        topic = await self._taggable_topic(call, arn, "TagResource")
        call.changed = await self._update(topic, lambda topic: replace(topic, tags=with_tags(topic.tags, tags)))

    async def untag(self, call: Call, arn: str, keys: Sequence[str]) -> None:
        topic = await self._taggable_topic(call, arn, "UntagResource")
        call.changed = await self._update(
            topic,
            lambda topic: replace(topic, tags={key: value for key, value in topic.tags.items() if key not in keys}),
        )

    async def _taggable_topic(self, call: Call, arn: str, action: str) -> Topic:
        try:
            return (await self._access.topic(call, arn, action, "ResourceArn")).topic
        except RequestError as error:
            if error.code == "NotFound":
                raise RequestError("ResourceNotFound", "Resource does not exist") from None
            raise

    # -- storing ------------------------------------------------------------------------------------------------------

    async def _create(self, topic: Topic) -> Topic:
        counts = await self._store.count(topic.account)
        full = counts.fifo >= self._quotas.fifo_topics if topic.fifo else counts.standard >= self._quotas.topics
        if full:
            raise RequestError("TopicLimitExceeded", "Topic limit exceeded")
        return await self._store.create(topic)

    async def _update(self, topic: Topic, change: Callable[[Topic], Topic]) -> bool:
        """Store `change(topic)`. If another change came first, repeat it on the new record. Returns whether the two
        differ."""
        current: Topic | None = topic
        for _ in range(UPDATE_TRIES_MAX):
            if current is None:
                raise no_such_topic()
            after = change(current)
            if after is current:
                return False
            if await self._store.replace(replace(after, version=current.version + 1), current.version):
                return after != current
            current = await self._store.get(topic.arn)
        raise concurrent_access()


def _check_same(existing: Topic, wanted: Mapping[str, str], tags: Mapping[str, str]) -> None:
    """Raise unless the topic has the given attributes and tags. It may have others."""
    if differs(existing, wanted) or (existing.archive is not None and archive_policy.ARCHIVE_POLICY in wanted):
        raise invalid_parameter("Attributes Reason: Topic already exists with different attributes")
    if any(existing.tags.get(key) != value for key, value in tags.items()):
        raise invalid_parameter("Tags Reason: Topic already exists with different tags")

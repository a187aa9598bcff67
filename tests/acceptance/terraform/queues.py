"""Queues, after `internal/service/sqs/queue.go` and `attribute_funcs.go` of the provider."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.acceptance.terraform.attributes import QUEUE
from tests.acceptance.terraform.resource import Config, Resource, found
from tests.acceptance.terraform.schema import Schema, Values, at_creation, at_update, differences

QUEUE_LOOKS = 6
"""The number of times in succession that the provider must read the wanted values of a queue."""


@dataclass(frozen=True)
class Queue(Resource):
    """`aws_sqs_queue`."""

    name: str = ""
    schema: Schema = field(default_factory=lambda: QUEUE)

    def create(self, wanted: Config) -> str:
        attributes = at_creation(self.schema, wanted.values)
        tags = {"tags": dict(wanted.tags)} if wanted.tags else {}
        url = str(self.client.create_queue(QueueName=self.name, Attributes=attributes, **tags)["QueueUrl"])
        self._wait_for(url, attributes)
        return url

    def read(self, key: str) -> Config | None:
        attributes = self._attributes(key)
        if attributes is None:
            return None
        return Config(values=attributes, tags=self.client.list_queue_tags(QueueUrl=key).get("Tags", {}))

    def update(self, key: str, before: Config, after: Config) -> None:
        attributes = at_update(self.schema, before.values, after.values)
        if attributes:
            self.client.set_queue_attributes(QueueUrl=key, Attributes=attributes)
            self._wait_for(key, attributes)
        if gone := [name for name in before.tags if name not in after.tags]:
            self.client.untag_queue(QueueUrl=key, TagKeys=gone)
        if new := dict(after.tags.items() - before.tags.items()):
            self.client.tag_queue(QueueUrl=key, Tags=new)

    def delete(self, key: str) -> None:
        self.client.delete_queue(QueueUrl=key)
        assert all(self._attributes(key) is None for _ in range(QUEUE_LOOKS))

    def _attributes(self, url: str) -> Values | None:
        code = "AWS.SimpleQueueService.NonExistentQueue"
        answer = found(self.client.get_queue_attributes, code, QueueUrl=url, AttributeNames=["All"])
        return None if answer is None else answer["Attributes"]

    def _wait_for(self, url: str, sent: Values) -> None:
        """A sent value must be read back word for word, except documents; an emptied value may be absent."""
        expected = {name: self.schema[name] for name in sent}
        for _ in range(QUEUE_LOOKS):
            assert differences(expected, sent, self._attributes(url) or {}) == {}


@dataclass(frozen=True)
class QueueAttribute(Queue):
    """`aws_sqs_queue_policy`, `…_redrive_policy`, `…_redrive_allow_policy`: one attribute of a queue there is."""

    url: str = ""

    def create(self, wanted: Config) -> str:
        self.update(self.url, wanted, wanted)
        return self.url

    def read(self, key: str) -> Config | None:
        (name,) = self.schema
        answer = self.client.get_queue_attributes(QueueUrl=key, AttributeNames=[name])
        text = answer.get("Attributes", {}).get(name)
        return Config(values={name: text}) if text else None

    def update(self, key: str, before: Config, after: Config) -> None:
        sent = at_creation(self.schema, after.values)
        self.client.set_queue_attributes(QueueUrl=key, Attributes=sent)
        self._wait_for(key, sent)

    def delete(self, key: str) -> None:
        emptied = dict.fromkeys(self.schema, "")
        self.client.set_queue_attributes(QueueUrl=key, Attributes=emptied)
        self._wait_for(key, emptied)

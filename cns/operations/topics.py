"""CreateTopic, DeleteTopic, ListTopics, GetTopicAttributes, SetTopicAttributes."""

from __future__ import annotations

from cns.errors import required_text
from cns.tags import read_tags
from cns.topics.data_protection import NO_POLICY, check_policy
from cns.topics.topics import Topics
from cns_common.aws.call import Call, Params, Result


class TopicOperations:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def create_topic(self, call: Call, params: Params) -> Result:
        name = required_text(params, "Name")
        check_policy(params.get("DataProtectionPolicy", NO_POLICY))
        attributes: dict[str, str] = params.get("Attributes") or {}
        return {"TopicArn": await self._topics.create(call, name, attributes, read_tags(params.get("Tags") or []))}

    async def delete_topic(self, call: Call, params: Params) -> Result:
        await self._topics.delete(call, required_text(params, "TopicArn"))
        return {}

    async def list_topics(self, call: Call, params: Params) -> Result:
        arns, token = await self._topics.list_arns(call, params.get("NextToken"))
        return {"Topics": [{"TopicArn": arn} for arn in arns], "NextToken": token}

    async def get_topic_attributes(self, call: Call, params: Params) -> Result:
        return {"Attributes": await self._topics.describe(call, required_text(params, "TopicArn"))}

    async def set_topic_attributes(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "TopicArn")
        name = required_text(params, "AttributeName")
        await self._topics.set_attribute(call, arn, name, params.get("AttributeValue") or "")
        return {}

"""TagResource, UntagResource, ListTagsForResource."""

from __future__ import annotations

from cns.errors import length_violation, missing_parameter, required_text
from cns.limits import RESOURCE_ARN_CHARS_MAX
from cns.tags import read_tags
from cns.topics.topics import Topics
from cns_common.aws.call import Call, Params, Result


class TopicTagOperations:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def tag_resource(self, call: Call, params: Params) -> Result:
        arn = _resource(params)
        if params.get("Tags") is None:
            raise missing_parameter("Tags")
        await self._topics.tag(call, arn, read_tags(params["Tags"]))
        return {}

    async def untag_resource(self, call: Call, params: Params) -> Result:
        arn = _resource(params)
        if params.get("TagKeys") is None:
            raise missing_parameter("TagKeys")
        await self._topics.untag(call, arn, params["TagKeys"])
        return {}

    async def list_tags_for_resource(self, call: Call, params: Params) -> Result:
        tags = await self._topics.tags(call, _resource(params))
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


def _resource(params: Params) -> str:
    arn = required_text(params, "ResourceArn")
    if not 1 <= len(arn) <= RESOURCE_ARN_CHARS_MAX:
        raise length_violation(arn, "resourceArn", 1, RESOURCE_ARN_CHARS_MAX)
    return arn

"""TagResource, UntagResource, ListTagsForResource."""

from __future__ import annotations

from cns.refusals import missing, required_text
from cns.tags import read_tags
from cns.topics import Topics
from common.aws.call import Call, Params, Result


class TagOperations:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def tag_resource(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "ResourceArn")
        if params.get("Tags") is None:
            raise missing("Tags")
        await self._topics.tag(call, arn, read_tags(params["Tags"]))
        return {}

    async def untag_resource(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "ResourceArn")
        if params.get("TagKeys") is None:
            raise missing("TagKeys")
        await self._topics.untag(call, arn, params["TagKeys"])
        return {}

    async def list_tags_for_resource(self, call: Call, params: Params) -> Result:
        tags = await self._topics.tags(call, required_text(params, "ResourceArn"))
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

"""SNS through boto3: batches published, and errors as SDK users see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all


@pytest.mark.spec("sns-batch.entry-fails")
def test_publish_batch(sqs: Any, sns: Any, topic: Topic) -> None:
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    entries: list[dict[str, Any]] = [{"Id": str(n), "Message": f"m{n}"} for n in range(9)]
    entries.append({"Id": "bad", "Message": "x", "MessageStructure": "json"})
    answer = sns.publish_batch(TopicArn=topic.arn, PublishBatchRequestEntries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == [str(n) for n in range(9)]
    assert len({entry["MessageId"] for entry in answer["Successful"]}) == 9
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
        ("bad", "InvalidParameter", True)
    ]
    assert sorted(message["Body"] for message in receive_all(sqs, queue, 9)) == [f"m{n}" for n in range(9)]


def test_errors_have_the_sdk_classes(sns: Any, topic: Topic) -> None:
    with pytest.raises(sns.exceptions.NotFoundException):
        sns.publish(TopicArn=topic.arn + "-not", Message="x")
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.publish(TopicArn=topic.arn, Message="")
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.subscribe(TopicArn=topic.arn, Protocol="pigeon", Endpoint="loft")
    with pytest.raises(sns.exceptions.TooManyEntriesInBatchRequestException):
        sns.publish_batch(
            TopicArn=topic.arn, PublishBatchRequestEntries=[{"Id": str(n), "Message": "x"} for n in range(11)]
        )

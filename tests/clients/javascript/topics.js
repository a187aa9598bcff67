// Topics that feed queues: in an envelope, raw, and in tens.
import assert from "node:assert/strict";
import { arnOf, newName, newQueue, receiveAll, receiveOne, sns, sqs } from "./service.js";

async function newSubscribed(Attributes) {
  const { TopicArn } = await sns.createTopic({ Name: newName() });
  const queue = await newQueue();
  const arn = await arnOf(queue);
  const Policy = JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      {
        Effect: "Allow",
        Principal: { Service: "sns.amazonaws.com" },
        Action: "sqs:SendMessage",
        Resource: arn,
        Condition: { ArnEquals: { "aws:SourceArn": TopicArn } },
      },
    ],
  });
  await sqs.setQueueAttributes({ QueueUrl: queue, Attributes: { Policy } });
  await sns.subscribe({ TopicArn, Protocol: "sqs", Endpoint: arn, Attributes });
  return { TopicArn, queue };
}

const MessageAttributes = {
  kind: { DataType: "String", StringValue: "news" },
  blob: { DataType: "Binary", BinaryValue: Uint8Array.of(0, 255) },
};

export const topics = {
  "topic-to-queue": async () => {
    const { TopicArn, queue } = await newSubscribed();
    const Message = "grüße 🎉\r\n";
    const { MessageId } = await sns.publish({ TopicArn, Subject: "greetings", Message, MessageAttributes });
    const { Body } = await receiveOne(queue);
    const envelope = JSON.parse(Body);
    assert.equal(envelope.Type, "Notification");
    assert.equal(envelope.MessageId, MessageId);
    assert.equal(envelope.TopicArn, TopicArn);
    assert.equal(envelope.Subject, "greetings");
    assert.equal(envelope.Message, Message);
    assert.deepEqual(envelope.MessageAttributes, {
      kind: { Type: "String", Value: "news" },
      blob: { Type: "Binary", Value: "AP8=" },
    });
  },

  "topic-to-queue-raw": async () => {
    const { TopicArn, queue } = await newSubscribed({ RawMessageDelivery: "true" });
    await sns.publish({ TopicArn, Message: "as it is", MessageAttributes });
    const message = await receiveOne(queue);
    assert.equal(message.Body, "as it is");
    assert.deepEqual(message.MessageAttributes, MessageAttributes);
  },

  "publish-batch": async () => {
    const { TopicArn, queue } = await newSubscribed({ RawMessageDelivery: "true" });
    const good = Array.from({ length: 9 }, (_, n) => ({ Id: `m${n}`, Message: `news ${n}` }));
    const PublishBatchRequestEntries = [...good, { Id: "bad", Message: "" }];
    const { Successful, Failed } = await sns.publishBatch({ TopicArn, PublishBatchRequestEntries });
    assert.deepEqual(Successful.map(({ Id }) => Id), good.map(({ Id }) => Id));
    assert.deepEqual(Failed.map(({ Id, SenderFault }) => [Id, SenderFault]), [["bad", true]]);
    const received = await receiveAll(queue, 9);
    assert.deepEqual(received.map(({ Body }) => Body).sort(), good.map(({ Message }) => Message));
  },
};

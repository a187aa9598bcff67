// The clients that most scenarios share, and what several of them do.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { SNS } from "@aws-sdk/client-sns";
import { SQS } from "@aws-sdk/client-sqs";
import { STS } from "@aws-sdk/client-sts";

export const sqs = new SQS();
export const sns = new SNS();
export const sts = new STS();

const { STRANGER_ACCESS_KEY_ID, STRANGER_SECRET_ACCESS_KEY } = process.env;
export const strangersKeys = { accessKeyId: STRANGER_ACCESS_KEY_ID, secretAccessKey: STRANGER_SECRET_ACCESS_KEY };

export const newName = () => `js-${randomUUID()}`;

export async function newQueue(Attributes) {
  const { QueueUrl } = await sqs.createQueue({ QueueName: newName(), Attributes });
  return QueueUrl;
}

export async function newFifo(Attributes) {
  const { QueueUrl } = await sqs.createQueue({
    QueueName: `${newName()}.fifo`,
    Attributes: { FifoQueue: "true", ...Attributes },
  });
  return QueueUrl;
}

export async function attributesOf(QueueUrl, owner = sqs) {
  const { Attributes } = await owner.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
  return Attributes;
}

export const arnOf = async (queue) => (await attributesOf(queue)).QueueArn;

export async function newTopic(Attributes) {
  const { TopicArn } = await sns.createTopic({
    Name: Attributes?.FifoTopic ? `${newName()}.fifo` : newName(),
    Attributes,
  });
  return TopicArn;
}

/** A queue of that owner, subscribed to a topic that its policy lets in. */
export async function newSubscribed({ owner = sqs, TopicArn, queue, Attributes } = {}) {
  TopicArn ??= await newTopic();
  queue ??= (await owner.createQueue({ QueueName: newName() })).QueueUrl;
  const { QueueArn } = await attributesOf(queue, owner);
  const Policy = JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      {
        Effect: "Allow",
        Principal: { Service: "sns.amazonaws.com" },
        Action: "sqs:SendMessage",
        Resource: QueueArn,
        Condition: { ArnEquals: { "aws:SourceArn": TopicArn } },
      },
    ],
  });
  await owner.setQueueAttributes({ QueueUrl: queue, Attributes: { Policy } });
  const { SubscriptionArn } = await sns.subscribe({ TopicArn, Protocol: "sqs", Endpoint: QueueArn, Attributes });
  return { TopicArn, queue, SubscriptionArn };
}

/** One message, which must come. */
export async function receiveOne(QueueUrl, more, owner = sqs) {
  const { Messages = [] } = await owner.receiveMessage({
    QueueUrl,
    WaitTimeSeconds: 10,
    MessageSystemAttributeNames: ["All"],
    MessageAttributeNames: ["All"],
    ...more,
  });
  assert.equal(Messages.length, 1);
  return Messages[0];
}

/** What the body of the next message says; it is deleted. */
export async function publishedTo(QueueUrl, owner = sqs) {
  const { Body, ReceiptHandle } = await receiveOne(QueueUrl, {}, owner);
  await owner.deleteMessage({ QueueUrl, ReceiptHandle });
  return JSON.parse(Body);
}

/** As many messages as there should be, in as many calls as it takes. */
export async function receiveAll(QueueUrl, count) {
  const received = [];
  while (received.length < count) {
    const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 10 });
    assert.notEqual(Messages.length, 0, `only ${received.length} of ${count} came`);
    received.push(...Messages);
  }
  return received;
}

export async function assertEmpty(QueueUrl) {
  const { Messages } = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10 });
  assert.equal(Messages, undefined);
}

/** The call fails with this class, this code of the Query protocol, this status. */
export async function refused(call, Class, code, status = 400) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof Class, error);
    assert.equal(error.Code ?? error.name, code);
    assert.equal(error.$metadata.httpStatusCode, status);
    return true;
  });
}

/** Looks until it is so. */
export async function until(look) {
  const end = Date.now() + 60_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, "not within 60 s");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

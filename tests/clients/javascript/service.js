// The clients that most scenarios share, and what several of them do.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { SNS } from "@aws-sdk/client-sns";
import { SQS } from "@aws-sdk/client-sqs";
import { STS } from "@aws-sdk/client-sts";

export const sqs = new SQS();
export const sns = new SNS();
export const sts = new STS();

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

export async function attributesOf(QueueUrl) {
  const { Attributes } = await sqs.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
  return Attributes;
}

export const arnOf = async (queue) => (await attributesOf(queue)).QueueArn;

/** One message, which must come. */
export async function receiveOne(QueueUrl, more) {
  const { Messages = [] } = await sqs.receiveMessage({
    QueueUrl,
    WaitTimeSeconds: 10,
    MessageSystemAttributeNames: ["All"],
    MessageAttributeNames: ["All"],
    ...more,
  });
  assert.equal(Messages.length, 1);
  return Messages[0];
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
  const end = Date.now() + 10_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, "not within 10 s");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

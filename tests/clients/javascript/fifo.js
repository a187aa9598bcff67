// FIFO queues: order, groups, the two ways to drop duplicates, a receive that is tried again.
import assert from "node:assert/strict";
import { assertEmpty, attributesOf, newFifo, receiveOne, sqs } from "./service.js";

const bodies = (received) => (received.Messages ?? []).map(({ Body }) => Body);

export const fifo = {
  "fifo-order": async () => {
    const QueueUrl = await newFifo({ ContentBasedDeduplication: "true" });
    const numbers = [];
    for (const MessageBody of ["0", "1", "2", "3"]) {
      const sent = await sqs.sendMessage({ QueueUrl, MessageBody, MessageGroupId: "g" });
      numbers.push(BigInt(sent.SequenceNumber));
    }
    assert.ok(numbers.every((number, n) => n === 0 || number > numbers[n - 1]), numbers);
    const first = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 2, MessageSystemAttributeNames: ["All"] });
    assert.deepEqual(bodies(first), ["0", "1"]);
    assert.equal(first.Messages[0].Attributes.MessageGroupId, "g");
    assert.equal(BigInt(first.Messages[0].Attributes.SequenceNumber), numbers[0]);
    await assertEmpty(QueueUrl); // the group is locked
    for (const { ReceiptHandle } of first.Messages) await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
    assert.deepEqual(bodies(await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10 })), ["2", "3"]);
  },

  "fifo-deduplication-by-id": async () => {
    const QueueUrl = await newFifo();
    const send = (MessageBody, MessageDeduplicationId) =>
      sqs.sendMessage({ QueueUrl, MessageBody, MessageGroupId: "g", MessageDeduplicationId });
    const first = await send("one", "id-1");
    const again = await send("another text", "id-1");
    await send("two", "id-2");
    assert.equal(again.MessageId, first.MessageId);
    assert.equal(again.SequenceNumber, first.SequenceNumber);
    assert.deepEqual(bodies(await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10 })), ["one", "two"]);
  },

  "fifo-deduplication-by-content": async () => {
    const QueueUrl = await newFifo({ ContentBasedDeduplication: "true" });
    const send = () => sqs.sendMessage({ QueueUrl, MessageBody: "same", MessageGroupId: "g" });
    const first = await send();
    const again = await send();
    assert.equal(again.MessageId, first.MessageId);
    const { Attributes } = await receiveOne(QueueUrl, { MaxNumberOfMessages: 10 });
    const sha256 = "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5";
    assert.equal(Attributes.MessageDeduplicationId, sha256);
  },

  "fifo-receive-attempt": async () => {
    const QueueUrl = await newFifo({ ContentBasedDeduplication: "true" });
    await sqs.sendMessage({ QueueUrl, MessageBody: "x", MessageGroupId: "g" });
    const first = await receiveOne(QueueUrl, { ReceiveRequestAttemptId: "attempt-1" });
    const again = await receiveOne(QueueUrl, { ReceiveRequestAttemptId: "attempt-1" });
    assert.equal(again.MessageId, first.MessageId);
    assert.equal(again.Attributes.ApproximateReceiveCount, "1"); // one receive, answered twice
    await assertEmpty(QueueUrl);
    await sqs.deleteMessage({ QueueUrl, ReceiptHandle: first.ReceiptHandle });
    assert.equal((await attributesOf(QueueUrl)).ApproximateNumberOfMessagesNotVisible, "0");
  },
};

// Messages on standard queues: what they carry, when they are seen, in ones and in tens.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { ReceiptHandleIsInvalid } from "@aws-sdk/client-sqs";
import { assertEmpty, attributesOf, newQueue, receiveAll, receiveOne, refused, sqs } from "./service.js";

export const messages = {
  "message-attributes": async () => {
    const QueueUrl = await newQueue();
    const MessageAttributes = {
      text: { DataType: "String", StringValue: "grüße" },
      count: { DataType: "Number", StringValue: "42" },
      blob: { DataType: "Binary", BinaryValue: Uint8Array.of(0, 1, 255) },
      custom: { DataType: "Number.long", StringValue: "7" },
    };
    const sent = await sqs.sendMessage({ QueueUrl, MessageBody: "hello", MessageAttributes });
    assert.equal(sent.MD5OfMessageBody, createHash("md5").update("hello").digest("hex"));
    const message = await receiveOne(QueueUrl);
    assert.equal(message.MessageId, sent.MessageId);
    assert.equal(message.Body, "hello");
    assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
    assert.deepEqual(message.MessageAttributes, MessageAttributes);
    const { ReceiptHandle } = message;
    await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
    const counts = await attributesOf(QueueUrl);
    assert.equal(counts.ApproximateNumberOfMessages, "0");
    assert.equal(counts.ApproximateNumberOfMessagesNotVisible, "0");
  },

  "message-text": async () => {
    const QueueUrl = await newQueue();
    for (const MessageBody of ["a\r\nb\rc\nd\t", "<&>\"'&#13;]]>", "\u{10FFFF} 🎉 \uFFFD\uE000", " "]) {
      await sqs.sendMessage({ QueueUrl, MessageBody });
      const { Body, ReceiptHandle } = await receiveOne(QueueUrl);
      assert.equal(Body, MessageBody);
      await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
    }
  },

  "system-attributes": async () => {
    const QueueUrl = await newQueue();
    const StringValue = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    const sent = await sqs.sendMessage({
      QueueUrl,
      MessageBody: "x",
      MessageSystemAttributes: { AWSTraceHeader: { DataType: "String", StringValue } },
    });
    assert.equal(sent.MD5OfMessageSystemAttributes, "5ae4d5d7636402d80f4eb6d213245a88");
    const { Attributes } = await receiveOne(QueueUrl);
    assert.equal(Attributes.AWSTraceHeader, StringValue);
    assert.equal(Attributes.ApproximateReceiveCount, "1");
    assert.ok(Number(Attributes.ApproximateFirstReceiveTimestamp) >= Number(Attributes.SentTimestamp));
    assert.match(Attributes.SenderId, /./);
  },

  "batch-with-a-bad-entry": async () => {
    const QueueUrl = await newQueue();
    const good = Array.from({ length: 9 }, (_, n) => ({ Id: `m${n}`, MessageBody: `body ${n}` }));
    const sent = await sqs.sendMessageBatch({ QueueUrl, Entries: [...good, { Id: "bad", MessageBody: "\uFFFF" }] });
    assert.deepEqual(sent.Successful.map(({ Id }) => Id), good.map(({ Id }) => Id));
    const [{ Id, Code, SenderFault }, ...others] = sent.Failed;
    assert.deepEqual([Id, Code, SenderFault, others.length], ["bad", "InvalidMessageContents", true, 0]);
    const received = await receiveAll(QueueUrl, 9);
    assert.deepEqual(received.map(({ Body }) => Body).sort(), good.map(({ MessageBody }) => MessageBody));
    const handles = received.map(({ ReceiptHandle }, n) => ({ Id: `${n}`, ReceiptHandle }));
    const deleted = await sqs.deleteMessageBatch({
      QueueUrl,
      Entries: [...handles, { Id: "bad", ReceiptHandle: "garbage" }],
    });
    assert.equal(deleted.Successful.length, 9);
    assert.deepEqual(deleted.Failed.map(({ Id, Code }) => [Id, Code]), [["bad", "ReceiptHandleIsInvalid"]]);
  },

  "long-poll": async () => {
    const QueueUrl = await newQueue();
    const poll = receiveOne(QueueUrl, { WaitTimeSeconds: 20 });
    await new Promise((resolve) => setTimeout(resolve, 300)); // for the poll to be there first
    const sent = performance.now();
    await sqs.sendMessage({ QueueUrl, MessageBody: "wake up" });
    const { Body } = await poll;
    assert.equal(Body, "wake up");
    assert.ok(performance.now() - sent < 1000);
  },

  visibility: async () => {
    const QueueUrl = await newQueue();
    await sqs.sendMessage({ QueueUrl, MessageBody: "x" });
    const { ReceiptHandle } = await receiveOne(QueueUrl, { VisibilityTimeout: 600 });
    await assertEmpty(QueueUrl);
    await sqs.changeMessageVisibility({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 });
    const again = await receiveOne(QueueUrl);
    assert.equal(again.Attributes.ApproximateReceiveCount, "2");
    assert.notEqual(again.ReceiptHandle, ReceiptHandle);
  },

  "visibility-batch": async () => {
    const QueueUrl = await newQueue();
    await sqs.sendMessageBatch({ QueueUrl, Entries: ["0", "1"].map((Id) => ({ Id, MessageBody: Id })) });
    const [first, second] = await receiveAll(QueueUrl, 2);
    const changed = await sqs.changeMessageVisibilityBatch({
      QueueUrl,
      Entries: [
        { Id: "shown", ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 0 },
        { Id: "too-long", ReceiptHandle: second.ReceiptHandle, VisibilityTimeout: 43_201 },
        { Id: "garbage", ReceiptHandle: "garbage", VisibilityTimeout: 0 },
      ],
    });
    assert.deepEqual(changed.Successful.map(({ Id }) => Id), ["shown"]);
    assert.deepEqual(Object.fromEntries(changed.Failed.map(({ Id, Code }) => [Id, Code])), {
      "too-long": "InvalidParameterValue",
      garbage: "ReceiptHandleIsInvalid",
    });
    const { Body } = await receiveOne(QueueUrl);
    assert.equal(Body, first.Body);
  },

  delay: async () => {
    const QueueUrl = await newQueue();
    const sent = performance.now();
    await sqs.sendMessage({ QueueUrl, MessageBody: "later", DelaySeconds: 1 });
    assert.equal((await attributesOf(QueueUrl)).ApproximateNumberOfMessagesDelayed, "1");
    await assertEmpty(QueueUrl);
    await receiveOne(QueueUrl);
    const took = performance.now() - sent;
    assert.ok(took > 900 && took < 3000, `${took} ms`);
  },

  "invalid-receipt-handle": async () => {
    const QueueUrl = await newQueue();
    const bad = { QueueUrl, ReceiptHandle: "garbage" };
    const code = "ReceiptHandleIsInvalid";
    await refused(() => sqs.deleteMessage(bad), ReceiptHandleIsInvalid, code, 404);
    const call = () => sqs.changeMessageVisibility({ ...bad, VisibilityTimeout: 0 });
    await refused(call, ReceiptHandleIsInvalid, code, 404);
  },

  "fair-queue": async () => {
    const QueueUrl = await newQueue();
    const send = (MessageGroupId, MessageBody) => sqs.sendMessage({ QueueUrl, MessageGroupId, MessageBody });
    const sent = [await send("tenant-a", "1"), await send("tenant-a", "2"), await send("tenant-b", "3")];
    assert.ok(sent.every(({ SequenceNumber }) => SequenceNumber === undefined));
    const groups = {};
    for (const _ of sent) {
      const { Body, Attributes } = await receiveOne(QueueUrl);
      groups[Body] = Attributes.MessageGroupId;
    }
    assert.deepEqual(groups, { 1: "tenant-a", 2: "tenant-a", 3: "tenant-b" });
  },
};

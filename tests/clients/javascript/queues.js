// Queues: made, found, listed, changed, tagged, emptied, deleted.
import assert from "node:assert/strict";
import {
  paginateListQueues,
  PurgeQueueInProgress,
  QueueDeletedRecently,
  QueueDoesNotExist,
  QueueNameExists,
} from "@aws-sdk/client-sqs";
import { assertEmpty, attributesOf, newName, newQueue, refused, sqs } from "./service.js";

export const queues = {
  "create-queue": async () => {
    const QueueName = newName();
    const { QueueUrl } = await sqs.createQueue({
      QueueName,
      Attributes: { VisibilityTimeout: "45", DelaySeconds: "0", MessageRetentionPeriod: "3600" },
      tags: { team: "blue", empty: "" },
    });
    assert.ok(QueueUrl.endsWith(`/${QueueName}`));
    const attributes = await attributesOf(QueueUrl);
    assert.equal(attributes.VisibilityTimeout, "45");
    assert.equal(attributes.MessageRetentionPeriod, "3600");
    assert.equal(attributes.MaximumMessageSize, "1048576");
    assert.ok(attributes.QueueArn.endsWith(`:${QueueName}`));
    const { Tags } = await sqs.listQueueTags({ QueueUrl });
    assert.deepEqual(Tags, { team: "blue", empty: "" });
  },

  "create-queue-again": async () => {
    const request = { QueueName: newName(), Attributes: { VisibilityTimeout: "45" } };
    const first = await sqs.createQueue(request);
    const second = await sqs.createQueue(request);
    assert.equal(second.QueueUrl, first.QueueUrl);
  },

  "create-queue-that-differs": async () => {
    const QueueName = newName();
    await sqs.createQueue({ QueueName, Attributes: { VisibilityTimeout: "45" } });
    const differs = { QueueName, Attributes: { VisibilityTimeout: "46" } };
    await refused(() => sqs.createQueue(differs), QueueNameExists, "QueueAlreadyExists");
  },

  "get-queue-url": async () => {
    const QueueName = newName();
    const created = await sqs.createQueue({ QueueName });
    const found = await sqs.getQueueUrl({ QueueName });
    assert.equal(found.QueueUrl, created.QueueUrl);
  },

  "missing-queue": async () => {
    const code = "AWS.SimpleQueueService.NonExistentQueue";
    await refused(() => sqs.getQueueUrl({ QueueName: newName() }), QueueDoesNotExist, code);
    const QueueUrl = `${await newQueue()}-not`;
    await refused(() => sqs.sendMessage({ QueueUrl, MessageBody: "x" }), QueueDoesNotExist, code);
  },

  "list-queues": async () => {
    const prefix = newName();
    const names = ["a", "b", "c", "d", "e"].map((letter) => `${prefix}-${letter}`);
    const made = await Promise.all(names.map((QueueName) => sqs.createQueue({ QueueName })));
    const pages = [];
    for await (const page of paginateListQueues({ client: sqs, pageSize: 2 }, { QueueNamePrefix: prefix })) {
      pages.push(page.QueueUrls);
    }
    assert.deepEqual(pages.map((urls) => urls.length), [2, 2, 1]);
    assert.deepEqual(pages.flat().sort(), made.map(({ QueueUrl }) => QueueUrl).sort());
    const { QueueUrls } = await sqs.listQueues({ QueueNamePrefix: `${prefix}-none` });
    assert.equal(QueueUrls, undefined);
  },

  "set-queue-attributes": async () => {
    const QueueUrl = await newQueue();
    const Attributes = { VisibilityTimeout: "7", ReceiveMessageWaitTimeSeconds: "3" };
    await sqs.setQueueAttributes({ QueueUrl, Attributes });
    const attributes = await attributesOf(QueueUrl);
    assert.equal(attributes.VisibilityTimeout, "7");
    assert.equal(attributes.ReceiveMessageWaitTimeSeconds, "3");
  },

  "queue-tags": async () => {
    const QueueUrl = await newQueue();
    await sqs.tagQueue({ QueueUrl, Tags: { one: "1", two: "2" } });
    await sqs.tagQueue({ QueueUrl, Tags: { two: "zwei" } });
    await sqs.untagQueue({ QueueUrl, TagKeys: ["one", "never"] });
    const { Tags } = await sqs.listQueueTags({ QueueUrl });
    assert.deepEqual(Tags, { two: "zwei" });
  },

  "purge-queue": async () => {
    const QueueUrl = await newQueue();
    await sqs.sendMessage({ QueueUrl, MessageBody: "x" });
    await sqs.purgeQueue({ QueueUrl });
    await assertEmpty(QueueUrl);
    const code = "AWS.SimpleQueueService.PurgeQueueInProgress";
    await refused(() => sqs.purgeQueue({ QueueUrl }), PurgeQueueInProgress, code, 403);
  },

  "delete-queue": async () => {
    const QueueName = newName();
    const { QueueUrl } = await sqs.createQueue({ QueueName });
    await sqs.deleteQueue({ QueueUrl });
    const code = "AWS.SimpleQueueService.QueueDeletedRecently";
    await refused(() => sqs.createQueue({ QueueName }), QueueDeletedRecently, code);
  },
};

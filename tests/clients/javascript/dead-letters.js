// Dead-letter queues, and the tasks that move their messages back.
import assert from "node:assert/strict";
import { ResourceNotFoundException } from "@aws-sdk/client-sqs";
import { arnOf, assertEmpty, newName, newQueue, receiveOne, refused, sqs, until } from "./service.js";

async function newPair() {
  const dead = await newQueue();
  const deadArn = await arnOf(dead);
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: deadArn, maxReceiveCount: 1 });
  return { dead, deadArn, source: await newQueue({ RedrivePolicy }) };
}

async function bury(source, MessageBody) {
  const { MessageId } = await sqs.sendMessage({ QueueUrl: source, MessageBody });
  await receiveOne(source, { VisibilityTimeout: 0 });
  await assertEmpty(source); // this receive moves it
  return MessageId;
}

async function latestTask(SourceArn) {
  const { Results } = await sqs.listMessageMoveTasks({ SourceArn });
  return Results[0];
}

export const deadLetters = {
  "dead-letter-queue": async () => {
    const { dead, source } = await newPair();
    const id = await bury(source, "poison");
    const { MessageId, Body, Attributes } = await receiveOne(dead);
    assert.deepEqual([MessageId, Body], [id, "poison"]);
    assert.equal(Attributes.ApproximateReceiveCount, "2");
    assert.equal(Attributes.DeadLetterQueueSourceArn, await arnOf(source));
    const { queueUrls } = await sqs.listDeadLetterSourceQueues({ QueueUrl: dead });
    assert.deepEqual(queueUrls, [source]);
  },

  "move-task": async () => {
    const { deadArn, source } = await newPair();
    await bury(source, "second chance");
    const { TaskHandle } = await sqs.startMessageMoveTask({ SourceArn: deadArn });
    assert.match(TaskHandle, /./);
    const { Body } = await receiveOne(source);
    assert.equal(Body, "second chance");
    const task = await until(async () => {
      const latest = await latestTask(deadArn);
      return latest.Status === "COMPLETED" && latest;
    });
    assert.equal(task.SourceArn, deadArn);
    assert.equal(task.ApproximateNumberOfMessagesMoved, 1);
    assert.ok(Math.abs(Date.now() - task.StartedTimestamp) < 60_000);
  },

  "move-task-cancelled": async () => {
    const { deadArn, source } = await newPair();
    for (const body of ["0", "1", "2", "3", "4"]) await bury(source, body);
    const DestinationArn = await arnOf(await newQueue());
    const request = { SourceArn: deadArn, DestinationArn, MaxNumberOfMessagesPerSecond: 1 };
    const { TaskHandle } = await sqs.startMessageMoveTask(request);
    assert.equal((await latestTask(deadArn)).Status, "RUNNING");
    const { ApproximateNumberOfMessagesMoved } = await sqs.cancelMessageMoveTask({ TaskHandle });
    assert.ok(ApproximateNumberOfMessagesMoved < 5);
    await until(async () => (await latestTask(deadArn)).Status === "CANCELLED");
  },

  "move-task-without-queue": async () => {
    const { deadArn } = await newPair();
    const SourceArn = `${deadArn.slice(0, deadArn.lastIndexOf(":"))}:${newName()}`;
    const call = () => sqs.startMessageMoveTask({ SourceArn });
    await refused(call, ResourceNotFoundException, "ResourceNotFoundException", 404);
  },
};

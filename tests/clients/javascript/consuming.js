// A worker as people write them: the package sqs-consumer, a handler that fails once.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Consumer } from "sqs-consumer";
import { attributesOf, newQueue, sqs, until } from "./service.js";

export const consuming = {
  consumer: async () => {
    const queueUrl = await newQueue();
    const bodies = Array.from({ length: 30 }, (_, n) => `job ${n}`);
    for (let from = 0; from < bodies.length; from += 10) {
      const Entries = bodies.slice(from, from + 10).map((MessageBody, n) => ({ Id: `${n}`, MessageBody }));
      await sqs.sendMessageBatch({ QueueUrl: queueUrl, Entries });
    }
    const done = [];
    let failures = 0;
    const consumer = Consumer.create({
      sqs,
      queueUrl,
      batchSize: 10,
      waitTimeSeconds: 20,
      terminateVisibilityTimeout: true,
      handleMessage: async (message) => {
        if (message.Body === "job 7" && failures++ === 0) throw new Error("the first try fails");
        done.push(message.Body);
        return message;
      },
    });
    const complaints = [];
    const complain = (error) => consumer.status.isRunning && complaints.push(error.message);
    consumer.on("error", complain).on("processing_error", complain);
    consumer.start();
    await until(async () => {
      const counts = await attributesOf(queueUrl);
      return counts.ApproximateNumberOfMessages === "0" && counts.ApproximateNumberOfMessagesNotVisible === "0";
    });
    const stopped = once(consumer, "stopped");
    consumer.stop({ abort: true });
    await stopped;
    assert.deepEqual(done.sort(), bodies.sort());
    assert.equal(failures, 2);
    assert.deepEqual(complaints, ["Unexpected message handler failure: the first try fails"]);
  },
};

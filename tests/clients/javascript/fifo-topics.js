// FIFO topics: duplicates, sequence numbers, order.
import assert from "node:assert/strict";
import { InvalidParameterException } from "@aws-sdk/client-sns";
import { newFifo, newSubscribed, newTopic, publishedTo, refused, sns } from "./service.js";

const newFifoTopic = (ContentBasedDeduplication) => newTopic({ FifoTopic: "true", ContentBasedDeduplication });

export const fifoTopics = {
  "fifo-topic": async () => {
    const TopicArn = await newFifoTopic("true");
    const { queue } = await newSubscribed({ TopicArn, queue: await newFifo() });
    const publish = (Message) => sns.publish({ TopicArn, Message, MessageGroupId: "g" });
    const first = await publish("one");
    const again = await publish("one");
    const second = await publish("two");
    assert.deepEqual([again.MessageId, again.SequenceNumber], [first.MessageId, first.SequenceNumber]);
    assert.match(first.SequenceNumber, /^\d{20}$/);
    assert.ok(second.SequenceNumber > first.SequenceNumber);
    const envelopes = [await publishedTo(queue), await publishedTo(queue)];
    assert.deepEqual(envelopes.map(({ Message }) => Message), ["one", "two"]);
    assert.deepEqual(envelopes.map(({ SequenceNumber }) => SequenceNumber), [
      first.SequenceNumber,
      second.SequenceNumber,
    ]);
  },

  "fifo-topic-batch": async () => {
    const TopicArn = await newFifoTopic("false");
    const entry = (n) => ({ Id: `m${n}`, Message: `${n}`, MessageGroupId: "g", MessageDeduplicationId: `d${n % 2}` });
    const PublishBatchRequestEntries = [0, 1, 2].map(entry);
    const { Successful } = await sns.publishBatch({ TopicArn, PublishBatchRequestEntries });
    const numbers = Successful.map(({ SequenceNumber }) => SequenceNumber);
    assert.ok(numbers[0] < numbers[1] && numbers[2] === numbers[0], numbers);
    const withoutId = () => sns.publish({ TopicArn, Message: "x", MessageGroupId: "g" });
    await refused(withoutId, InvalidParameterException, "InvalidParameter");
  },
};

// Topics: made, shown, tagged, shared; and how they feed queues: in an envelope, raw, and in tens.
import assert from "node:assert/strict";
import {
  AuthorizationErrorException,
  BatchEntryIdsNotDistinctException,
  InvalidParameterException,
  InvalidParameterValueException,
  NotFoundException,
  SNS,
} from "@aws-sdk/client-sns";
import { STS } from "@aws-sdk/client-sts";
import {
  newName,
  newSubscribed,
  newTopic,
  publishedTo,
  receiveAll,
  receiveOne,
  refused,
  sns,
  strangersKeys,
} from "./service.js";

const MessageAttributes = {
  kind: { DataType: "String", StringValue: "news" },
  price: { DataType: "Number", StringValue: "12.50" },
  tags: { DataType: "String.Array", StringValue: '["a","b"]' },
  blob: { DataType: "Binary", BinaryValue: Uint8Array.of(0, 255) },
};

export const topics = {
  "topic-attributes": async () => {
    const Name = newName();
    const Tags = [{ Key: "team", Value: "blue" }];
    const request = { Name, Attributes: { DisplayName: "News", SignatureVersion: "2" }, Tags };
    const { TopicArn } = await sns.createTopic(request);
    assert.ok(TopicArn.endsWith(`:${Name}`));
    assert.equal((await sns.createTopic(request)).TopicArn, TopicArn);
    const differs = { ...request, Attributes: { DisplayName: "Olds" } };
    await refused(() => sns.createTopic(differs), InvalidParameterException, "InvalidParameter");
    const AttributeName = "DisplayName";
    await sns.setTopicAttributes({ TopicArn, AttributeName, AttributeValue: "Latest <news>" });
    const { Attributes } = await sns.getTopicAttributes({ TopicArn });
    assert.equal(Attributes.DisplayName, "Latest <news>");
    assert.equal(Attributes.SignatureVersion, "2");
    assert.equal(JSON.parse(Attributes.EffectiveDeliveryPolicy).http.defaultHealthyRetryPolicy.numRetries, 3);
    await sns.tagResource({ ResourceArn: TopicArn, Tags: [{ Key: "empty", Value: "" }] });
    await sns.untagResource({ ResourceArn: TopicArn, TagKeys: ["team", "never"] });
    const listed = await sns.listTagsForResource({ ResourceArn: TopicArn });
    assert.deepEqual(listed.Tags, [{ Key: "empty", Value: "" }]);
  },

  "topic-missing": async () => {
    const TopicArn = await newTopic();
    await sns.deleteTopic({ TopicArn });
    await sns.deleteTopic({ TopicArn }); // deleted is deleted
    await refused(() => sns.getTopicAttributes({ TopicArn }), NotFoundException, "NotFound", 404);
    await refused(() => sns.publish({ TopicArn, Message: "x" }), NotFoundException, "NotFound", 404);
    const invalid = () => sns.publish({ TopicArn: "arn:aws:sns:nowhere", Message: "x" });
    await refused(invalid, InvalidParameterException, "InvalidParameter");
  },

  "topic-to-queue": async () => {
    const { TopicArn, queue } = await newSubscribed();
    const Message = "grüße 🎉\r\n";
    const { MessageId } = await sns.publish({ TopicArn, Subject: "greetings", Message, MessageAttributes });
    const envelope = await publishedTo(queue);
    assert.equal(envelope.Type, "Notification");
    assert.equal(envelope.MessageId, MessageId);
    assert.equal(envelope.TopicArn, TopicArn);
    assert.equal(envelope.Subject, "greetings");
    assert.equal(envelope.Message, Message);
    assert.deepEqual(envelope.MessageAttributes, {
      kind: { Type: "String", Value: "news" },
      price: { Type: "Number", Value: "12.50" },
      tags: { Type: "String.Array", Value: '["a","b"]' },
      blob: { Type: "Binary", Value: "AP8=" },
    });
  },

  "topic-to-queue-raw": async () => {
    const { TopicArn, queue } = await newSubscribed({ Attributes: { RawMessageDelivery: "true" } });
    await sns.publish({ TopicArn, Message: "as it is", MessageAttributes });
    const message = await receiveOne(queue);
    assert.equal(message.Body, "as it is");
    const price = { DataType: "Number", StringValue: "12.5" }; // as SQS writes it
    assert.deepEqual(message.MessageAttributes, { ...MessageAttributes, price });
  },

  "topic-to-queue-filtered": async () => {
    const FilterPolicy = JSON.stringify({ price: [{ numeric: ["<", 100] }], tags: ["b"] });
    const { TopicArn, queue } = await newSubscribed({ Attributes: { RawMessageDelivery: "true", FilterPolicy } });
    const price = { DataType: "Number", StringValue: "100" };
    await sns.publish({ TopicArn, Message: "dear", MessageAttributes: { ...MessageAttributes, price } });
    await sns.publish({ TopicArn, Message: "without" });
    await sns.publish({ TopicArn, Message: "cheap", MessageAttributes });
    assert.equal((await receiveOne(queue)).Body, "cheap");
  },

  "message-structure": async () => {
    const { TopicArn, queue } = await newSubscribed();
    const MessageStructure = "json";
    const Message = JSON.stringify({ default: "for all", sqs: "for queues", http: "for the web" });
    await sns.publish({ TopicArn, Message, MessageStructure });
    assert.equal((await publishedTo(queue)).Message, "for queues");
    const withoutDefault = () => sns.publish({ TopicArn, Message: '{"sqs": "x"}', MessageStructure });
    await refused(withoutDefault, InvalidParameterException, "InvalidParameter");
  },

  "message-attributes-refused": async () => {
    const TopicArn = await newTopic();
    const price = { DataType: "Number", StringValue: "cheap" };
    const call = () => sns.publish({ TopicArn, Message: "x", MessageAttributes: { price } });
    await refused(call, InvalidParameterValueException, "ParameterValueInvalid");
  },

  "publish-batch": async () => {
    const { TopicArn, queue } = await newSubscribed({ Attributes: { RawMessageDelivery: "true" } });
    const good = Array.from({ length: 9 }, (_, n) => ({ Id: `m${n}`, Message: `news ${n}` }));
    const PublishBatchRequestEntries = [...good, { Id: "bad", Message: "" }];
    const { Successful, Failed } = await sns.publishBatch({ TopicArn, PublishBatchRequestEntries });
    assert.deepEqual(Successful.map(({ Id }) => Id), good.map(({ Id }) => Id));
    assert.deepEqual(Failed.map(({ Id, Code, SenderFault }) => [Id, Code, SenderFault]), [
      ["bad", "InvalidParameter", true],
    ]);
    const received = await receiveAll(queue, 9);
    assert.deepEqual(received.map(({ Body }) => Body).sort(), good.map(({ Message }) => Message));
    const twice = { TopicArn, PublishBatchRequestEntries: [good[0], good[0]] };
    await refused(() => sns.publishBatch(twice), BatchEntryIdsNotDistinctException, "BatchEntryIdsNotDistinct");
  },

  "topic-permissions": async () => {
    const stranger = new SNS({ credentials: strangersKeys });
    const { Account } = await new STS({ credentials: strangersKeys }).getCallerIdentity();
    const TopicArn = await newTopic();
    const publish = () => stranger.publish({ TopicArn, Message: "from elsewhere" });
    await refused(publish, AuthorizationErrorException, "AuthorizationError", 403);
    const granted = { TopicArn, Label: "guest", AWSAccountId: [Account], ActionName: ["Publish"] };
    await sns.addPermission(granted);
    await sns.addPermission(granted);
    const more = { ...granted, ActionName: ["Publish", "Subscribe"] };
    await refused(() => sns.addPermission(more), InvalidParameterException, "InvalidParameter");
    await publish();
    await sns.removePermission({ TopicArn, Label: "guest" });
    await refused(publish, AuthorizationErrorException, "AuthorizationError", 403);
  },
};

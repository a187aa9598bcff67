// Subscriptions: made, changed, listed in pages, confirmed by token, ended.
import assert from "node:assert/strict";
import {
  InvalidParameterException,
  NotFoundException,
  paginateListSubscriptionsByTopic,
  SNS,
} from "@aws-sdk/client-sns";
import { SQS } from "@aws-sdk/client-sqs";
import { newName, newSubscribed, newTopic, publishedTo, refused, sns, strangersKeys } from "./service.js";

export const subscriptions = {
  "subscription-attributes": async () => {
    const { SubscriptionArn } = await newSubscribed();
    const set = (AttributeName, AttributeValue) =>
      sns.setSubscriptionAttributes({ SubscriptionArn, AttributeName, AttributeValue });
    await set("FilterPolicyScope", "MessageBody");
    await set("FilterPolicy", '{"a": {"b": [{"prefix": "c"}]}}');
    await set("RawMessageDelivery", "true");
    await refused(() => set("FilterPolicy", '{"a": [{"like": "b"}]}'), InvalidParameterException, "InvalidParameter");
    const { Attributes } = await sns.getSubscriptionAttributes({ SubscriptionArn });
    assert.equal(Attributes.FilterPolicy, '{"a":{"b":[{"prefix":"c"}]}}');
    assert.equal(Attributes.FilterPolicyScope, "MessageBody");
    assert.equal(Attributes.RawMessageDelivery, "true");
    assert.equal(Attributes.PendingConfirmation, "false");
    await sns.unsubscribe({ SubscriptionArn });
    await refused(() => sns.getSubscriptionAttributes({ SubscriptionArn }), NotFoundException, "NotFound", 404);
  },

  "list-subscriptions": async () => {
    const TopicArn = await newTopic();
    const beside = TopicArn.slice(0, TopicArn.lastIndexOf(":")).replace(":sns:", ":sqs:");
    const made = [];
    for (let n = 0; n < 205; n++) {
      const request = { TopicArn, Protocol: "sqs", Endpoint: `${beside}:${newName()}` };
      made.push((await sns.subscribe(request)).SubscriptionArn);
    }
    const pages = [];
    for await (const { Subscriptions } of paginateListSubscriptionsByTopic({ client: sns }, { TopicArn })) {
      pages.push(Subscriptions.map(({ SubscriptionArn }) => SubscriptionArn));
    }
    assert.deepEqual(pages.map((arns) => arns.length), [100, 100, 5]);
    assert.deepEqual(pages.flat().sort(), made.sort());
  },

  "confirm-subscription": async () => {
    const theirs = new SQS({ credentials: strangersKeys });
    const { TopicArn, queue, SubscriptionArn: answered } = await newSubscribed({ owner: theirs });
    assert.equal(answered, "pending confirmation");
    const { Type, Token } = await publishedTo(queue, theirs);
    assert.equal(Type, "SubscriptionConfirmation");
    const wrong = () => sns.confirmSubscription({ TopicArn, Token: "2336412f37" });
    await refused(wrong, InvalidParameterException, "InvalidParameter");
    const stranger = new SNS({ credentials: strangersKeys });
    const { SubscriptionArn } = await stranger.confirmSubscription({ TopicArn, Token });
    assert.ok(SubscriptionArn.startsWith(`${TopicArn}:`));
    await sns.publish({ TopicArn, Message: "across" });
    assert.equal((await publishedTo(queue, theirs)).Message, "across");
  },
};

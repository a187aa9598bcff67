// npm install testcontainers @aws-sdk/client-sqs; node --test
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CreateQueueCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { GenericContainer, Wait } from "testcontainers";

let cns, sqs;

before(async () => {
  cns = await new GenericContainer("cns")
    .withCommand(["up", "--auth", "off", "--test-clock"])
    .withExposedPorts(6059)
    .withWaitStrategy(Wait.forHttp("/ready", 6059))
    .start();
  sqs = new SQSClient({
    endpoint: `http://${cns.getHost()}:${cns.getMappedPort(6059)}`,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
  });
});

after(() => cns?.stop());

test("an order arrives", async () => {
  const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: "orders" }));
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "order 42" }));
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 }));
  assert.deepEqual(Messages.map((message) => message.Body), ["order 42"]);
});

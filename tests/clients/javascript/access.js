// Who may: signatures that are good, wrong and absent, and another account with a permission.
import assert from "node:assert/strict";
import { SQS, SQSServiceException } from "@aws-sdk/client-sqs";
import { STS } from "@aws-sdk/client-sts";
import { newQueue, receiveOne, refused, sqs, strangersKeys, sts } from "./service.js";

const { AWS_ACCESS_KEY_ID } = process.env;
const refusesTo = (client, code) => refused(() => client.listQueues(), SQSServiceException, code, 403);

export const access = {
  "caller-identity": async () => {
    const { Account, Arn } = await sts.getCallerIdentity();
    assert.match(Account, /^\d{12}$/);
    assert.equal(Arn, `arn:aws:iam::${Account}:root`);
  },

  "wrong-secret": async () => {
    const credentials = { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: "wrong" };
    await refusesTo(new SQS({ credentials }), "SignatureDoesNotMatch");
  },

  "unknown-key": async () => {
    const credentials = { accessKeyId: "AKIANOBODYNOBODYNOBO", secretAccessKey: "wrong" };
    await refusesTo(new SQS({ credentials }), "InvalidClientTokenId");
  },

  anonymous: async () => {
    const unsigned = new SQS({ signer: { sign: async (request) => request } });
    await refusesTo(unsigned, "AccessDenied");
  },

  permissions: async () => {
    const stranger = new SQS({ credentials: strangersKeys });
    const { Account } = await new STS({ credentials: strangersKeys }).getCallerIdentity();
    const QueueUrl = await newQueue();
    const send = () => stranger.sendMessage({ QueueUrl, MessageBody: "from elsewhere" });
    await refused(send, SQSServiceException, "AccessDenied", 403);
    await sqs.addPermission({ QueueUrl, Label: "guest", AWSAccountIds: [Account], Actions: ["SendMessage"] });
    await send();
    const { Attributes } = await receiveOne(QueueUrl);
    assert.equal(Attributes.SenderId, Account);
    await sqs.removePermission({ QueueUrl, Label: "guest" });
    await refused(send, SQSServiceException, "AccessDenied", 403);
  },
};

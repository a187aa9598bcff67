// Mobile push and SMS: applications, endpoints, phone numbers.
import assert from "node:assert/strict";
import { EndpointDisabledException, InvalidParameterException, NotFoundException } from "@aws-sdk/client-sns";
import { newName, refused, sns } from "./service.js";

export const phones = {
  "platform-application": async () => {
    const { PlatformApplicationArn } = await sns.createPlatformApplication({
      Name: newName(),
      Platform: "APNS",
      Attributes: { PlatformCredential: "key", PlatformPrincipal: "certificate" },
    });
    const device = { PlatformApplicationArn, Token: "ABCD", CustomUserData: "Ann's" };
    const { EndpointArn } = await sns.createPlatformEndpoint(device);
    const { Endpoints } = await sns.listEndpointsByPlatformApplication({ PlatformApplicationArn });
    const Attributes = { CustomUserData: "Ann's", Enabled: "true", Token: "abcd" };
    assert.deepEqual(Endpoints, [{ EndpointArn, Attributes }]);
    const push = () =>
      sns.publish({
        TargetArn: EndpointArn,
        Message: JSON.stringify({ default: "d", APNS: '{"aps": {}}' }),
        MessageStructure: "json",
      });
    assert.match((await push()).MessageId, /./);
    await sns.setEndpointAttributes({ EndpointArn, Attributes: { Enabled: "false" } });
    await refused(push, EndpointDisabledException, "EndpointDisabled");
    await sns.deleteEndpoint({ EndpointArn });
    await refused(() => sns.getEndpointAttributes({ EndpointArn }), NotFoundException, "NotFound", 404);
    await sns.deletePlatformApplication({ PlatformApplicationArn });
  },

  sms: async () => {
    await sns.setSMSAttributes({ attributes: { DefaultSMSType: "Transactional" } });
    const { attributes } = await sns.getSMSAttributes({ attributes: ["DefaultSMSType"] });
    assert.deepEqual(attributes, { DefaultSMSType: "Transactional" });
    const loud = () => sns.setSMSAttributes({ attributes: { DefaultSMSType: "Loud" } });
    await refused(loud, InvalidParameterException, "InvalidParameter");
    await sns.setSMSAttributes({ attributes: { DefaultSMSType: "" } });
    const PhoneNumber = "+15551234567";
    assert.match((await sns.publish({ PhoneNumber, Message: "hello" })).MessageId, /./);
    const { isOptedOut } = await sns.checkIfPhoneNumberIsOptedOut({ phoneNumber: PhoneNumber });
    assert.equal(isOptedOut, false);
    const nowhere = () => sns.publish({ PhoneNumber: "nobody", Message: "hello" });
    await refused(nowhere, InvalidParameterException, "InvalidParameter");
  },
};

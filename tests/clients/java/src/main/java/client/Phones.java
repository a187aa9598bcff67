package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;

import java.util.List;
import java.util.Map;
import software.amazon.awssdk.services.sns.SnsClient;
import software.amazon.awssdk.services.sns.model.Endpoint;
import software.amazon.awssdk.services.sns.model.EndpointDisabledException;
import software.amazon.awssdk.services.sns.model.InvalidParameterException;
import software.amazon.awssdk.services.sns.model.NotFoundException;
import software.amazon.awssdk.services.sns.model.PublishRequest;

/** Mobile push and SMS: applications, endpoints, phone numbers. */
record Phones(SnsClient sns) {
    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("platform-application", this::platformApplication);
        scenarios.put("sms", this::sms);
    }

    private void platformApplication() throws Exception {
        var secrets = Map.of("PlatformCredential", "key", "PlatformPrincipal", "certificate");
        String application = sns.createPlatformApplication(
                        asked -> asked.name(Service.newName()).platform("APNS").attributes(secrets))
                .platformApplicationArn();
        String device = sns.createPlatformEndpoint(asked ->
                        asked.platformApplicationArn(application).token("ABCD").customUserData("Ann's"))
                .endpointArn();
        var listed = sns.listEndpointsByPlatformApplication(asked -> asked.platformApplicationArn(application));
        var attributes = Map.of("CustomUserData", "Ann's", "Enabled", "true", "Token", "abcd");
        equal(
                listed.endpoints(),
                List.of(Endpoint.builder().endpointArn(device).attributes(attributes).build()));
        var push = PublishRequest.builder()
                .targetArn(device)
                .message("{\"default\": \"d\", \"APNS\": \"{\\\"aps\\\": {}}\"}")
                .messageStructure("json")
                .build();
        check(!sns.publish(push).messageId().isEmpty(), "no id");
        sns.setEndpointAttributes(asked -> asked.endpointArn(device).attributes(Map.of("Enabled", "false")));
        refused(() -> sns.publish(push), EndpointDisabledException.class, "EndpointDisabled", 400);
        sns.deleteEndpoint(asked -> asked.endpointArn(device));
        refused(
                () -> sns.getEndpointAttributes(asked -> asked.endpointArn(device)),
                NotFoundException.class,
                "NotFound",
                404);
        sns.deletePlatformApplication(asked -> asked.platformApplicationArn(application));
    }

    private Object setType(String type) {
        return sns.setSMSAttributes(asked -> asked.attributes(Map.of("DefaultSMSType", type)));
    }

    private void sms() throws Exception {
        setType("Transactional");
        var found = sns.getSMSAttributes(asked -> asked.attributes("DefaultSMSType")).attributes();
        equal(found, Map.of("DefaultSMSType", "Transactional"));
        refused(() -> setType("Loud"), InvalidParameterException.class, "InvalidParameter", 400);
        setType("");
        String number = "+15551234567";
        var text = PublishRequest.builder().phoneNumber(number).message("hello").build();
        check(!sns.publish(text).messageId().isEmpty(), "no id");
        check(
                !sns.checkIfPhoneNumberIsOptedOut(asked -> asked.phoneNumber(number)).isOptedOut(),
                "opted out");
        var toNobody = text.toBuilder().phoneNumber("nobody").build();
        refused(() -> sns.publish(toNobody), InvalidParameterException.class, "InvalidParameter", 400);
    }
}

package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;

import java.util.Map;
import software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.SendMessageRequest;
import software.amazon.awssdk.services.sqs.model.SqsException;
import software.amazon.awssdk.services.sts.StsClient;

/** Who may: signatures that are good, wrong and absent, and another account with a permission. */
record Access(Service service) {
    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("caller-identity", this::callerIdentity);
        scenarios.put("wrong-secret", this::wrongSecret);
        scenarios.put("unknown-key", this::unknownKey);
        scenarios.put("anonymous", this::anonymous);
        scenarios.put("permissions", this::permissions);
    }

    private void callerIdentity() {
        var identity = service.sts.getCallerIdentity();
        check(identity.account().matches("\\d{12}"), identity.account());
        equal(identity.arn(), "arn:aws:iam::%s:root".formatted(identity.account()));
    }

    private static AwsCredentialsProvider keys(String id, String secret) {
        return StaticCredentialsProvider.create(AwsBasicCredentials.create(id, secret));
    }

    /** How the other account calls. */
    static AwsCredentialsProvider strangersKeys() {
        return keys(System.getenv("STRANGER_ACCESS_KEY_ID"), System.getenv("STRANGER_SECRET_ACCESS_KEY"));
    }

    private static void refusesTo(AwsCredentialsProvider credentials, String code) throws Exception {
        try (SqsClient client = SqsClient.builder().credentialsProvider(credentials).build()) {
            refused(client::listQueues, SqsException.class, code, 403);
        }
    }

    private void wrongSecret() throws Exception {
        refusesTo(keys(System.getenv("AWS_ACCESS_KEY_ID"), "wrong"), "SignatureDoesNotMatch");
    }

    private void unknownKey() throws Exception {
        refusesTo(keys("AKIANOBODYNOBODYNOBO", "wrong"), "InvalidClientTokenId");
    }

    private void anonymous() throws Exception {
        refusesTo(AnonymousCredentialsProvider.create(), "AccessDenied");
    }

    private void permissions() throws Exception {
        var keys = strangersKeys();
        try (StsClient sts = StsClient.builder().credentialsProvider(keys).build();
                SqsClient stranger = SqsClient.builder().credentialsProvider(keys).build()) {
            String account = sts.getCallerIdentity().account();
            String queue = service.newQueue();
            var message = SendMessageRequest.builder().queueUrl(queue).messageBody("from elsewhere").build();
            refused(() -> stranger.sendMessage(message), SqsException.class, "AccessDenied", 403);
            service.sqs.addPermission(asked ->
                    asked.queueUrl(queue).label("guest").awsAccountIds(account).actions("SendMessage"));
            stranger.sendMessage(message);
            equal(service.receiveOne(queue).attributes().get(MessageSystemAttributeName.SENDER_ID), account);
            service.sqs.removePermission(asked -> asked.queueUrl(queue).label("guest"));
            refused(() -> stranger.sendMessage(message), SqsException.class, "AccessDenied", 403);
        }
    }
}

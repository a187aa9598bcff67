package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.services.sns.SnsClient;
import software.amazon.awssdk.services.sns.model.AuthorizationErrorException;
import software.amazon.awssdk.services.sns.model.BatchEntryIdsNotDistinctException;
import software.amazon.awssdk.services.sns.model.CreateTopicRequest;
import software.amazon.awssdk.services.sns.model.InvalidParameterException;
import software.amazon.awssdk.services.sns.model.InvalidParameterValueException;
import software.amazon.awssdk.services.sns.model.MessageAttributeValue;
import software.amazon.awssdk.services.sns.model.NotFoundException;
import software.amazon.awssdk.services.sns.model.PublishBatchRequestEntry;
import software.amazon.awssdk.services.sns.model.PublishBatchResultEntry;
import software.amazon.awssdk.services.sns.model.PublishRequest;
import software.amazon.awssdk.services.sns.model.PublishResponse;
import software.amazon.awssdk.services.sns.model.Tag;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sts.StsClient;

/** Topics: made, shown, tagged, shared; and how they feed queues: in an envelope, raw, and in tens. */
record Topics(Notifying notifying) {
    private static final SdkBytes BLOB = SdkBytes.fromByteArray(new byte[] {0, (byte) 255});
    private static final Map<String, MessageAttributeValue> CARRIED = Map.of(
            "kind", attribute("String", "news"),
            "price", attribute("Number", "12.50"),
            "tags", attribute("String.Array", "[\"a\",\"b\"]"),
            "blob", MessageAttributeValue.builder().dataType("Binary").binaryValue(BLOB).build());

    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("topic-attributes", this::topicAttributes);
        scenarios.put("topic-missing", this::topicMissing);
        scenarios.put("topic-to-queue", this::topicToQueue);
        scenarios.put("topic-to-queue-raw", this::topicToQueueRaw);
        scenarios.put("topic-to-queue-filtered", this::topicToQueueFiltered);
        scenarios.put("message-structure", this::messageStructure);
        scenarios.put("message-attributes-refused", this::messageAttributesRefused);
        scenarios.put("publish-batch", this::publishBatch);
        scenarios.put("topic-permissions", this::topicPermissions);
    }

    private SnsClient sns() {
        return notifying.sns();
    }

    private static MessageAttributeValue attribute(String type, String text) {
        return MessageAttributeValue.builder().dataType(type).stringValue(text).build();
    }

    private static PublishRequest message(String topic, String text) {
        return PublishRequest.builder().topicArn(topic).message(text).build();
    }

    private void topicAttributes() throws Exception {
        String name = Service.newName();
        var request = CreateTopicRequest.builder()
                .name(name)
                .attributes(Map.of("DisplayName", "News", "SignatureVersion", "2"))
                .tags(Tag.builder().key("team").value("blue").build())
                .build();
        String topic = sns().createTopic(request).topicArn();
        check(topic.endsWith(":" + name), topic);
        equal(sns().createTopic(request).topicArn(), topic);
        var differs = request.toBuilder().attributes(Map.of("DisplayName", "Olds")).build();
        refused(() -> sns().createTopic(differs), InvalidParameterException.class, "InvalidParameter", 400);
        sns().setTopicAttributes(
                asked -> asked.topicArn(topic).attributeName("DisplayName").attributeValue("Latest <news>"));
        var found = sns().getTopicAttributes(asked -> asked.topicArn(topic)).attributes();
        equal(found.get("DisplayName"), "Latest <news>");
        equal(found.get("SignatureVersion"), "2");
        check(found.get("EffectiveDeliveryPolicy").contains("\"numRetries\":3"), found.toString());
        Tag empty = Tag.builder().key("empty").value("").build();
        sns().tagResource(asked -> asked.resourceArn(topic).tags(empty));
        sns().untagResource(asked -> asked.resourceArn(topic).tagKeys("team", "never"));
        equal(sns().listTagsForResource(asked -> asked.resourceArn(topic)).tags(), List.of(empty));
    }

    private void topicMissing() throws Exception {
        String topic = notifying.newTopic();
        sns().deleteTopic(asked -> asked.topicArn(topic));
        sns().deleteTopic(asked -> asked.topicArn(topic)); // deleted is deleted
        refused(
                () -> sns().getTopicAttributes(asked -> asked.topicArn(topic)),
                NotFoundException.class,
                "NotFound",
                404);
        refused(() -> sns().publish(message(topic, "x")), NotFoundException.class, "NotFound", 404);
        var nowhere = message("arn:aws:sns:nowhere", "x");
        refused(() -> sns().publish(nowhere), InvalidParameterException.class, "InvalidParameter", 400);
    }

    private void topicToQueue() {
        var made = notifying.newSubscribed(Map.of());
        String text = "grüße 🎉\r\n";
        var published = sns().publish(asked -> asked.topicArn(made.topic())
                .subject("greetings")
                .message(text)
                .messageAttributes(CARRIED));
        var envelope = notifying.publishedTo(made.queue());
        equal(envelope.get("Type").asString(), "Notification");
        equal(envelope.get("MessageId").asString(), published.messageId());
        equal(envelope.get("TopicArn").asString(), made.topic());
        equal(envelope.get("Subject").asString(), "greetings");
        equal(envelope.get("Message").asString(), text);
        String attributes =
                """
                {"kind": {"Type": "String", "Value": "news"}, "price": {"Type": "Number", "Value": "12.50"},
                 "tags": {"Type": "String.Array", "Value": "[\\"a\\",\\"b\\"]"},
                 "blob": {"Type": "Binary", "Value": "AP8="}}
                """;
        equal(envelope.get("MessageAttributes"), JsonNode.parser().parse(attributes));
    }

    private void topicToQueueRaw() {
        var made = notifying.newSubscribed(Map.of("RawMessageDelivery", "true"));
        notifying.publish(made.topic(), "as it is", CARRIED);
        Message message = notifying.service().receiveOne(made.queue());
        equal(message.body(), "as it is");
        var attributes = message.messageAttributes();
        equal(attributes.keySet(), CARRIED.keySet());
        equal(attributes.get("kind").stringValue(), "news");
        equal(attributes.get("price").stringValue(), "12.5"); // as SQS writes it
        equal(attributes.get("tags").dataType(), "String.Array");
        equal(attributes.get("blob").binaryValue(), BLOB);
    }

    private void topicToQueueFiltered() {
        var made = notifying.newSubscribed(Map.of(
                "RawMessageDelivery", "true",
                "FilterPolicy", "{\"price\": [{\"numeric\": [\"<\", 100]}], \"tags\": [\"b\"]}"));
        var dear = new HashMap<>(CARRIED);
        dear.put("price", attribute("Number", "100"));
        notifying.publish(made.topic(), "dear", dear);
        notifying.publish(made.topic(), "without", Map.of());
        notifying.publish(made.topic(), "cheap", CARRIED);
        equal(notifying.service().receiveOne(made.queue()).body(), "cheap");
    }

    private PublishResponse publishStructured(String topic, String text) {
        return sns().publish(asked -> asked.topicArn(topic).message(text).messageStructure("json"));
    }

    private void messageStructure() throws Exception {
        var made = notifying.newSubscribed(Map.of());
        publishStructured(
                made.topic(), "{\"default\": \"for all\", \"sqs\": \"for queues\", \"http\": \"for the web\"}");
        equal(notifying.publishedTo(made.queue()).get("Message").asString(), "for queues");
        refused(
                () -> publishStructured(made.topic(), "{\"sqs\": \"x\"}"),
                InvalidParameterException.class,
                "InvalidParameter",
                400);
    }

    private void messageAttributesRefused() throws Exception {
        var cheap = message(notifying.newTopic(), "x").toBuilder()
                .messageAttributes(Map.of("price", attribute("Number", "cheap")))
                .build();
        refused(
                () -> sns().publish(cheap), InvalidParameterValueException.class, "ParameterValueInvalid", 400);
    }

    private void publishBatch() throws Exception {
        var made = notifying.newSubscribed(Map.of("RawMessageDelivery", "true"));
        List<PublishBatchRequestEntry> entries = new ArrayList<>(
                IntStream.range(0, 9).mapToObj(n -> entry("m" + n, "news " + n)).toList());
        List<String> ids = entries.stream().map(PublishBatchRequestEntry::id).toList();
        List<String> texts = entries.stream().map(PublishBatchRequestEntry::message).toList();
        entries.add(entry("bad", ""));
        var published = sns().publishBatch(
                asked -> asked.topicArn(made.topic()).publishBatchRequestEntries(entries));
        equal(published.successful().stream().map(PublishBatchResultEntry::id).toList(), ids);
        equal(published.failed().size(), 1);
        equal(published.failed().get(0).id(), "bad");
        equal(published.failed().get(0).code(), "InvalidParameter");
        check(published.failed().get(0).senderFault(), "whose fault is it?");
        var received = notifying.service().receiveAll(made.queue(), 9);
        equal(Service.bodies(received).stream().sorted().toList(), texts);
        var twice = entry("m0", "news");
        refused(
                () -> sns().publishBatch(
                        asked -> asked.topicArn(made.topic()).publishBatchRequestEntries(twice, twice)),
                BatchEntryIdsNotDistinctException.class,
                "BatchEntryIdsNotDistinct",
                400);
    }

    private static PublishBatchRequestEntry entry(String id, String text) {
        return PublishBatchRequestEntry.builder().id(id).message(text).build();
    }

    private void topicPermissions() throws Exception {
        var keys = Access.strangersKeys();
        try (StsClient sts = StsClient.builder().credentialsProvider(keys).build();
                SnsClient stranger = SnsClient.builder().credentialsProvider(keys).build()) {
            String account = sts.getCallerIdentity().account();
            String topic = notifying.newTopic();
            var message = message(topic, "from elsewhere");
            refused(() -> stranger.publish(message), AuthorizationErrorException.class, "AuthorizationError", 403);
            grant(topic, account, "Publish");
            grant(topic, account, "Publish");
            refused(() -> grant(topic, account, "Subscribe"), InvalidParameterException.class, "InvalidParameter", 400);
            stranger.publish(message);
            sns().removePermission(asked -> asked.topicArn(topic).label("guest"));
            refused(() -> stranger.publish(message), AuthorizationErrorException.class, "AuthorizationError", 403);
        }
    }

    private Object grant(String topic, String account, String action) {
        return sns().addPermission(
                asked -> asked.topicArn(topic).label("guest").awsAccountIds(account).actionNames(action));
    }
}

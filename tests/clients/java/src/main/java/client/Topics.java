package client;

import static client.Checks.check;
import static client.Checks.equal;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.services.sns.model.MessageAttributeValue;
import software.amazon.awssdk.services.sns.model.PublishBatchRequestEntry;
import software.amazon.awssdk.services.sns.model.PublishBatchResultEntry;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

/** Topics that feed queues: in an envelope, raw, and in tens. */
record Topics(Service service) {
    private static final SdkBytes BLOB = SdkBytes.fromByteArray(new byte[] {0, (byte) 255});
    private static final Map<String, MessageAttributeValue> CARRIED = Map.of(
            "kind", MessageAttributeValue.builder().dataType("String").stringValue("news").build(),
            "blob", MessageAttributeValue.builder().dataType("Binary").binaryValue(BLOB).build());
    private static final String POLICY =
            """
            {"Version": "2012-10-17", "Statement": [{
              "Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage",
              "Resource": "%s", "Condition": {"ArnEquals": {"aws:SourceArn": "%s"}}}]}
            """;

    private record Subscribed(String topic, String queue) {}

    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("topic-to-queue", this::topicToQueue);
        scenarios.put("topic-to-queue-raw", this::topicToQueueRaw);
        scenarios.put("publish-batch", this::publishBatch);
    }

    private Subscribed newSubscribed(Map<String, String> attributes) {
        String topic = service.sns.createTopic(asked -> asked.name(Service.newName())).topicArn();
        String queue = service.newQueue();
        String arn = service.arnOf(queue);
        var policy = Map.of(QueueAttributeName.POLICY, POLICY.formatted(arn, topic));
        service.sqs.setQueueAttributes(asked -> asked.queueUrl(queue).attributes(policy));
        service.sns.subscribe(
                asked -> asked.topicArn(topic).protocol("sqs").endpoint(arn).attributes(attributes));
        return new Subscribed(topic, queue);
    }

    private void topicToQueue() {
        Subscribed made = newSubscribed(Map.of());
        String text = "grüße 🎉\r\n";
        var published = service.sns.publish(asked -> asked.topicArn(made.topic)
                .subject("greetings")
                .message(text)
                .messageAttributes(CARRIED));
        var envelope = JsonNode.parser().parse(service.receiveOne(made.queue).body()).asObject();
        equal(envelope.get("Type").asString(), "Notification");
        equal(envelope.get("MessageId").asString(), published.messageId());
        equal(envelope.get("TopicArn").asString(), made.topic);
        equal(envelope.get("Subject").asString(), "greetings");
        equal(envelope.get("Message").asString(), text);
        var attributes = envelope.get("MessageAttributes").asObject();
        equal(attributes.get("kind"), JsonNode.parser().parse("{\"Type\":\"String\",\"Value\":\"news\"}"));
        equal(attributes.get("blob"), JsonNode.parser().parse("{\"Type\":\"Binary\",\"Value\":\"AP8=\"}"));
        equal(attributes.size(), 2);
    }

    private void topicToQueueRaw() {
        Subscribed made = newSubscribed(Map.of("RawMessageDelivery", "true"));
        service.sns.publish(asked -> asked.topicArn(made.topic).message("as it is").messageAttributes(CARRIED));
        Message message = service.receiveOne(made.queue);
        equal(message.body(), "as it is");
        equal(message.messageAttributes().size(), 2);
        equal(message.messageAttributes().get("kind").stringValue(), "news");
        equal(message.messageAttributes().get("blob").binaryValue(), BLOB);
    }

    private void publishBatch() {
        Subscribed made = newSubscribed(Map.of("RawMessageDelivery", "true"));
        List<PublishBatchRequestEntry> entries = new ArrayList<>(
                IntStream.range(0, 9).mapToObj(n -> entry("m" + n, "news " + n)).toList());
        List<String> ids = entries.stream().map(PublishBatchRequestEntry::id).toList();
        List<String> texts = entries.stream().map(PublishBatchRequestEntry::message).toList();
        entries.add(entry("bad", ""));
        var published = service.sns.publishBatch(
                asked -> asked.topicArn(made.topic).publishBatchRequestEntries(entries));
        equal(published.successful().stream().map(PublishBatchResultEntry::id).toList(), ids);
        equal(published.failed().size(), 1);
        equal(published.failed().get(0).id(), "bad");
        check(published.failed().get(0).senderFault(), "whose fault is it?");
        equal(Service.bodies(service.receiveAll(made.queue, 9)).stream().sorted().toList(), texts);
    }

    private static PublishBatchRequestEntry entry(String id, String text) {
        return PublishBatchRequestEntry.builder().id(id).message(text).build();
    }
}

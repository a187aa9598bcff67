package client;

import java.util.Map;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.services.sns.SnsClient;
import software.amazon.awssdk.services.sns.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

/** What several scenarios about topics do. */
record Notifying(Service service) {
    private static final String POLICY =
            """
            {"Version": "2012-10-17", "Statement": [{
              "Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage",
              "Resource": "%s", "Condition": {"ArnEquals": {"aws:SourceArn": "%s"}}}]}
            """;

    record Subscribed(String topic, String queue) {}

    SnsClient sns() {
        return service.sns;
    }

    String newTopic(Map<String, String> attributes) {
        String name = Service.newName() + (attributes.containsKey("FifoTopic") ? ".fifo" : "");
        return sns().createTopic(asked -> asked.name(name).attributes(attributes)).topicArn();
    }

    String newTopic() {
        return newTopic(Map.of());
    }

    /** Lets the topic into the owner's queue; what Subscribe answers. */
    String subscribe(String topic, String queue, SqsClient owner, Map<String, String> attributes) {
        String arn = Service.attributesOf(queue, owner).get(QueueAttributeName.QUEUE_ARN);
        var policy = Map.of(QueueAttributeName.POLICY, POLICY.formatted(arn, topic));
        owner.setQueueAttributes(asked -> asked.queueUrl(queue).attributes(policy));
        return sns().subscribe(
                        asked -> asked.topicArn(topic).protocol("sqs").endpoint(arn).attributes(attributes))
                .subscriptionArn();
    }

    Subscribed newSubscribed(Map<String, String> attributes) {
        Subscribed made = new Subscribed(newTopic(), service.newQueue());
        subscribe(made.topic, made.queue, service.sqs, attributes);
        return made;
    }

    void publish(String topic, String text, Map<String, MessageAttributeValue> attributes) {
        sns().publish(asked -> asked.topicArn(topic).message(text).messageAttributes(attributes));
    }

    /** What the body of the next message says; it is deleted. */
    static Map<String, JsonNode> publishedTo(String queue, SqsClient owner) {
        Message message = Service.receiveOne(queue, owner);
        owner.deleteMessage(asked -> asked.queueUrl(queue).receiptHandle(message.receiptHandle()));
        return JsonNode.parser().parse(message.body()).asObject();
    }

    Map<String, JsonNode> publishedTo(String queue) {
        return publishedTo(queue, service.sqs);
    }
}

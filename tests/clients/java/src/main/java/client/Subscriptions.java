package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import software.amazon.awssdk.services.sns.SnsClient;
import software.amazon.awssdk.services.sns.model.InvalidParameterException;
import software.amazon.awssdk.services.sns.model.NotFoundException;
import software.amazon.awssdk.services.sns.model.Subscription;
import software.amazon.awssdk.services.sqs.SqsClient;

/** Subscriptions: made, changed, listed in pages, confirmed by token, ended. */
record Subscriptions(Notifying notifying) {
    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("subscription-attributes", this::attributes);
        scenarios.put("list-subscriptions", this::list);
        scenarios.put("confirm-subscription", this::confirm);
    }

    private SnsClient sns() {
        return notifying.sns();
    }

    private Object set(String subscription, String name, String text) {
        return sns().setSubscriptionAttributes(
                asked -> asked.subscriptionArn(subscription).attributeName(name).attributeValue(text));
    }

    private Map<String, String> attributesOf(String subscription) {
        return sns().getSubscriptionAttributes(asked -> asked.subscriptionArn(subscription)).attributes();
    }

    private void attributes() throws Exception {
        Service service = notifying.service();
        String arn = notifying.subscribe(notifying.newTopic(), service.newQueue(), service.sqs, Map.of());
        set(arn, "FilterPolicyScope", "MessageBody");
        set(arn, "FilterPolicy", "{\"a\": {\"b\": [{\"prefix\": \"c\"}]}}");
        set(arn, "RawMessageDelivery", "true");
        refused(
                () -> set(arn, "FilterPolicy", "{\"a\": [{\"like\": \"b\"}]}"),
                InvalidParameterException.class,
                "InvalidParameter",
                400);
        var found = attributesOf(arn);
        equal(found.get("FilterPolicy"), "{\"a\":{\"b\":[{\"prefix\":\"c\"}]}}");
        equal(found.get("FilterPolicyScope"), "MessageBody");
        equal(found.get("RawMessageDelivery"), "true");
        equal(found.get("PendingConfirmation"), "false");
        sns().unsubscribe(asked -> asked.subscriptionArn(arn));
        refused(() -> attributesOf(arn), NotFoundException.class, "NotFound", 404);
    }

    private void list() {
        String topic = notifying.newTopic();
        String beside = topic.substring(0, topic.lastIndexOf(':') + 1).replace(":sns:", ":sqs:");
        List<String> made = new ArrayList<>();
        for (int n = 0; n < 205; n++) {
            String endpoint = beside + Service.newName();
            made.add(sns().subscribe(asked -> asked.topicArn(topic).protocol("sqs").endpoint(endpoint))
                    .subscriptionArn());
        }
        var pages = sns().listSubscriptionsByTopicPaginator(asked -> asked.topicArn(topic));
        equal(pages.stream().map(page -> page.subscriptions().size()).toList(), List.of(100, 100, 5));
        var found = pages.subscriptions().stream().map(Subscription::subscriptionArn);
        equal(found.sorted().toList(), made.stream().sorted().toList());
    }

    private void confirm() throws Exception {
        var keys = Access.strangersKeys();
        try (SqsClient theirs = SqsClient.builder().credentialsProvider(keys).build();
                SnsClient stranger = SnsClient.builder().credentialsProvider(keys).build()) {
            String topic = notifying.newTopic();
            String queue = theirs.createQueue(asked -> asked.queueName(Service.newName())).queueUrl();
            equal(notifying.subscribe(topic, queue, theirs, Map.of()), "pending confirmation");
            var request = Notifying.publishedTo(queue, theirs);
            equal(request.get("Type").asString(), "SubscriptionConfirmation");
            refused(
                    () -> stranger.confirmSubscription(asked -> asked.topicArn(topic).token("2336412f37")),
                    InvalidParameterException.class,
                    "InvalidParameter",
                    400);
            String token = request.get("Token").asString();
            var confirmed = stranger.confirmSubscription(asked -> asked.topicArn(topic).token(token));
            check(confirmed.subscriptionArn().startsWith(topic + ":"), confirmed.subscriptionArn());
            notifying.publish(topic, "across", Map.of());
            equal(Notifying.publishedTo(queue, theirs).get("Message").asString(), "across");
        }
    }
}

package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import software.amazon.awssdk.services.sns.model.InvalidParameterException;
import software.amazon.awssdk.services.sns.model.PublishBatchRequestEntry;
import software.amazon.awssdk.services.sns.model.PublishResponse;

/** FIFO topics: duplicates, sequence numbers, order. */
record FifoTopics(Notifying notifying) {
    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("fifo-topic", this::publish);
        scenarios.put("fifo-topic-batch", this::publishBatch);
    }

    private String newFifoTopic(boolean contentBased) {
        return notifying.newTopic(
                Map.of("FifoTopic", "true", "ContentBasedDeduplication", String.valueOf(contentBased)));
    }

    private PublishResponse publish(String topic, String text) {
        return notifying.sns().publish(asked -> asked.topicArn(topic).message(text).messageGroupId("g"));
    }

    private void publish() {
        Service service = notifying.service();
        String topic = newFifoTopic(true);
        String queue = service.newFifo(false);
        notifying.subscribe(topic, queue, service.sqs, Map.of());
        PublishResponse first = publish(topic, "one");
        PublishResponse again = publish(topic, "one");
        PublishResponse second = publish(topic, "two");
        equal(again.messageId(), first.messageId());
        equal(again.sequenceNumber(), first.sequenceNumber());
        check(first.sequenceNumber().matches("\\d{20}"), first.sequenceNumber());
        check(first.sequenceNumber().compareTo(second.sequenceNumber()) < 0, second.sequenceNumber());
        for (var expected : List.of(Map.entry("one", first), Map.entry("two", second))) {
            var envelope = notifying.publishedTo(queue);
            equal(envelope.get("Message").asString(), expected.getKey());
            equal(envelope.get("SequenceNumber").asString(), expected.getValue().sequenceNumber());
        }
    }

    private void publishBatch() throws Exception {
        String topic = newFifoTopic(false);
        var entries = IntStream.range(0, 3).mapToObj(FifoTopics::entry).toList();
        var published = notifying.sns()
                .publishBatch(asked -> asked.topicArn(topic).publishBatchRequestEntries(entries))
                .successful();
        equal(published.size(), 3);
        check(published.get(0).sequenceNumber().compareTo(published.get(1).sequenceNumber()) < 0, "out of order");
        equal(published.get(2).sequenceNumber(), published.get(0).sequenceNumber());
        refused(
                () -> publish(topic, "without an id"), InvalidParameterException.class, "InvalidParameter", 400);
    }

    private static PublishBatchRequestEntry entry(int n) {
        return PublishBatchRequestEntry.builder()
                .id("m" + n)
                .message(String.valueOf(n))
                .messageGroupId("g")
                .messageDeduplicationId("d" + n % 2)
                .build();
    }
}

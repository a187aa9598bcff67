package client;

import static client.Checks.check;
import static client.Checks.equal;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.SendMessageResponse;

/** FIFO queues: order, groups, the two ways to drop duplicates, a receive that is tried again. */
record Fifo(Service service) {
    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("fifo-order", this::order);
        scenarios.put("fifo-deduplication-by-id", this::deduplicationById);
        scenarios.put("fifo-deduplication-by-content", this::deduplicationByContent);
        scenarios.put("fifo-receive-attempt", this::receiveAttempt);
    }

    private SendMessageResponse send(String queue, String body, String deduplication) {
        return service.sqs.sendMessage(asked -> asked.queueUrl(queue)
                .messageBody(body)
                .messageGroupId("g")
                .messageDeduplicationId(deduplication));
    }

    private SendMessageResponse send(String queue, String body) {
        return send(queue, body, null);
    }

    private void order() {
        String queue = service.newFifo(true);
        List<BigInteger> numbers = new ArrayList<>();
        for (String body : List.of("0", "1", "2", "3")) {
            numbers.add(new BigInteger(send(queue, body).sequenceNumber()));
        }
        equal(numbers.stream().sorted().distinct().toList(), numbers);
        List<Message> first = service.receive(queue, 2, 0);
        equal(Service.bodies(first), List.of("0", "1"));
        var attributes = first.get(0).attributes();
        equal(attributes.get(MessageSystemAttributeName.MESSAGE_GROUP_ID), "g");
        equal(new BigInteger(attributes.get(MessageSystemAttributeName.SEQUENCE_NUMBER)), numbers.get(0));
        service.mustBeEmpty(queue); // the group is locked
        first.forEach(message -> service.delete(queue, message));
        equal(Service.bodies(service.receive(queue, 10, 0)), List.of("2", "3"));
    }

    private void deduplicationById() {
        String queue = service.newFifo(false);
        SendMessageResponse first = send(queue, "one", "id-1");
        SendMessageResponse again = send(queue, "another text", "id-1");
        send(queue, "two", "id-2");
        equal(again.messageId(), first.messageId());
        equal(again.sequenceNumber(), first.sequenceNumber());
        equal(Service.bodies(service.receive(queue, 10, 0)), List.of("one", "two"));
    }

    private void deduplicationByContent() {
        String queue = service.newFifo(true);
        SendMessageResponse first = send(queue, "same");
        equal(send(queue, "same").messageId(), first.messageId());
        List<Message> received = service.receive(queue, 10, 10);
        equal(received.size(), 1);
        equal(
                received.get(0).attributes().get(MessageSystemAttributeName.MESSAGE_DEDUPLICATION_ID),
                "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5");
    }

    private void receiveAttempt() {
        String queue = service.newFifo(true);
        send(queue, "x");
        Message first = attempt(queue);
        Message again = attempt(queue);
        equal(again.messageId(), first.messageId());
        String count = again.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT);
        check(count.equals("1"), "one receive, answered twice, counted " + count);
        service.mustBeEmpty(queue);
        service.delete(queue, first);
        equal(service.attributeOf(queue, QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE), "0");
    }

    private Message attempt(String queue) {
        List<Message> received = service.sqs
                .receiveMessage(asked -> asked.queueUrl(queue)
                        .receiveRequestAttemptId("attempt-1")
                        .messageSystemAttributeNames(MessageSystemAttributeName.ALL))
                .messages();
        equal(received.size(), 1);
        return received.get(0);
    }
}

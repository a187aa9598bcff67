package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;
import static software.amazon.awssdk.services.sqs.model.QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES;
import static software.amazon.awssdk.services.sqs.model.QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_DELAYED;
import static software.amazon.awssdk.services.sqs.model.QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE;

import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.services.sqs.model.BatchResultErrorEntry;
import software.amazon.awssdk.services.sqs.model.ChangeMessageVisibilityBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.DeleteMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeNameForSends;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeValue;
import software.amazon.awssdk.services.sqs.model.ReceiptHandleIsInvalidException;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchResultEntry;

/** Messages on standard queues: what they carry, when they are seen, in ones and in tens. */
record Messages(Service service) {
    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("message-attributes", this::attributes);
        scenarios.put("message-text", this::text);
        scenarios.put("system-attributes", this::systemAttributes);
        scenarios.put("batch-with-a-bad-entry", this::batchWithABadEntry);
        scenarios.put("long-poll", this::longPoll);
        scenarios.put("visibility", this::visibility);
        scenarios.put("visibility-batch", this::visibilityBatch);
        scenarios.put("delay", this::delay);
        scenarios.put("invalid-receipt-handle", this::invalidReceiptHandle);
        scenarios.put("fair-queue", this::fairQueue);
    }

    private void attributes() throws Exception {
        String queue = service.newQueue();
        Map<String, MessageAttributeValue> attributes = Map.of(
                "text", value("String", "grüße"),
                "count", value("Number", "42"),
                "blob", binary(0, 1, 255),
                "custom", value("Number.long", "7"));
        var sent = service.sqs.sendMessage(
                asked -> asked.queueUrl(queue).messageBody("hello").messageAttributes(attributes));
        byte[] digest = MessageDigest.getInstance("MD5").digest("hello".getBytes());
        equal(sent.md5OfMessageBody(), HexFormat.of().formatHex(digest));
        Message message = service.receiveOne(queue);
        equal(message.messageId(), sent.messageId());
        equal(message.body(), "hello");
        equal(message.md5OfMessageAttributes(), sent.md5OfMessageAttributes());
        equal(message.messageAttributes(), attributes);
        service.delete(queue, message);
        var counts = service.attributesOf(queue);
        equal(counts.get(APPROXIMATE_NUMBER_OF_MESSAGES), "0");
        equal(counts.get(APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE), "0");
    }

    private static MessageAttributeValue value(String type, String text) {
        return MessageAttributeValue.builder().dataType(type).stringValue(text).build();
    }

    private static MessageAttributeValue binary(int... bytes) {
        byte[] content = new byte[bytes.length];
        for (int n = 0; n < bytes.length; n++) {
            content[n] = (byte) bytes[n];
        }
        return MessageAttributeValue.builder()
                .dataType("Binary")
                .binaryValue(SdkBytes.fromByteArray(content))
                .build();
    }

    private void text() {
        String queue = service.newQueue();
        String farthest = Character.toString(0x10FFFF) + " 🎉 \uFFFD\uE000";
        for (String text : List.of("a\r\nb\rc\nd\t", "<&>\"'&#13;]]>", farthest, " ")) {
            service.send(queue, text);
            Message message = service.receiveOne(queue);
            equal(message.body(), text);
            service.delete(queue, message);
        }
    }

    private void systemAttributes() {
        String queue = service.newQueue();
        String trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        var sent = service.sqs.sendMessage(asked -> asked.queueUrl(queue)
                .messageBody("x")
                .messageSystemAttributes(Map.of(
                        MessageSystemAttributeNameForSends.AWS_TRACE_HEADER,
                        MessageSystemAttributeValue.builder()
                                .dataType("String")
                                .stringValue(trace)
                                .build())));
        equal(sent.md5OfMessageSystemAttributes(), "5ae4d5d7636402d80f4eb6d213245a88");
        var attributes = service.receiveOne(queue).attributes();
        equal(attributes.get(MessageSystemAttributeName.AWS_TRACE_HEADER), trace);
        equal(attributes.get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT), "1");
        long sentAt = Long.parseLong(attributes.get(MessageSystemAttributeName.SENT_TIMESTAMP));
        String receivedAt = attributes.get(MessageSystemAttributeName.APPROXIMATE_FIRST_RECEIVE_TIMESTAMP);
        check(Long.parseLong(receivedAt) >= sentAt, "received at " + receivedAt + ", sent at " + sentAt);
        check(!attributes.get(MessageSystemAttributeName.SENDER_ID).isEmpty(), "no SenderId");
    }

    private void batchWithABadEntry() {
        String queue = service.newQueue();
        List<SendMessageBatchRequestEntry> entries = new ArrayList<>(IntStream.range(0, 9)
                .mapToObj(n -> entry("m" + n, "body " + n))
                .toList());
        List<String> ids = entries.stream().map(SendMessageBatchRequestEntry::id).toList();
        List<String> bodies = entries.stream().map(SendMessageBatchRequestEntry::messageBody).toList();
        entries.add(entry("bad", "\uFFFF"));
        var sent = service.sqs.sendMessageBatch(asked -> asked.queueUrl(queue).entries(entries));
        equal(sent.successful().stream().map(SendMessageBatchResultEntry::id).toList(), ids);
        equal(codes(sent.failed()), Map.of("bad", "InvalidMessageContents"));
        check(sent.failed().get(0).senderFault(), "whose fault is it?");

        List<Message> received = service.receiveAll(queue, 9);
        equal(Service.bodies(received).stream().sorted().toList(), bodies);
        List<DeleteMessageBatchRequestEntry> doomed = new ArrayList<>(IntStream.range(0, 9)
                .mapToObj(n -> doomed("" + n, received.get(n).receiptHandle()))
                .toList());
        doomed.add(doomed("bad", "garbage"));
        var deleted = service.sqs.deleteMessageBatch(asked -> asked.queueUrl(queue).entries(doomed));
        equal(deleted.successful().size(), 9);
        equal(codes(deleted.failed()), Map.of("bad", "ReceiptHandleIsInvalid"));
    }

    private static SendMessageBatchRequestEntry entry(String id, String body) {
        return SendMessageBatchRequestEntry.builder().id(id).messageBody(body).build();
    }

    private static DeleteMessageBatchRequestEntry doomed(String id, String handle) {
        return DeleteMessageBatchRequestEntry.builder().id(id).receiptHandle(handle).build();
    }

    private static Map<String, String> codes(List<BatchResultErrorEntry> failed) {
        return failed.stream().collect(Collectors.toMap(BatchResultErrorEntry::id, BatchResultErrorEntry::code));
    }

    private void longPoll() throws Exception {
        String queue = service.newQueue();
        var poll = CompletableFuture.supplyAsync(() -> service.receive(queue, 1, 20));
        Thread.sleep(300); // for the poll to be there first
        long sent = System.nanoTime();
        service.send(queue, "wake up");
        equal(Service.bodies(poll.get()), List.of("wake up"));
        Duration took = Duration.ofNanos(System.nanoTime() - sent);
        check(took.toMillis() < 1000, "took " + took);
    }

    private void visibility() {
        String queue = service.newQueue();
        service.send(queue, "x");
        Message message = service.receiveOne(queue);
        service.mustBeEmpty(queue);
        service.sqs.changeMessageVisibility(asked ->
                asked.queueUrl(queue).receiptHandle(message.receiptHandle()).visibilityTimeout(0));
        Message again = service.receiveOne(queue);
        equal(again.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT), "2");
        check(!again.receiptHandle().equals(message.receiptHandle()), "the same handle");
    }

    private void visibilityBatch() {
        String queue = service.newQueue();
        service.send(queue, "0");
        service.send(queue, "1");
        List<Message> held = service.receiveAll(queue, 2);
        List<ChangeMessageVisibilityBatchRequestEntry> entries = List.of(
                change("shown", held.get(0).receiptHandle(), 0),
                change("too-long", held.get(1).receiptHandle(), 43_201),
                change("garbage", "garbage", 0));
        var changed = service.sqs.changeMessageVisibilityBatch(asked -> asked.queueUrl(queue).entries(entries));
        equal(changed.successful().stream().map(done -> done.id()).toList(), List.of("shown"));
        equal(
                codes(changed.failed()),
                Map.of("too-long", "InvalidParameterValue", "garbage", "ReceiptHandleIsInvalid"));
        equal(service.receiveOne(queue).body(), held.get(0).body());
    }

    private static ChangeMessageVisibilityBatchRequestEntry change(String id, String handle, int seconds) {
        return ChangeMessageVisibilityBatchRequestEntry.builder()
                .id(id)
                .receiptHandle(handle)
                .visibilityTimeout(seconds)
                .build();
    }

    private void delay() {
        String queue = service.newQueue();
        long sent = System.nanoTime();
        service.sqs.sendMessage(asked -> asked.queueUrl(queue).messageBody("later").delaySeconds(1));
        equal(service.attributeOf(queue, APPROXIMATE_NUMBER_OF_MESSAGES_DELAYED), "1");
        service.mustBeEmpty(queue);
        service.receiveOne(queue);
        Duration took = Duration.ofNanos(System.nanoTime() - sent);
        check(took.toMillis() > 900 && took.toMillis() < 3000, "took " + took);
    }

    private void invalidReceiptHandle() throws Exception {
        String queue = service.newQueue();
        String code = "ReceiptHandleIsInvalid";
        refused(
                () -> service.sqs.deleteMessage(asked -> asked.queueUrl(queue).receiptHandle("garbage")),
                ReceiptHandleIsInvalidException.class,
                code,
                404);
        refused(
                () -> service.sqs.changeMessageVisibility(
                        asked -> asked.queueUrl(queue).receiptHandle("garbage").visibilityTimeout(0)),
                ReceiptHandleIsInvalidException.class,
                code,
                404);
    }

    private void fairQueue() {
        String queue = service.newQueue();
        Map<String, String> tenants = Map.of("1", "tenant-a", "2", "tenant-a", "3", "tenant-b");
        tenants.forEach((body, tenant) -> {
            var sent = service.sqs.sendMessage(
                    asked -> asked.queueUrl(queue).messageBody(body).messageGroupId(tenant));
            equal(sent.sequenceNumber(), null);
        });
        Map<String, String> groups = new HashMap<>();
        for (int n = 0; n < tenants.size(); n++) {
            Message message = service.receiveOne(queue);
            groups.put(message.body(), message.attributes().get(MessageSystemAttributeName.MESSAGE_GROUP_ID));
        }
        equal(groups, tenants);
    }
}

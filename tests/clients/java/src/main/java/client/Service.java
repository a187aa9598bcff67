package client;

import static client.Checks.check;
import static client.Checks.equal;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import software.amazon.awssdk.services.sns.SnsClient;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.SendMessageResponse;
import software.amazon.awssdk.services.sts.StsClient;

/** The clients that most scenarios share, and what several of them do. */
final class Service implements AutoCloseable {
    final SqsClient sqs = SqsClient.create();
    final SnsClient sns = SnsClient.create();
    final StsClient sts = StsClient.create();

    @Override
    public void close() {
        sqs.close();
        sns.close();
        sts.close();
    }

    static String newName() {
        return "java-" + UUID.randomUUID();
    }

    String newQueue(Map<QueueAttributeName, String> attributes) {
        return sqs.createQueue(queue -> queue.queueName(newName()).attributes(attributes)).queueUrl();
    }

    String newQueue() {
        return newQueue(Map.of());
    }

    String newFifo(boolean contentBased) {
        Map<QueueAttributeName, String> attributes = Map.of(
                QueueAttributeName.FIFO_QUEUE, "true",
                QueueAttributeName.CONTENT_BASED_DEDUPLICATION, String.valueOf(contentBased));
        return sqs.createQueue(queue -> queue.queueName(newName() + ".fifo").attributes(attributes)).queueUrl();
    }

    Map<QueueAttributeName, String> attributesOf(String queue) {
        return attributesOf(queue, sqs);
    }

    static Map<QueueAttributeName, String> attributesOf(String queue, SqsClient owner) {
        return owner.getQueueAttributes(asked -> asked.queueUrl(queue).attributeNames(QueueAttributeName.ALL))
                .attributes();
    }

    String attributeOf(String queue, QueueAttributeName name) {
        return attributesOf(queue).get(name);
    }

    String arnOf(String queue) {
        return attributeOf(queue, QueueAttributeName.QUEUE_ARN);
    }

    SendMessageResponse send(String queue, String body) {
        return sqs.sendMessage(message -> message.queueUrl(queue).messageBody(body));
    }

    List<Message> receive(String queue, int count, int waitSeconds) {
        return receive(queue, sqs, count, waitSeconds);
    }

    private static List<Message> receive(String queue, SqsClient owner, int count, int waitSeconds) {
        return owner.receiveMessage(asked -> asked.queueUrl(queue)
                        .maxNumberOfMessages(count)
                        .waitTimeSeconds(waitSeconds)
                        .messageSystemAttributeNames(MessageSystemAttributeName.ALL)
                        .messageAttributeNames("All"))
                .messages();
    }

    /** One message, which must come. */
    Message receiveOne(String queue) {
        return receiveOne(queue, sqs);
    }

    static Message receiveOne(String queue, SqsClient owner) {
        List<Message> received = receive(queue, owner, 1, 10);
        equal(received.size(), 1);
        return received.get(0);
    }

    /** As many messages as there should be, in as many calls as it takes. */
    List<Message> receiveAll(String queue, int count) {
        List<Message> all = new ArrayList<>();
        while (all.size() < count) {
            List<Message> received = receive(queue, 10, 10);
            check(!received.isEmpty(), "only " + all.size() + " of " + count + " came");
            all.addAll(received);
        }
        return all;
    }

    void delete(String queue, Message message) {
        sqs.deleteMessage(asked -> asked.queueUrl(queue).receiptHandle(message.receiptHandle()));
    }

    void mustBeEmpty(String queue) {
        equal(bodies(receive(queue, 10, 0)), List.of());
    }

    static List<String> bodies(List<Message> messages) {
        return messages.stream().map(Message::body).toList();
    }
}

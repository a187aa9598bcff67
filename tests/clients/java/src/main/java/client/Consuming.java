package client;

import static client.Checks.equal;
import static client.Checks.until;

import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.batchmanager.SqsAsyncBatchManager;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

/** A worker as people write them: the SDK's asynchronous batch manager, a handler that fails once. */
record Consuming(Service service) {
    private static final int JOBS = 30;

    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("consumer", this::consumer);
    }

    private void consumer() throws Exception {
        String queue = service.newQueue();
        List<String> jobs = IntStream.range(0, JOBS).mapToObj("job %02d"::formatted).toList();
        Queue<String> done = new ConcurrentLinkedQueue<>();
        AtomicBoolean failed = new AtomicBoolean();
        try (SqsAsyncClient client = SqsAsyncClient.create();
                SqsAsyncBatchManager batches = client.batchManager()) {
            CompletableFuture.allOf(jobs.stream()
                            .map(job -> batches.sendMessage(asked -> asked.queueUrl(queue).messageBody(job)))
                            .toArray(CompletableFuture[]::new))
                    .get();
            until(() -> {
                for (Message message : batches.receiveMessage(asked -> asked.queueUrl(queue)).get().messages()) {
                    if (message.body().equals("job 07") && failed.compareAndSet(false, true)) {
                        batches.changeMessageVisibility(asked -> asked.queueUrl(queue)
                                .receiptHandle(message.receiptHandle())
                                .visibilityTimeout(0));
                        continue;
                    }
                    done.add(message.body());
                    batches.deleteMessage(asked -> asked.queueUrl(queue).receiptHandle(message.receiptHandle()));
                }
                return done.size() >= JOBS;
            });
            until(() -> counts(queue).equals("0 0"));
        }
        equal(done.stream().sorted().toList(), jobs);
    }

    private String counts(String queue) {
        var attributes = service.attributesOf(queue);
        return attributes.get(QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES)
                + " "
                + attributes.get(QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE);
    }
}

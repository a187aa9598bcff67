package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;
import static client.Checks.until;

import java.time.Instant;
import java.util.List;
import java.util.Map;
import software.amazon.awssdk.services.sqs.model.ListMessageMoveTasksResultEntry;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.ResourceNotFoundException;

/** Dead-letter queues, and the tasks that move their messages back. */
record DeadLetters(Service service) {
    private record Pair(String dead, String deadArn, String source) {}

    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("dead-letter-queue", this::deadLetterQueue);
        scenarios.put("move-task", this::moveTask);
        scenarios.put("move-task-cancelled", this::moveTaskCancelled);
        scenarios.put("move-task-without-queue", this::moveTaskWithoutQueue);
    }

    private Pair newPair() {
        String dead = service.newQueue();
        String deadArn = service.arnOf(dead);
        String policy = "{\"deadLetterTargetArn\":\"%s\",\"maxReceiveCount\":1}".formatted(deadArn);
        return new Pair(dead, deadArn, service.newQueue(Map.of(QueueAttributeName.REDRIVE_POLICY, policy)));
    }

    /** Returns the message's id. */
    private String bury(String source, String body) {
        String id = service.send(source, body).messageId();
        Message message = service.receiveOne(source);
        service.sqs.changeMessageVisibility(asked ->
                asked.queueUrl(source).receiptHandle(message.receiptHandle()).visibilityTimeout(0));
        service.mustBeEmpty(source); // this receive moves it
        return id;
    }

    private ListMessageMoveTasksResultEntry latestTask(String sourceArn) {
        return service.sqs.listMessageMoveTasks(asked -> asked.sourceArn(sourceArn)).results().get(0);
    }

    private void deadLetterQueue() {
        Pair pair = newPair();
        String id = bury(pair.source, "poison");
        Message message = service.receiveOne(pair.dead);
        equal(message.messageId(), id);
        equal(message.body(), "poison");
        var attributes = message.attributes();
        equal(attributes.get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT), "2");
        equal(attributes.get(MessageSystemAttributeName.DEAD_LETTER_QUEUE_SOURCE_ARN), service.arnOf(pair.source));
        var sources = service.sqs.listDeadLetterSourceQueues(asked -> asked.queueUrl(pair.dead));
        equal(sources.queueUrls(), List.of(pair.source));
    }

    private void moveTask() throws Exception {
        Pair pair = newPair();
        bury(pair.source, "second chance");
        var started = service.sqs.startMessageMoveTask(asked -> asked.sourceArn(pair.deadArn));
        check(!started.taskHandle().isEmpty(), "no handle");
        equal(service.receiveOne(pair.source).body(), "second chance");
        until(() -> latestTask(pair.deadArn).status().equals("COMPLETED"));
        ListMessageMoveTasksResultEntry task = latestTask(pair.deadArn);
        equal(task.sourceArn(), pair.deadArn);
        equal(task.approximateNumberOfMessagesMoved(), 1L);
        long agoMs = Instant.now().toEpochMilli() - task.startedTimestamp();
        check(Math.abs(agoMs) < 60_000, "started " + agoMs + " ms ago");
    }

    private void moveTaskCancelled() throws Exception {
        Pair pair = newPair();
        for (String body : List.of("0", "1", "2", "3", "4")) {
            bury(pair.source, body);
        }
        String destination = service.arnOf(service.newQueue());
        String handle = service.sqs
                .startMessageMoveTask(asked -> asked.sourceArn(pair.deadArn)
                        .destinationArn(destination)
                        .maxNumberOfMessagesPerSecond(1))
                .taskHandle();
        equal(latestTask(pair.deadArn).status(), "RUNNING");
        var cancelled = service.sqs.cancelMessageMoveTask(asked -> asked.taskHandle(handle));
        check(cancelled.approximateNumberOfMessagesMoved() < 5, "moved all");
        until(() -> latestTask(pair.deadArn).status().equals("CANCELLED"));
    }

    private void moveTaskWithoutQueue() throws Exception {
        String deadArn = newPair().deadArn;
        String missing = deadArn.substring(0, deadArn.lastIndexOf(':') + 1) + Service.newName();
        refused(
                () -> service.sqs.startMessageMoveTask(asked -> asked.sourceArn(missing)),
                ResourceNotFoundException.class,
                "ResourceNotFoundException",
                404);
    }
}

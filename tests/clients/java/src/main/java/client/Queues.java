package client;

import static client.Checks.check;
import static client.Checks.equal;
import static client.Checks.refused;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import software.amazon.awssdk.services.sqs.model.CreateQueueRequest;
import software.amazon.awssdk.services.sqs.model.ListQueuesResponse;
import software.amazon.awssdk.services.sqs.model.PurgeQueueInProgressException;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueDeletedRecentlyException;
import software.amazon.awssdk.services.sqs.model.QueueDoesNotExistException;
import software.amazon.awssdk.services.sqs.model.QueueNameExistsException;

/** Queues: made, found, listed, changed, tagged, emptied, deleted. */
record Queues(Service service) {
    private static final Map<QueueAttributeName, String> SHOWN_AFTER_45_S =
            Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "45");

    void addTo(Map<String, Main.Scenario> scenarios) {
        scenarios.put("create-queue", this::create);
        scenarios.put("create-queue-again", this::createAgain);
        scenarios.put("create-queue-that-differs", this::createThatDiffers);
        scenarios.put("get-queue-url", this::getUrl);
        scenarios.put("missing-queue", this::missing);
        scenarios.put("list-queues", this::list);
        scenarios.put("set-queue-attributes", this::setAttributes);
        scenarios.put("queue-tags", this::tags);
        scenarios.put("purge-queue", this::purge);
        scenarios.put("delete-queue", this::delete);
    }

    private void create() {
        String name = Service.newName();
        Map<String, String> tags = Map.of("team", "blue", "empty", "");
        Map<QueueAttributeName, String> wanted = Map.of(
                QueueAttributeName.VISIBILITY_TIMEOUT, "45",
                QueueAttributeName.DELAY_SECONDS, "0",
                QueueAttributeName.MESSAGE_RETENTION_PERIOD, "3600");
        String queue = service.sqs
                .createQueue(asked -> asked.queueName(name).attributes(wanted).tags(tags))
                .queueUrl();
        check(queue.endsWith("/" + name), queue);
        var attributes = service.attributesOf(queue);
        check(attributes.entrySet().containsAll(wanted.entrySet()), attributes.toString());
        equal(attributes.get(QueueAttributeName.MAXIMUM_MESSAGE_SIZE), "1048576");
        check(service.arnOf(queue).endsWith(":" + name), service.arnOf(queue));
        equal(tagsOf(queue), tags);
    }

    private void createAgain() {
        CreateQueueRequest request = CreateQueueRequest.builder()
                .queueName(Service.newName())
                .attributes(SHOWN_AFTER_45_S)
                .build();
        String first = service.sqs.createQueue(request).queueUrl();
        equal(service.sqs.createQueue(request).queueUrl(), first);
    }

    private void createThatDiffers() throws Exception {
        String name = Service.newName();
        service.sqs.createQueue(asked -> asked.queueName(name).attributes(SHOWN_AFTER_45_S));
        var differs = Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "46");
        refused(
                () -> service.sqs.createQueue(asked -> asked.queueName(name).attributes(differs)),
                QueueNameExistsException.class,
                "QueueAlreadyExists",
                400);
    }

    private void getUrl() {
        String name = Service.newName();
        String created = service.sqs.createQueue(asked -> asked.queueName(name)).queueUrl();
        equal(service.sqs.getQueueUrl(asked -> asked.queueName(name)).queueUrl(), created);
    }

    private void missing() throws Exception {
        String code = "AWS.SimpleQueueService.NonExistentQueue";
        refused(
                () -> service.sqs.getQueueUrl(asked -> asked.queueName(Service.newName())),
                QueueDoesNotExistException.class,
                code,
                400);
        String missing = service.newQueue() + "-not";
        refused(() -> service.send(missing, "x"), QueueDoesNotExistException.class, code, 400);
    }

    private void list() {
        String prefix = Service.newName();
        List<String> made = Stream.of("a", "b", "c", "d", "e")
                .map(letter -> service.sqs
                        .createQueue(asked -> asked.queueName(prefix + "-" + letter))
                        .queueUrl())
                .toList();
        List<ListQueuesResponse> pages = service.sqs
                .listQueuesPaginator(asked -> asked.queueNamePrefix(prefix).maxResults(2))
                .stream()
                .toList();
        equal(pages.stream().map(page -> page.queueUrls().size()).toList(), List.of(2, 2, 1));
        equal(pages.stream().flatMap(page -> page.queueUrls().stream()).sorted().toList(), made);
        check(!service.sqs.listQueues(asked -> asked.queueNamePrefix(prefix + "-none")).hasQueueUrls(), "found some");
    }

    private void setAttributes() {
        String queue = service.newQueue();
        var wanted = Map.of(
                QueueAttributeName.VISIBILITY_TIMEOUT, "7",
                QueueAttributeName.RECEIVE_MESSAGE_WAIT_TIME_SECONDS, "3");
        service.sqs.setQueueAttributes(asked -> asked.queueUrl(queue).attributes(wanted));
        var attributes = service.attributesOf(queue);
        check(attributes.entrySet().containsAll(wanted.entrySet()), attributes.toString());
    }

    private void tags() {
        String queue = service.newQueue();
        service.sqs.tagQueue(asked -> asked.queueUrl(queue).tags(Map.of("one", "1", "two", "2")));
        service.sqs.tagQueue(asked -> asked.queueUrl(queue).tags(Map.of("two", "zwei")));
        service.sqs.untagQueue(asked -> asked.queueUrl(queue).tagKeys("one", "never"));
        equal(tagsOf(queue), Map.of("two", "zwei"));
    }

    private Map<String, String> tagsOf(String queue) {
        return service.sqs.listQueueTags(asked -> asked.queueUrl(queue)).tags();
    }

    private void purge() throws Exception {
        String queue = service.newQueue();
        service.send(queue, "x");
        service.sqs.purgeQueue(asked -> asked.queueUrl(queue));
        service.mustBeEmpty(queue);
        refused(
                () -> service.sqs.purgeQueue(asked -> asked.queueUrl(queue)),
                PurgeQueueInProgressException.class,
                "AWS.SimpleQueueService.PurgeQueueInProgress",
                403);
    }

    private void delete() throws Exception {
        String name = Service.newName();
        String queue = service.sqs.createQueue(asked -> asked.queueName(name)).queueUrl();
        service.sqs.deleteQueue(asked -> asked.queueUrl(queue));
        refused(
                () -> service.sqs.createQueue(asked -> asked.queueName(name)),
                QueueDeletedRecentlyException.class,
                "AWS.SimpleQueueService.QueueDeletedRecently",
                400);
    }
}

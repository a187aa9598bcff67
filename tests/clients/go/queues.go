// Queues: made, found, listed, changed, tagged, emptied, deleted.
package main

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var queues = []scenario{
	{"create-queue", createQueue},
	{"create-queue-again", createQueueAgain},
	{"create-queue-that-differs", createQueueThatDiffers},
	{"get-queue-url", getQueueURL},
	{"missing-queue", missingQueue},
	{"list-queues", listQueues},
	{"set-queue-attributes", setQueueAttributes},
	{"queue-tags", queueTags},
	{"purge-queue", purgeQueue},
	{"delete-queue", deleteQueue},
}

func createQueue() {
	name := newName()
	created := must(queueing.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: &name,
		Attributes: map[string]string{
			"VisibilityTimeout":      "45",
			"DelaySeconds":           "0",
			"MessageRetentionPeriod": "3600",
		},
		Tags: map[string]string{"team": "blue", "empty": ""},
	}))
	check(strings.HasSuffix(*created.QueueUrl, "/"+name), "%s", *created.QueueUrl)
	attributes := attributesOf(created.QueueUrl)
	equal(attributes["VisibilityTimeout"], "45")
	equal(attributes["MessageRetentionPeriod"], "3600")
	equal(attributes["MaximumMessageSize"], "1048576")
	check(strings.HasSuffix(attributes["QueueArn"], ":"+name), "%s", attributes["QueueArn"])
	equal(tagsOf(created.QueueUrl), map[string]string{"team": "blue", "empty": ""})
}

func createQueueAgain() {
	request := &sqs.CreateQueueInput{
		QueueName:  aws.String(newName()),
		Attributes: map[string]string{"VisibilityTimeout": "45"},
	}
	first := must(queueing.CreateQueue(ctx, request))
	second := must(queueing.CreateQueue(ctx, request))
	equal(*second.QueueUrl, *first.QueueUrl)
}

func createQueueThatDiffers() {
	request := &sqs.CreateQueueInput{
		QueueName:  aws.String(newName()),
		Attributes: map[string]string{"VisibilityTimeout": "45"},
	}
	must(queueing.CreateQueue(ctx, request))
	request.Attributes["VisibilityTimeout"] = "46"
	_, err := queueing.CreateQueue(ctx, request)
	refused[*types.QueueNameExists](err, "QueueAlreadyExists", 400)
}

func getQueueURL() {
	name := newName()
	created := must(queueing.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name}))
	found := must(queueing.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name}))
	equal(*found.QueueUrl, *created.QueueUrl)
}

func missingQueue() {
	code := "AWS.SimpleQueueService.NonExistentQueue"
	_, err := queueing.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(newName())})
	refused[*types.QueueDoesNotExist](err, code, 400)
	missing := *newQueue(nil) + "-not"
	_, err = queueing.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &missing, MessageBody: aws.String("x")})
	refused[*types.QueueDoesNotExist](err, code, 400)
}

func listQueues() {
	prefix := newName()
	var made, found []string
	for _, letter := range []string{"a", "b", "c", "d", "e"} {
		name := aws.String(prefix + "-" + letter)
		made = append(made, *must(queueing.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: name})).QueueUrl)
	}
	var sizes []int
	request := &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: aws.Int32(2)}
	for pages := sqs.NewListQueuesPaginator(queueing, request); pages.HasMorePages(); {
		page := must(pages.NextPage(ctx))
		sizes = append(sizes, len(page.QueueUrls))
		found = append(found, page.QueueUrls...)
	}
	equal(sizes, []int{2, 2, 1})
	slices.Sort(found)
	equal(found, made)
	none := must(queueing.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: aws.String(prefix + "-none")}))
	equal(len(none.QueueUrls), 0)
}

func setQueueAttributes() {
	queue := newQueue(nil)
	must(queueing.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{
		QueueUrl:   queue,
		Attributes: map[string]string{"VisibilityTimeout": "7", "ReceiveMessageWaitTimeSeconds": "3"},
	}))
	attributes := attributesOf(queue)
	equal(attributes["VisibilityTimeout"], "7")
	equal(attributes["ReceiveMessageWaitTimeSeconds"], "3")
}

func queueTags() {
	queue := newQueue(nil)
	for _, tags := range []map[string]string{{"one": "1", "two": "2"}, {"two": "zwei"}} {
		must(queueing.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: queue, Tags: tags}))
	}
	must(queueing.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: queue, TagKeys: []string{"one", "never"}}))
	equal(tagsOf(queue), map[string]string{"two": "zwei"})
}

func tagsOf(queue *string) map[string]string {
	return must(queueing.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: queue})).Tags
}

func purgeQueue() {
	queue := newQueue(nil)
	send(queue, "x")
	must(queueing.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: queue}))
	mustBeEmpty(queue)
	_, err := queueing.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: queue})
	refused[*types.PurgeQueueInProgress](err, "AWS.SimpleQueueService.PurgeQueueInProgress", 403)
}

func deleteQueue() {
	request := &sqs.CreateQueueInput{QueueName: aws.String(newName())}
	created := must(queueing.CreateQueue(ctx, request))
	must(queueing.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: created.QueueUrl}))
	_, err := queueing.CreateQueue(ctx, request)
	refused[*types.QueueDeletedRecently](err, "AWS.SimpleQueueService.QueueDeletedRecently", 400)
}

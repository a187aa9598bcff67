// The clients that most scenarios share, and what several of them do.
package main

import (
	"context"
	"crypto/rand"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

var (
	ctx       = context.Background()
	settings  aws.Config
	queueing  *sqs.Client
	notifying *sns.Client
	tokens    *sts.Client
	every     = []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}
)

func connect() {
	settings = must(config.LoadDefaultConfig(ctx))
	queueing = sqs.NewFromConfig(settings)
	notifying = sns.NewFromConfig(settings)
	tokens = sts.NewFromConfig(settings)
}

func newName() string { return "go-" + rand.Text() }

func newQueue(attributes map[string]string) *string {
	return must(queueing.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName:  aws.String(newName()),
		Attributes: attributes,
	})).QueueUrl
}

func newFifo(contentBased string) *string {
	return must(queueing.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName:  aws.String(newName() + ".fifo"),
		Attributes: map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": contentBased},
	})).QueueUrl
}

func attributesOf(queue *string) map[string]string { return attributesFor(queueing, queue) }

func attributesFor(owner *sqs.Client, queue *string) map[string]string {
	return must(owner.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl:       queue,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})).Attributes
}

func arnOf(queue *string) string { return arnFor(queueing, queue) }

func arnFor(owner *sqs.Client, queue *string) string { return attributesFor(owner, queue)["QueueArn"] }

func send(queue *string, body string) *sqs.SendMessageOutput {
	return must(queueing.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue, MessageBody: &body}))
}

func receive(queue *string, count, waitS int32) []types.Message {
	return receiveFor(queueing, queue, count, waitS)
}

func receiveFor(owner *sqs.Client, queue *string, count, waitS int32) []types.Message {
	return must(owner.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    queue,
		MaxNumberOfMessages:         count,
		WaitTimeSeconds:             waitS,
		MessageSystemAttributeNames: every,
		MessageAttributeNames:       []string{"All"},
	})).Messages
}

// receiveOne is for one message that must come.
func receiveOne(queue *string) types.Message { return receiveFrom(queueing, queue) }

func receiveFrom(owner *sqs.Client, queue *string) types.Message {
	received := receiveFor(owner, queue, 1, 10)
	equal(len(received), 1)
	return received[0]
}

// receiveAll gets as many messages as there should be, in as many calls as it takes.
func receiveAll(queue *string, count int) []types.Message {
	var all []types.Message
	for len(all) < count {
		received := receive(queue, 10, 10)
		check(len(received) > 0, "only %d of %d came", len(all), count)
		all = append(all, received...)
	}
	return all
}

func remove(queue, handle *string) {
	must(queueing.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: handle}))
}

func mustBeEmpty(queue *string) { equal(bodies(receive(queue, 10, 0)), nil) }

func bodies(received []types.Message) []string {
	var all []string
	for _, message := range received {
		all = append(all, *message.Body)
	}
	return all
}

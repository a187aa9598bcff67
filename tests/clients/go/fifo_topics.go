// FIFO topics: duplicates, sequence numbers, order.
package main

import (
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
)

var fifoTopics = []scenario{
	{"fifo-topic", fifoTopic},
	{"fifo-topic-batch", fifoTopicBatch},
}

func newFifoTopic(contentBased string) *string {
	return newTopic(map[string]string{"FifoTopic": "true", "ContentBasedDeduplication": contentBased})
}

func publishInGroup(topic *string, text string) (*sns.PublishOutput, error) {
	return notifying.Publish(ctx, &sns.PublishInput{TopicArn: topic, Message: &text, MessageGroupId: aws.String("g")})
}

func fifoTopic() {
	topic, queue := newFifoTopic("true"), newFifo("false")
	subscribe(topic, queue, queueing, nil)
	first, again := must(publishInGroup(topic, "one")), must(publishInGroup(topic, "one"))
	second := must(publishInGroup(topic, "two"))
	equal(*again.MessageId, *first.MessageId)
	equal(*again.SequenceNumber, *first.SequenceNumber)
	check(regexp.MustCompile(`^\d{20}$`).MatchString(*first.SequenceNumber), "%s", *first.SequenceNumber)
	check(*first.SequenceNumber < *second.SequenceNumber, "%s, %s", *first.SequenceNumber, *second.SequenceNumber)
	one, two := publishedTo(queue, queueing), publishedTo(queue, queueing)
	equal([]string{one.Message, two.Message}, []string{"one", "two"})
	equal([]string{one.SequenceNumber, two.SequenceNumber}, []string{*first.SequenceNumber, *second.SequenceNumber})
}

func fifoTopicBatch() {
	topic := newFifoTopic("false")
	var entries []types.PublishBatchRequestEntry
	for n := range 3 {
		entries = append(entries, types.PublishBatchRequestEntry{
			Id:                     aws.String(fmt.Sprint("m", n)),
			Message:                aws.String(fmt.Sprint(n)),
			MessageGroupId:         aws.String("g"),
			MessageDeduplicationId: aws.String(fmt.Sprint("d", n%2)),
		})
	}
	published := must(notifying.PublishBatch(ctx, &sns.PublishBatchInput{
		TopicArn: topic, PublishBatchRequestEntries: entries,
	})).Successful
	equal(len(published), 3)
	check(*published[0].SequenceNumber < *published[1].SequenceNumber, "out of order")
	equal(*published[2].SequenceNumber, *published[0].SequenceNumber)
	_, err := publishInGroup(topic, "without an id")
	refused[*types.InvalidParameterException](err, "InvalidParameter", 400)
}

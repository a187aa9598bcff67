// Topics that feed queues: in an envelope, raw, and in tens.
package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

var topics = []scenario{
	{"topic-to-queue", topicToQueue},
	{"topic-to-queue-raw", topicToQueueRaw},
	{"publish-batch", publishBatch},
}

type envelope struct {
	Type, MessageId, TopicArn, Subject, Message string
	MessageAttributes                           map[string]struct{ Type, Value string }
}

var carried = map[string]types.MessageAttributeValue{
	"kind": {DataType: aws.String("String"), StringValue: aws.String("news")},
	"blob": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
}

func newSubscribed(attributes map[string]string) (topic, queue *string) {
	topic = must(notifying.CreateTopic(ctx, &sns.CreateTopicInput{Name: aws.String(newName())})).TopicArn
	queue = newQueue(nil)
	arn := arnOf(queue)
	policy := fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{
		"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage",
		"Resource": %q, "Condition": {"ArnEquals": {"aws:SourceArn": %q}}}]}`, arn, *topic)
	must(queueing.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{
		QueueUrl:   queue,
		Attributes: map[string]string{"Policy": policy},
	}))
	must(notifying.Subscribe(ctx, &sns.SubscribeInput{
		TopicArn:   topic,
		Protocol:   aws.String("sqs"),
		Endpoint:   &arn,
		Attributes: attributes,
	}))
	return topic, queue
}

func topicToQueue() {
	topic, queue := newSubscribed(nil)
	text := "grüße 🎉\r\n"
	published := must(notifying.Publish(ctx, &sns.PublishInput{
		TopicArn:          topic,
		Subject:           aws.String("greetings"),
		Message:           &text,
		MessageAttributes: carried,
	}))
	var found envelope
	must(0, json.Unmarshal([]byte(*receiveOne(queue).Body), &found))
	equal(found, envelope{
		Type:      "Notification",
		MessageId: *published.MessageId,
		TopicArn:  *topic,
		Subject:   "greetings",
		Message:   text,
		MessageAttributes: map[string]struct{ Type, Value string }{
			"kind": {"String", "news"},
			"blob": {"Binary", "AP8="},
		},
	})
}

func topicToQueueRaw() {
	topic, queue := newSubscribed(map[string]string{"RawMessageDelivery": "true"})
	must(notifying.Publish(ctx, &sns.PublishInput{
		TopicArn:          topic,
		Message:           aws.String("as it is"),
		MessageAttributes: carried,
	}))
	message := receiveOne(queue)
	equal(*message.Body, "as it is")
	equal(len(message.MessageAttributes), 2)
	equal(*message.MessageAttributes["kind"].StringValue, "news")
	equal(message.MessageAttributes["blob"].BinaryValue, []byte{0, 255})
}

func publishBatch() {
	topic, queue := newSubscribed(map[string]string{"RawMessageDelivery": "true"})
	var entries []types.PublishBatchRequestEntry
	var ids, texts []string
	for n := range 9 {
		ids, texts = append(ids, fmt.Sprint("m", n)), append(texts, fmt.Sprint("news ", n))
		entries = append(entries, types.PublishBatchRequestEntry{Id: &ids[n], Message: &texts[n]})
	}
	bad := types.PublishBatchRequestEntry{Id: aws.String("bad"), Message: aws.String("")}
	published := must(notifying.PublishBatch(ctx, &sns.PublishBatchInput{
		TopicArn:                   topic,
		PublishBatchRequestEntries: append(entries, bad),
	}))
	var accepted []string
	for _, each := range published.Successful {
		accepted = append(accepted, *each.Id)
	}
	equal(accepted, ids)
	equal(len(published.Failed), 1)
	equal(*published.Failed[0].Id, "bad")
	check(published.Failed[0].SenderFault, "whose fault is it?")
	equal(slices.Sorted(slices.Values(bodies(receiveAll(queue, 9)))), texts)
}

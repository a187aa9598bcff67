// Messages on standard queues: what they carry, when they are seen, in ones and in tens.
package main

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var messages = []scenario{
	{"message-attributes", messageAttributes},
	{"message-text", messageText},
	{"system-attributes", systemAttributes},
	{"batch-with-a-bad-entry", batchWithABadEntry},
	{"long-poll", longPoll},
	{"visibility", visibility},
	{"visibility-batch", visibilityBatch},
	{"delay", delay},
	{"invalid-receipt-handle", invalidReceiptHandle},
	{"fair-queue", fairQueue},
}

func messageAttributes() {
	queue := newQueue(nil)
	attributes := map[string]types.MessageAttributeValue{
		"text":   {DataType: aws.String("String"), StringValue: aws.String("grüße")},
		"count":  {DataType: aws.String("Number"), StringValue: aws.String("42")},
		"blob":   {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 255}},
		"custom": {DataType: aws.String("Number.long"), StringValue: aws.String("7")},
	}
	sent := must(queueing.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:          queue,
		MessageBody:       aws.String("hello"),
		MessageAttributes: attributes,
	}))
	digest := md5.Sum([]byte("hello"))
	equal(*sent.MD5OfMessageBody, hex.EncodeToString(digest[:]))
	message := receiveOne(queue)
	equal(*message.MessageId, *sent.MessageId)
	equal(*message.Body, "hello")
	equal(*message.MD5OfMessageAttributes, *sent.MD5OfMessageAttributes)
	equal(message.MessageAttributes, attributes)
	remove(queue, message.ReceiptHandle)
	counts := attributesOf(queue)
	equal(counts["ApproximateNumberOfMessages"], "0")
	equal(counts["ApproximateNumberOfMessagesNotVisible"], "0")
}

func messageText() {
	queue := newQueue(nil)
	for _, text := range []string{"a\r\nb\rc\nd\t", "<&>\"'&#13;]]>", "\U0010FFFF 🎉 \uFFFD\uE000", " "} {
		send(queue, text)
		message := receiveOne(queue)
		equal(*message.Body, text)
		remove(queue, message.ReceiptHandle)
	}
}

func systemAttributes() {
	queue := newQueue(nil)
	trace := "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
	sent := must(queueing.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:    queue,
		MessageBody: aws.String("x"),
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &trace},
		},
	}))
	equal(*sent.MD5OfMessageSystemAttributes, "5ae4d5d7636402d80f4eb6d213245a88")
	attributes := receiveOne(queue).Attributes
	equal(attributes["AWSTraceHeader"], trace)
	equal(attributes["ApproximateReceiveCount"], "1")
	sentAt := must(strconv.ParseInt(attributes["SentTimestamp"], 10, 64))
	receivedAt := must(strconv.ParseInt(attributes["ApproximateFirstReceiveTimestamp"], 10, 64))
	check(receivedAt >= sentAt, "received at %d, sent at %d", receivedAt, sentAt)
	check(attributes["SenderId"] != "", "no SenderId")
}

func batchWithABadEntry() {
	queue := newQueue(nil)
	var entries []types.SendMessageBatchRequestEntry
	var ids, texts []string
	for n := range 9 {
		ids, texts = append(ids, fmt.Sprint("m", n)), append(texts, fmt.Sprint("body ", n))
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: &ids[n], MessageBody: &texts[n]})
	}
	bad := types.SendMessageBatchRequestEntry{Id: aws.String("bad"), MessageBody: aws.String("\uFFFF")}
	sent := must(queueing.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: queue,
		Entries:  append(entries, bad),
	}))
	var accepted []string
	for _, each := range sent.Successful {
		accepted = append(accepted, *each.Id)
	}
	equal(accepted, ids)
	equal(codes(sent.Failed), map[string]string{"bad": "InvalidMessageContents"})
	check(sent.Failed[0].SenderFault, "whose fault is it?")

	received := receiveAll(queue, 9)
	equal(slices.Sorted(slices.Values(bodies(received))), texts)
	doomed := []types.DeleteMessageBatchRequestEntry{{Id: aws.String("bad"), ReceiptHandle: aws.String("garbage")}}
	for n, message := range received {
		doomed = append(doomed, types.DeleteMessageBatchRequestEntry{Id: &ids[n], ReceiptHandle: message.ReceiptHandle})
	}
	deleted := must(queueing.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: queue, Entries: doomed}))
	equal(len(deleted.Successful), 9)
	equal(codes(deleted.Failed), map[string]string{"bad": "ReceiptHandleIsInvalid"})
}

func codes(failed []types.BatchResultErrorEntry) map[string]string {
	found := map[string]string{}
	for _, each := range failed {
		found[*each.Id] = *each.Code
	}
	return found
}

func longPoll() {
	queue := newQueue(nil)
	woken := make(chan []types.Message)
	go func() { woken <- receive(queue, 1, 20) }()
	time.Sleep(300 * time.Millisecond) // for the poll to be there first
	sent := time.Now()
	send(queue, "wake up")
	equal(bodies(<-woken), []string{"wake up"})
	check(time.Since(sent) < time.Second, "took %v", time.Since(sent))
}

func visibility() {
	queue := newQueue(nil)
	send(queue, "x")
	message := receiveOne(queue)
	mustBeEmpty(queue)
	must(queueing.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl:          queue,
		ReceiptHandle:     message.ReceiptHandle,
		VisibilityTimeout: 0,
	}))
	again := receiveOne(queue)
	equal(again.Attributes["ApproximateReceiveCount"], "2")
	check(*again.ReceiptHandle != *message.ReceiptHandle, "the same handle")
}

func visibilityBatch() {
	queue := newQueue(nil)
	send(queue, "0")
	send(queue, "1")
	held := receiveAll(queue, 2)
	changed := must(queueing.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: queue,
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("shown"), ReceiptHandle: held[0].ReceiptHandle, VisibilityTimeout: 0},
			{Id: aws.String("too-long"), ReceiptHandle: held[1].ReceiptHandle, VisibilityTimeout: 43_201},
			{Id: aws.String("garbage"), ReceiptHandle: aws.String("garbage"), VisibilityTimeout: 0},
		},
	}))
	equal(len(changed.Successful), 1)
	equal(*changed.Successful[0].Id, "shown")
	equal(codes(changed.Failed), map[string]string{
		"too-long": "InvalidParameterValue",
		"garbage":  "ReceiptHandleIsInvalid",
	})
	equal(*receiveOne(queue).Body, *held[0].Body)
}

func delay() {
	queue := newQueue(nil)
	sent := time.Now()
	must(queueing.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:     queue,
		MessageBody:  aws.String("later"),
		DelaySeconds: 1,
	}))
	equal(attributesOf(queue)["ApproximateNumberOfMessagesDelayed"], "1")
	mustBeEmpty(queue)
	receiveOne(queue)
	took := time.Since(sent)
	check(took > 900*time.Millisecond && took < 3*time.Second, "took %v", took)
}

func invalidReceiptHandle() {
	queue, garbage := newQueue(nil), aws.String("garbage")
	_, err := queueing.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: garbage})
	refused[*types.ReceiptHandleIsInvalid](err, "ReceiptHandleIsInvalid", 404)
	_, err = queueing.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl:          queue,
		ReceiptHandle:     garbage,
		VisibilityTimeout: 0,
	})
	refused[*types.ReceiptHandleIsInvalid](err, "ReceiptHandleIsInvalid", 404)
}

func fairQueue() {
	queue := newQueue(nil)
	tenants := map[string]string{"1": "tenant-a", "2": "tenant-a", "3": "tenant-b"}
	for body, tenant := range tenants {
		sent := must(queueing.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl:       queue,
			MessageBody:    &body,
			MessageGroupId: &tenant,
		}))
		check(sent.SequenceNumber == nil, "a sequence number")
	}
	groups := map[string]string{}
	for range tenants {
		message := receiveOne(queue)
		groups[*message.Body] = message.Attributes["MessageGroupId"]
	}
	equal(groups, tenants)
}

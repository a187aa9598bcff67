// FIFO queues: order, groups, the two ways to drop duplicates, a receive that is tried again.
package main

import (
	"math/big"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var fifo = []scenario{
	{"fifo-order", fifoOrder},
	{"fifo-deduplication-by-id", fifoDeduplicationByID},
	{"fifo-deduplication-by-content", fifoDeduplicationByContent},
	{"fifo-receive-attempt", fifoReceiveAttempt},
}

func sendInGroup(queue *string, body string, deduplication *string) *sqs.SendMessageOutput {
	return must(queueing.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:               queue,
		MessageBody:            &body,
		MessageGroupId:         aws.String("g"),
		MessageDeduplicationId: deduplication,
	}))
}

func sequence(text string) *big.Int {
	number, ok := new(big.Int).SetString(text, 10)
	check(ok, "no number: %s", text)
	return number
}

func fifoOrder() {
	queue := newFifo("true")
	var numbers []*big.Int
	for n, body := range []string{"0", "1", "2", "3"} {
		numbers = append(numbers, sequence(*sendInGroup(queue, body, nil).SequenceNumber))
		check(n == 0 || numbers[n-1].Cmp(numbers[n]) < 0, "out of order: %v", numbers)
	}
	first := receive(queue, 2, 0)
	equal(bodies(first), []string{"0", "1"})
	equal(first[0].Attributes["MessageGroupId"], "g")
	equal(sequence(first[0].Attributes["SequenceNumber"]), numbers[0])
	mustBeEmpty(queue) // the group is locked
	for _, message := range first {
		remove(queue, message.ReceiptHandle)
	}
	equal(bodies(receive(queue, 10, 0)), []string{"2", "3"})
}

func fifoDeduplicationByID() {
	queue := newFifo("false")
	first := sendInGroup(queue, "one", aws.String("id-1"))
	again := sendInGroup(queue, "another text", aws.String("id-1"))
	sendInGroup(queue, "two", aws.String("id-2"))
	equal(*again.MessageId, *first.MessageId)
	equal(*again.SequenceNumber, *first.SequenceNumber)
	equal(bodies(receive(queue, 10, 0)), []string{"one", "two"})
}

func fifoDeduplicationByContent() {
	queue := newFifo("true")
	first := sendInGroup(queue, "same", nil)
	again := sendInGroup(queue, "same", nil)
	equal(*again.MessageId, *first.MessageId)
	received := receive(queue, 10, 10)
	equal(len(received), 1)
	sha256 := "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"
	equal(received[0].Attributes["MessageDeduplicationId"], sha256)
}

func fifoReceiveAttempt() {
	queue := newFifo("true")
	sendInGroup(queue, "x", nil)
	first, again := attempt(queue), attempt(queue)
	equal(*again.MessageId, *first.MessageId)
	equal(again.Attributes["ApproximateReceiveCount"], "1") // one receive, answered twice
	mustBeEmpty(queue)
	remove(queue, first.ReceiptHandle)
	equal(attributesOf(queue)["ApproximateNumberOfMessagesNotVisible"], "0")
}

func attempt(queue *string) types.Message {
	received := must(queueing.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    queue,
		ReceiveRequestAttemptId:     aws.String("attempt-1"),
		MessageSystemAttributeNames: every,
	})).Messages
	equal(len(received), 1)
	return received[0]
}

// Dead-letter queues, and the tasks that move their messages back.
package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var deadLetters = []scenario{
	{"dead-letter-queue", deadLetterQueue},
	{"move-task", moveTask},
	{"move-task-cancelled", moveTaskCancelled},
	{"move-task-without-queue", moveTaskWithoutQueue},
}

func newPair() (dead, source *string) {
	dead = newQueue(nil)
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":1}`, arnOf(dead))
	return dead, newQueue(map[string]string{"RedrivePolicy": policy})
}

// bury returns the message's id.
func bury(source *string, body string) string {
	sent := send(source, body)
	message := receiveOne(source)
	must(queueing.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl:      source,
		ReceiptHandle: message.ReceiptHandle,
	}))
	mustBeEmpty(source) // this receive moves it
	return *sent.MessageId
}

func latestTask(source string) types.ListMessageMoveTasksResultEntry {
	return must(queueing.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: &source})).Results[0]
}

func deadLetterQueue() {
	dead, source := newPair()
	id := bury(source, "poison")
	message := receiveOne(dead)
	equal(*message.MessageId, id)
	equal(*message.Body, "poison")
	equal(message.Attributes["ApproximateReceiveCount"], "2")
	equal(message.Attributes["DeadLetterQueueSourceArn"], arnOf(source))
	sources := must(queueing.ListDeadLetterSourceQueues(ctx, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead}))
	equal(sources.QueueUrls, []string{*source})
}

func moveTask() {
	dead, source := newPair()
	deadArn := arnOf(dead)
	bury(source, "second chance")
	started := must(queueing.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &deadArn}))
	check(*started.TaskHandle != "", "no handle")
	equal(*receiveOne(source).Body, "second chance")
	until(func() bool { return *latestTask(deadArn).Status == "COMPLETED" })
	task := latestTask(deadArn)
	equal(*task.SourceArn, deadArn)
	equal(task.ApproximateNumberOfMessagesMoved, 1)
	check(time.Since(time.UnixMilli(task.StartedTimestamp)).Abs() < time.Minute, "started at %d", task.StartedTimestamp)
}

func moveTaskCancelled() {
	dead, source := newPair()
	deadArn := arnOf(dead)
	for n := range 5 {
		bury(source, fmt.Sprint(n))
	}
	started := must(queueing.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{
		SourceArn:                    &deadArn,
		DestinationArn:               aws.String(arnOf(newQueue(nil))),
		MaxNumberOfMessagesPerSecond: aws.Int32(1),
	}))
	equal(*latestTask(deadArn).Status, "RUNNING")
	cancelled := must(queueing.CancelMessageMoveTask(ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: started.TaskHandle}))
	check(cancelled.ApproximateNumberOfMessagesMoved < 5, "moved all")
	until(func() bool { return *latestTask(deadArn).Status == "CANCELLED" })
}

func moveTaskWithoutQueue() {
	dead, _ := newPair()
	deadArn := arnOf(dead)
	missing := deadArn[:strings.LastIndex(deadArn, ":")+1] + newName()
	_, err := queueing.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &missing})
	refused[*types.ResourceNotFoundException](err, "ResourceNotFoundException", 404)
}

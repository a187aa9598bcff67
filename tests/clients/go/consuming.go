// Workers as people write them in Go: goroutines that poll, handle and delete; a handler that fails once.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var consuming = []scenario{{"consumer", consumer}}

const workers = 3

func consumer() {
	queue := newQueue(nil)
	var jobs []string
	for n := range 30 {
		jobs = append(jobs, fmt.Sprintf("job %02d", n))
	}
	for tens := range slices.Chunk(jobs, 10) {
		var entries []types.SendMessageBatchRequestEntry
		for n, job := range tens {
			entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(n)), MessageBody: &job})
		}
		must(queueing.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: queue, Entries: entries}))
	}

	handled := make(chan string, len(jobs))
	running, stop := context.WithCancel(ctx)
	var fail sync.Once
	var polling sync.WaitGroup
	for range workers {
		polling.Add(1)
		go func() {
			defer polling.Done()
			work(running, queue, func(job string) (err error) {
				if job == "job 07" {
					fail.Do(func() { err = errors.New("the first try fails") })
				}
				if err == nil {
					handled <- job
				}
				return err
			})
		}()
	}
	var done []string
	for range jobs {
		done = append(done, <-handled)
	}
	until(func() bool { return attributesOf(queue)["ApproximateNumberOfMessagesNotVisible"] == "0" })
	stop()
	polling.Wait()
	equal(attributesOf(queue)["ApproximateNumberOfMessages"], "0")
	equal(slices.Sorted(slices.Values(done)), jobs)
}

// work handles what comes until it is told to stop; what could not be handled is shown again at once.
func work(ctx context.Context, queue *string, handle func(string) error) {
	for ctx.Err() == nil {
		received, err := queueing.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl:            queue,
			MaxNumberOfMessages: 10,
			WaitTimeSeconds:     20,
		})
		if err != nil {
			check(ctx.Err() != nil, "%v", err)
			return
		}
		for _, message := range received.Messages {
			if handle(*message.Body) == nil {
				remove(queue, message.ReceiptHandle)
				continue
			}
			must(queueing.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
				QueueUrl:      queue,
				ReceiptHandle: message.ReceiptHandle,
			}))
		}
	}
}

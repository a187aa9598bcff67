// Subscriptions: made, changed, listed in pages, confirmed by token, ended.
package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

var subscriptions = []scenario{
	{"subscription-attributes", subscriptionAttributes},
	{"list-subscriptions", listSubscriptions},
	{"confirm-subscription", confirmSubscription},
}

func subscriptionAttributes() {
	arn := subscribe(newTopic(nil), newQueue(nil), queueing, nil)
	set := func(name, text string) error {
		_, err := notifying.SetSubscriptionAttributes(ctx, &sns.SetSubscriptionAttributesInput{
			SubscriptionArn: arn, AttributeName: &name, AttributeValue: &text,
		})
		return err
	}
	must(0, set("FilterPolicyScope", "MessageBody"))
	must(0, set("FilterPolicy", `{"a": {"b": [{"prefix": "c"}]}}`))
	must(0, set("RawMessageDelivery", "true"))
	refused[*types.InvalidParameterException](set("FilterPolicy", `{"a": [{"like": "b"}]}`), "InvalidParameter", 400)
	asked := &sns.GetSubscriptionAttributesInput{SubscriptionArn: arn}
	found := must(notifying.GetSubscriptionAttributes(ctx, asked)).Attributes
	equal(found["FilterPolicy"], `{"a":{"b":[{"prefix":"c"}]}}`)
	equal(found["FilterPolicyScope"], "MessageBody")
	equal(found["RawMessageDelivery"], "true")
	equal(found["PendingConfirmation"], "false")
	must(notifying.Unsubscribe(ctx, &sns.UnsubscribeInput{SubscriptionArn: arn}))
	_, err := notifying.GetSubscriptionAttributes(ctx, asked)
	refused[*types.NotFoundException](err, "NotFound", 404)
}

func listSubscriptions() {
	topic := newTopic(nil)
	beside := strings.Replace((*topic)[:strings.LastIndex(*topic, ":")], ":sns:", ":sqs:", 1)
	var made, found []string
	for range 205 {
		made = append(made, *must(notifying.Subscribe(ctx, &sns.SubscribeInput{
			TopicArn: topic,
			Protocol: aws.String("sqs"),
			Endpoint: aws.String(fmt.Sprint(beside, ":", newName())),
		})).SubscriptionArn)
	}
	var counts []int
	asked := &sns.ListSubscriptionsByTopicInput{TopicArn: topic}
	for pages := sns.NewListSubscriptionsByTopicPaginator(notifying, asked); pages.HasMorePages(); {
		page := must(pages.NextPage(ctx)).Subscriptions
		counts = append(counts, len(page))
		for _, each := range page {
			found = append(found, *each.SubscriptionArn)
		}
	}
	equal(counts, []int{100, 100, 5})
	equal(slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(made)))
}

func confirmSubscription() {
	theirs, stranger := sqs.NewFromConfig(strangers()), sns.NewFromConfig(strangers())
	topic := newTopic(nil)
	queue := must(theirs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(newName())})).QueueUrl
	equal(*subscribe(topic, queue, theirs, nil), "pending confirmation")
	request := publishedTo(queue, theirs)
	equal(request.Type, "SubscriptionConfirmation")
	wrong := &sns.ConfirmSubscriptionInput{TopicArn: topic, Token: aws.String("2336412f37")}
	_, err := stranger.ConfirmSubscription(ctx, wrong)
	refused[*types.InvalidParameterException](err, "InvalidParameter", 400)
	confirmed := must(stranger.ConfirmSubscription(ctx, &sns.ConfirmSubscriptionInput{
		TopicArn: topic, Token: &request.Token,
	}))
	check(strings.HasPrefix(*confirmed.SubscriptionArn, *topic+":"), "%s", *confirmed.SubscriptionArn)
	publish(topic, "across", nil)
	equal(publishedTo(queue, theirs).Message, "across")
}

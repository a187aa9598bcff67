// Topics: made, shown, tagged, shared; and how they feed queues: in an envelope, raw, and in tens.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

var topics = []scenario{
	{"topic-attributes", topicAttributes},
	{"topic-missing", topicMissing},
	{"topic-to-queue", topicToQueue},
	{"topic-to-queue-raw", topicToQueueRaw},
	{"topic-to-queue-filtered", topicToQueueFiltered},
	{"message-structure", messageStructure},
	{"message-attributes-refused", messageAttributesRefused},
	{"publish-batch", publishBatch},
	{"topic-permissions", topicPermissions},
}

type (
	attributeValue = types.MessageAttributeValue
	value          struct{ Type, Value string }
	envelope       struct {
		Type, MessageId, TopicArn, Subject, Message, Token, SequenceNumber string
		MessageAttributes                                                  map[string]value
	}
)

var carried = map[string]attributeValue{
	"kind":  {DataType: aws.String("String"), StringValue: aws.String("news")},
	"price": {DataType: aws.String("Number"), StringValue: aws.String("12.50")},
	"tags":  {DataType: aws.String("String.Array"), StringValue: aws.String(`["a","b"]`)},
	"blob":  {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
}

func newTopic(attributes map[string]string) *string {
	name := newName()
	if attributes["FifoTopic"] == "true" {
		name += ".fifo"
	}
	return must(notifying.CreateTopic(ctx, &sns.CreateTopicInput{Name: &name, Attributes: attributes})).TopicArn
}

// subscribe lets the topic into the owner's queue; it answers what Subscribe does.
func subscribe(topic, queue *string, owner *sqs.Client, attributes map[string]string) *string {
	arn := arnFor(owner, queue)
	policy := fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{
		"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage",
		"Resource": %q, "Condition": {"ArnEquals": {"aws:SourceArn": %q}}}]}`, arn, *topic)
	must(owner.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{
		QueueUrl:   queue,
		Attributes: map[string]string{"Policy": policy},
	}))
	return must(notifying.Subscribe(ctx, &sns.SubscribeInput{
		TopicArn:   topic,
		Protocol:   aws.String("sqs"),
		Endpoint:   &arn,
		Attributes: attributes,
	})).SubscriptionArn
}

func newSubscribed(attributes map[string]string) (topic, queue *string) {
	topic, queue = newTopic(nil), newQueue(nil)
	subscribe(topic, queue, queueing, attributes)
	return topic, queue
}

func publish(topic *string, text string, attributes map[string]attributeValue) {
	must(notifying.Publish(ctx, &sns.PublishInput{TopicArn: topic, Message: &text, MessageAttributes: attributes}))
}

// publishedTo is what the body of the next message says; it is deleted.
func publishedTo(queue *string, owner *sqs.Client) (found envelope) {
	message := receiveFrom(owner, queue)
	must(owner.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: message.ReceiptHandle}))
	must(0, json.Unmarshal([]byte(*message.Body), &found))
	return found
}

func topicAttributes() {
	name := newName()
	create := func(title string) (*sns.CreateTopicOutput, error) {
		return notifying.CreateTopic(ctx, &sns.CreateTopicInput{
			Name:       &name,
			Attributes: map[string]string{"DisplayName": title, "SignatureVersion": "2"},
			Tags:       []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}},
		})
	}
	topic := must(create("News")).TopicArn
	check(strings.HasSuffix(*topic, ":"+name), "%s", *topic)
	equal(*must(create("News")).TopicArn, *topic)
	_, err := create("Olds")
	refused[*types.InvalidParameterException](err, "InvalidParameter", 400)
	must(notifying.SetTopicAttributes(ctx, &sns.SetTopicAttributesInput{
		TopicArn:       topic,
		AttributeName:  aws.String("DisplayName"),
		AttributeValue: aws.String("Latest <news>"),
	}))
	found := must(notifying.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: topic})).Attributes
	equal(found["DisplayName"], "Latest <news>")
	equal(found["SignatureVersion"], "2")
	check(strings.Contains(found["EffectiveDeliveryPolicy"], `"numRetries":3`), "%v", found)
	must(notifying.TagResource(ctx, &sns.TagResourceInput{
		ResourceArn: topic,
		Tags:        []types.Tag{{Key: aws.String("empty"), Value: aws.String("")}},
	}))
	must(notifying.UntagResource(ctx, &sns.UntagResourceInput{ResourceArn: topic, TagKeys: []string{"team", "never"}}))
	tags := must(notifying.ListTagsForResource(ctx, &sns.ListTagsForResourceInput{ResourceArn: topic})).Tags
	equal(len(tags), 1)
	equal(*tags[0].Key+"="+*tags[0].Value, "empty=")
}

func topicMissing() {
	topic := newTopic(nil)
	for range 2 { // deleted is deleted
		must(notifying.DeleteTopic(ctx, &sns.DeleteTopicInput{TopicArn: topic}))
	}
	_, err := notifying.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: topic})
	refused[*types.NotFoundException](err, "NotFound", 404)
	_, err = notifying.Publish(ctx, &sns.PublishInput{TopicArn: topic, Message: aws.String("x")})
	refused[*types.NotFoundException](err, "NotFound", 404)
	nowhere := &sns.PublishInput{TopicArn: aws.String("arn:aws:sns:nowhere"), Message: aws.String("x")}
	_, err = notifying.Publish(ctx, nowhere)
	refused[*types.InvalidParameterException](err, "InvalidParameter", 400)
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
	equal(publishedTo(queue, queueing), envelope{
		Type:      "Notification",
		MessageId: *published.MessageId,
		TopicArn:  *topic,
		Subject:   "greetings",
		Message:   text,
		MessageAttributes: map[string]value{
			"kind":  {"String", "news"},
			"price": {"Number", "12.50"},
			"tags":  {"String.Array", `["a","b"]`},
			"blob":  {"Binary", "AP8="},
		},
	})
}

func topicToQueueRaw() {
	topic, queue := newSubscribed(map[string]string{"RawMessageDelivery": "true"})
	publish(topic, "as it is", carried)
	message := receiveOne(queue)
	equal(*message.Body, "as it is")
	equal(len(message.MessageAttributes), 4)
	equal(*message.MessageAttributes["kind"].StringValue, "news")
	equal(*message.MessageAttributes["price"].StringValue, "12.5") // as SQS writes it
	equal(*message.MessageAttributes["tags"].DataType, "String.Array")
	equal(message.MessageAttributes["blob"].BinaryValue, []byte{0, 255})
}

func topicToQueueFiltered() {
	topic, queue := newSubscribed(map[string]string{
		"RawMessageDelivery": "true",
		"FilterPolicy":       `{"price": [{"numeric": ["<", 100]}], "tags": ["b"]}`,
	})
	dear := maps.Clone(carried)
	dear["price"] = attributeValue{DataType: aws.String("Number"), StringValue: aws.String("100")}
	publish(topic, "dear", dear)
	publish(topic, "without", nil)
	publish(topic, "cheap", carried)
	equal(*receiveOne(queue).Body, "cheap")
}

func messageStructure() {
	topic, queue := newSubscribed(nil)
	structured := func(text string) error {
		_, err := notifying.Publish(ctx, &sns.PublishInput{
			TopicArn: topic, Message: &text, MessageStructure: aws.String("json"),
		})
		return err
	}
	must(0, structured(`{"default": "for all", "sqs": "for queues", "http": "for the web"}`))
	equal(publishedTo(queue, queueing).Message, "for queues")
	refused[*types.InvalidParameterException](structured(`{"sqs": "x"}`), "InvalidParameter", 400)
}

func messageAttributesRefused() {
	price := attributeValue{DataType: aws.String("Number"), StringValue: aws.String("cheap")}
	_, err := notifying.Publish(ctx, &sns.PublishInput{
		TopicArn:          newTopic(nil),
		Message:           aws.String("x"),
		MessageAttributes: map[string]attributeValue{"price": price},
	})
	refused[*types.InvalidParameterValueException](err, "ParameterValueInvalid", 400)
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
	equal(*published.Failed[0].Code, "InvalidParameter")
	check(published.Failed[0].SenderFault, "whose fault is it?")
	equal(slices.Sorted(slices.Values(bodies(receiveAll(queue, 9)))), texts)
	_, err := notifying.PublishBatch(ctx, &sns.PublishBatchInput{
		TopicArn:                   topic,
		PublishBatchRequestEntries: []types.PublishBatchRequestEntry{bad, bad},
	})
	refused[*types.BatchEntryIdsNotDistinctException](err, "BatchEntryIdsNotDistinct", 400)
}

func topicPermissions() {
	topic, label := newTopic(nil), aws.String("guest")
	stranger := sns.NewFromConfig(strangers())
	account := must(sts.NewFromConfig(strangers()).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})).Account
	fromElsewhere := &sns.PublishInput{TopicArn: topic, Message: aws.String("from elsewhere")}
	granted := &sns.AddPermissionInput{
		TopicArn: topic, Label: label, AWSAccountId: []string{*account}, ActionName: []string{"Publish"},
	}

	_, err := stranger.Publish(ctx, fromElsewhere)
	refused[*types.AuthorizationErrorException](err, "AuthorizationError", 403)
	must(notifying.AddPermission(ctx, granted))
	must(notifying.AddPermission(ctx, granted))
	granted.ActionName = []string{"Publish", "Subscribe"}
	_, err = notifying.AddPermission(ctx, granted)
	refused[*types.InvalidParameterException](err, "InvalidParameter", 400)
	must(stranger.Publish(ctx, fromElsewhere))
	must(notifying.RemovePermission(ctx, &sns.RemovePermissionInput{TopicArn: topic, Label: label}))
	_, err = stranger.Publish(ctx, fromElsewhere)
	refused[*types.AuthorizationErrorException](err, "AuthorizationError", 403)
}

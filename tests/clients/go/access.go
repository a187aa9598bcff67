// Who may: signatures that are good, wrong and absent, and another account with a permission.
package main

import (
	"os"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

var access = []scenario{
	{"caller-identity", callerIdentity},
	{"wrong-secret", wrongSecret},
	{"unknown-key", unknownKey},
	{"anonymous", anonymous},
	{"permissions", permissions},
}

func callerIdentity() {
	identity := must(tokens.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}))
	check(regexp.MustCompile(`^\d{12}$`).MatchString(*identity.Account), "account %s", *identity.Account)
	equal(*identity.Arn, "arn:aws:iam::"+*identity.Account+":root")
}

func as(provider aws.CredentialsProvider) aws.Config {
	other := settings.Copy()
	other.Credentials = provider
	return other
}

// strangers is how the other account calls.
func strangers() aws.Config {
	return as(credentials.NewStaticCredentialsProvider(
		os.Getenv("STRANGER_ACCESS_KEY_ID"), os.Getenv("STRANGER_SECRET_ACCESS_KEY"), "",
	))
}

func refusesTo(provider aws.CredentialsProvider, code string) {
	_, err := sqs.NewFromConfig(as(provider)).ListQueues(ctx, &sqs.ListQueuesInput{})
	refusedWith(err, code, 403)
}

func wrongSecret() {
	key := must(settings.Credentials.Retrieve(ctx)).AccessKeyID
	refusesTo(credentials.NewStaticCredentialsProvider(key, "wrong", ""), "SignatureDoesNotMatch")
}

func unknownKey() {
	nobody := credentials.NewStaticCredentialsProvider("AKIANOBODYNOBODYNOBO", "wrong", "")
	refusesTo(nobody, "InvalidClientTokenId")
}

func anonymous() { refusesTo(aws.AnonymousCredentials{}, "AccessDenied") }

func permissions() {
	stranger := strangers()
	identity := must(sts.NewFromConfig(stranger).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}))
	elsewhere := sqs.NewFromConfig(stranger)
	queue, label := newQueue(nil), aws.String("guest")
	fromElsewhere := &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("from elsewhere")}

	_, err := elsewhere.SendMessage(ctx, fromElsewhere)
	refusedWith(err, "AccessDenied", 403)
	must(queueing.AddPermission(ctx, &sqs.AddPermissionInput{
		QueueUrl:      queue,
		Label:         label,
		AWSAccountIds: []string{*identity.Account},
		Actions:       []string{"SendMessage"},
	}))
	must(elsewhere.SendMessage(ctx, fromElsewhere))
	equal(receiveOne(queue).Attributes["SenderId"], *identity.Account)
	must(queueing.RemovePermission(ctx, &sqs.RemovePermissionInput{QueueUrl: queue, Label: label}))
	_, err = elsewhere.SendMessage(ctx, fromElsewhere)
	refusedWith(err, "AccessDenied", 403)
}

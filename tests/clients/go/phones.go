// Mobile push and SMS: applications, endpoints, phone numbers.
package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
)

var phones = []scenario{
	{"platform-application", platformApplication},
	{"sms", sms},
}

func platformApplication() {
	application := must(notifying.CreatePlatformApplication(ctx, &sns.CreatePlatformApplicationInput{
		Name:       aws.String(newName()),
		Platform:   aws.String("APNS"),
		Attributes: map[string]string{"PlatformCredential": "key", "PlatformPrincipal": "certificate"},
	})).PlatformApplicationArn
	device := must(notifying.CreatePlatformEndpoint(ctx, &sns.CreatePlatformEndpointInput{
		PlatformApplicationArn: application,
		Token:                  aws.String("ABCD"),
		CustomUserData:         aws.String("Ann's"),
	})).EndpointArn
	listed := must(notifying.ListEndpointsByPlatformApplication(ctx, &sns.ListEndpointsByPlatformApplicationInput{
		PlatformApplicationArn: application,
	})).Endpoints
	equal(len(listed), 1)
	equal(*listed[0].EndpointArn, *device)
	equal(listed[0].Attributes, map[string]string{"CustomUserData": "Ann's", "Enabled": "true", "Token": "abcd"})
	push := &sns.PublishInput{
		TargetArn:        device,
		Message:          aws.String(`{"default": "d", "APNS": "{\"aps\": {}}"}`),
		MessageStructure: aws.String("json"),
	}
	check(*must(notifying.Publish(ctx, push)).MessageId != "", "no id")
	must(notifying.SetEndpointAttributes(ctx, &sns.SetEndpointAttributesInput{
		EndpointArn: device, Attributes: map[string]string{"Enabled": "false"},
	}))
	_, err := notifying.Publish(ctx, push)
	refused[*types.EndpointDisabledException](err, "EndpointDisabled", 400)
	must(notifying.DeleteEndpoint(ctx, &sns.DeleteEndpointInput{EndpointArn: device}))
	_, err = notifying.GetEndpointAttributes(ctx, &sns.GetEndpointAttributesInput{EndpointArn: device})
	refused[*types.NotFoundException](err, "NotFound", 404)
	must(notifying.DeletePlatformApplication(ctx, &sns.DeletePlatformApplicationInput{
		PlatformApplicationArn: application,
	}))
}

func sms() {
	set := func(kind string) error {
		attributes := map[string]string{"DefaultSMSType": kind}
		_, err := notifying.SetSMSAttributes(ctx, &sns.SetSMSAttributesInput{Attributes: attributes})
		return err
	}
	must(0, set("Transactional"))
	asked := &sns.GetSMSAttributesInput{Attributes: []string{"DefaultSMSType"}}
	equal(must(notifying.GetSMSAttributes(ctx, asked)).Attributes, map[string]string{"DefaultSMSType": "Transactional"})
	refused[*types.InvalidParameterException](set("Loud"), "InvalidParameter", 400)
	must(0, set(""))
	number := aws.String("+15551234567")
	text := &sns.PublishInput{PhoneNumber: number, Message: aws.String("hello")}
	check(*must(notifying.Publish(ctx, text)).MessageId != "", "no id")
	optedOut := &sns.CheckIfPhoneNumberIsOptedOutInput{PhoneNumber: number}
	check(!must(notifying.CheckIfPhoneNumberIsOptedOut(ctx, optedOut)).IsOptedOut, "opted out")
	text.PhoneNumber = aws.String("nobody")
	_, err := notifying.Publish(ctx, text)
	refused[*types.InvalidParameterException](err, "InvalidParameter", 400)
}

"""Mobile push and SMS through boto3: what is sent to applications and to phone numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_one

CREDENTIALS = {"PlatformCredential": "key", "PlatformPrincipal": "certificate"}
PHONE = "+15551234567"


@pytest.fixture
def application(sns: Any, new_name: Callable[[], str]) -> Iterator[str]:
    created = sns.create_platform_application(Name=new_name(), Platform="APNS", Attributes=CREDENTIALS)
    yield created["PlatformApplicationArn"]
    sns.delete_platform_application(PlatformApplicationArn=created["PlatformApplicationArn"])


def endpoint_of(sns: Any, application: str, token: str, **attributes: str) -> str:
    created = sns.create_platform_endpoint(PlatformApplicationArn=application, Token=token, Attributes=attributes)
    return str(created["EndpointArn"])


def in_outbox(service: Service, destination: str) -> list[str]:
    """The lines of what was sent there."""
    listed = service.cns("outbox", "list", "--limit", "1000").stdout
    return [line for line in listed.splitlines() if destination in line]


def sent(service: Service, destination: str, n: int) -> None:
    wait_until(lambda: len(in_outbox(service, destination)) >= n)
    assert len(in_outbox(service, destination)) == n


@pytest.mark.spec("push.disabled", "push.attributes")
def test_a_push_reaches_the_outbox(service: Service, sns: Any, application: str) -> None:
    arn = endpoint_of(sns, application, "device")
    sns.publish(TargetArn=arn, Message='{"default": "d", "APNS": "for Apple"}', MessageStructure="json")
    sent(service, arn, 1)
    assert in_outbox(service, arn)[0].endswith("for Apple")
    sns.set_endpoint_attributes(EndpointArn=arn, Attributes={"Enabled": "false"})
    with pytest.raises(sns.exceptions.EndpointDisabledException, match="Endpoint is disabled"):
        sns.publish(TargetArn=arn, Message="m")


@pytest.mark.spec("phone.accepted", "phone.opted-out", "optout.check", "optout.list", "optout.opt-in")
def test_an_sms_and_the_answer_stop(service: Service, sns: Any) -> None:
    account = service.client("sts").get_caller_identity()["Account"]
    sns.publish(PhoneNumber=PHONE, Message="first")
    sent(service, PHONE, 1)
    service.cns("sms", "opt-out", PHONE, "--account", account)
    assert sns.check_if_phone_number_is_opted_out(phoneNumber=PHONE)["isOptedOut"] is True
    assert PHONE in sns.list_phone_numbers_opted_out()["phoneNumbers"]  # other tests share the service
    assert sns.publish(PhoneNumber=PHONE, Message="not wanted")["MessageId"]
    sns.opt_in_phone_number(phoneNumber=PHONE)
    assert sns.check_if_phone_number_is_opted_out(phoneNumber=PHONE)["isOptedOut"] is False
    sns.publish(PhoneNumber=PHONE, Message="second")
    sent(service, PHONE, 2)
    assert [line.split()[-1] for line in in_outbox(service, PHONE)] == ["second", "first"]


@pytest.mark.spec("phone.subscribed-opted-out", "push.subscribed-disabled", "push.subscribed-gone")
def test_subscribers_who_are_sent_nothing(service: Service, sns: Any, sqs: Any, topic: Topic, application: str) -> None:
    """The message goes to the subscription's dead-letter queue if it has one, and else counts as dropped."""
    account = service.client("sts").get_caller_identity()["Account"]
    number, other_number = "+15551110001", "+15551110002"
    disabled, gone = endpoint_of(sns, application, "disabled"), endpoint_of(sns, application, "gone")
    dead = queue_for(sqs, topic.arn)
    topic.subscribe("sms", number)
    topic.subscribe("sms", other_number)
    topic.subscribe("application", disabled)
    topic.subscribe("application", gone, **topic.dead_letters_to(arn_of(sqs, dead)))
    service.cns("sms", "opt-out", number, "--account", account)
    sns.set_endpoint_attributes(EndpointArn=disabled, Attributes={"Enabled": "false"})
    sns.delete_endpoint(EndpointArn=gone)

    def counted() -> dict[str, float]:
        causes = ("permanent:opted_out", "permanent:endpoint_disabled", "permanent:endpoint_gone")
        return {cause: service.metric("cns_notifications_dropped_total", cause=cause) for cause in causes}

    before = counted()
    topic.publish("unwanted")
    sent(service, other_number, 1)
    expected = {**before, "permanent:opted_out": 1.0, "permanent:endpoint_disabled": 1.0}
    wait_until(lambda: counted() == expected, lambda: str(counted()))
    assert "unwanted" in receive_one(sqs, dead)["Body"]
    assert [in_outbox(service, destination) for destination in (number, disabled, gone)] == [[], [], []]


@pytest.mark.spec("sandbox.status", "sandbox.enter", "sandbox.verify", "sandbox.delete")
def test_a_number_in_the_sandbox(service: Service, sns: Any) -> None:
    number = "+15557654321"
    assert sns.get_sms_sandbox_account_status()["IsInSandbox"] is False
    sns.create_sms_sandbox_phone_number(PhoneNumber=number)
    sent(service, number, 1)
    password = in_outbox(service, number)[0].split()[-1]
    wrong = f"{(int(password) + 1) % 1_000_000:06}"
    with pytest.raises(sns.exceptions.VerificationException):
        sns.verify_sms_sandbox_phone_number(PhoneNumber=number, OneTimePassword=wrong)
    sns.verify_sms_sandbox_phone_number(PhoneNumber=number, OneTimePassword=password)
    listed = sns.list_sms_sandbox_phone_numbers()["PhoneNumbers"]
    assert listed == [{"PhoneNumber": number, "Status": "Verified"}]
    sns.delete_sms_sandbox_phone_number(PhoneNumber=number)
    with pytest.raises(sns.exceptions.ResourceNotFoundException):
        sns.delete_sms_sandbox_phone_number(PhoneNumber=number)
